//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

// drain puts all queue pairs into the error state and waits until all posted work has
// completed. No completion may be missing, and no additional completion may come.
func (c *client) drain() error {
	for _, l := range c.flows {
		if err := l.qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}); err != nil {
			return err
		}
		// The flush completion of the last work shows that all work before it was flushed.
		if l.sends.Room() > 0 {
			if err := l.probe(); err != nil {
				return err
			}
		}
	}
	if err := c.drainUntil(func() int { return c.outstanding(true) }); err != nil {
		return err
	}
	if n, err := c.cq.Poll(c.list[:]); n > 0 || err != nil {
		c.count.Duplicated += uint64(n)
		if err == nil {
			err = verdict.New(verdict.Repeated, "one completion of each work request", "%d more completions than work requests", n)
		}
		return err
	}
	if err := c.audit(); err != nil {
		return err
	}
	for _, l := range c.flows {
		if err := l.mem.intact(); err != nil {
			return wrong("flow %d: after the end of its peer: %v", l.i, err)
		}
	}
	if err := edgesIntact(c.shared.mr.Bytes()); err != nil {
		return wrong("shared receives after the end of the peer: %v", err)
	}
	return nil
}

// audit compares the device's count of completions with that of this client, after all have
// come. So it finds completions that Poll drops because they match no work, such as a second
// completion of the same work.
func (c *client) audit() error {
	for m := c.mark(); ; time.Sleep(time.Millisecond) { // the device publishes its count at intervals
		s, err := c.ctx.Status()
		switch {
		case err != nil:
			return err
		case s.CQEs == c.polled:
			return nil
		case s.CQEs > c.polled:
			c.count.Duplicated += s.CQEs - c.polled
			return verdict.New(verdict.Repeated, fmt.Sprintf("%d completions, for the work that was posted", c.polled), "the device has written %d", s.CQEs)
		case gone(c.ctx):
			return nicless.ErrDeviceGone
		case c.passed(m) > goneTime:
			return c.late(verdict.NoAnswer, m, fmt.Sprintf("the device's count of completions is that of those polled, %d, within %v", c.polled, goneTime),
				"it is %d", s.CQEs)
		}
	}
}

// outstanding returns how many work requests have not completed. It does not count the receives
// of the shared queue.
func (c *client) outstanding(receives bool) (n int) {
	for _, l := range c.flows {
		n += l.sends.Outstanding()
		if receives && l.recvs != nil {
			n += l.recvs.Outstanding()
		}
	}
	return n
}

// drainUntil accounts for completions until the function left returns 0.
func (c *client) drainUntil(left func() int) error {
	m := c.mark()
	defer c.Rest()
	for left() > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), max(0, c.spec.hang()-c.passed(m)))
		n, err := c.cq.Wait(ctx, c.list[:])
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && c.passed(m) < c.spec.hang() {
			continue // this process was stopped meanwhile
		}
		if errors.Is(err, context.DeadlineExceeded) {
			f := c.missing(m)
			if f.Kind != verdict.Undecided {
				return f
			}
			c.w.send(Report{Is: isFault, Fault: f}) // and go on: the machine was too busy
			m = c.mark()
			continue
		}
		if err != nil {
			return err
		}
		if err := c.account(c.list[:n]); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the fault of work that needs no peer and has not completed in c.spec.hang(). If the engine
// answers a request meanwhile, it works, and the completions are lost.
func (c *client) missing(m mark) *verdict.Fault {
	k, text := verdict.Lost, ""
	for _, l := range c.flows {
		if _, err := l.qp.Query(); err != nil {
			k = verdict.NoAnswer
		}
		text += "; " + l.progress()
	}
	f := verdict.Late(k, c.evidence(m), fmt.Sprintf("completions of all work that is posted, within %v", c.spec.hang()), "some are missing%s", text)
	if f.Kind != verdict.Lost {
		return f
	}
	for _, l := range c.flows {
		l.sends.End()
		if l.recvs != nil {
			l.recvs.End()
		}
	}
	c.report()
	return f
}

// deviceGone checks that all calls report that the device is gone, then closes everything.
func (c *client) deviceGone() error {
	c.count.DevicesGone++
	begin := c.mark()
	defer c.Rest()
	tooLate := func(format string, args ...any) error {
		e := c.Alone(begin.Mark)
		e.Stopped = c.stopped(c.slot) - begin.stopped
		return verdict.Late(verdict.NoAnswer, e, fmt.Sprintf("all calls tell within %v that the device is gone", goneTime), format, args...)
	}
	for !gone(c.ctx) { // a call on another descriptor can notice the end just before the context does
		if c.passed(begin) > goneTime {
			return tooLate("a call has, but its context is not done")
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(goneTime / 10):
		}
	}
	for _, l := range c.flows {
		if l.qp == nil {
			continue
		}
		if err := l.qp.PostSend(&nicless.SendWR{Op: nicless.Write}); !errors.Is(err, nicless.ErrDeviceGone) {
			return verdict.New(verdict.Failed, nicless.ErrDeviceGone.Error(), "the device is gone, but a post returned %v", err)
		}
		if err := l.receive(&nicless.RecvWR{}); !errors.Is(err, nicless.ErrDeviceGone) {
			return verdict.New(verdict.Failed, nicless.ErrDeviceGone.Error(), "the device is gone, but posting a receive returned %v", err)
		}
		l.sends.Abandon()
		if l.recvs != nil {
			l.recvs.Abandon()
		}
	}
	if c.cq != nil {
		// Earlier completions can still be polled. There is at most one queue full of them.
		for left := 2 * completions; ; left -= len(c.list) {
			n, err := c.cq.Wait(context.Background(), c.list[:])
			if errors.Is(err, nicless.ErrDeviceGone) {
				break
			}
			if err != nil || n == 0 || left < 0 {
				return verdict.New(verdict.Failed, nicless.ErrDeviceGone.Error(), "the device is gone, but waiting returned %d completions, %v", n, err)
			}
		}
	}
	if d := c.passed(begin); d > goneTime {
		return tooLate("that took %v", d)
	}
	c.w.send(Report{Is: isGone, Ready: c.ready})
	for _, l := range c.flows {
		if l.qp == nil {
			continue // the memory of this flow was not prepared
		}
		if err := l.mem.intact(); err != nil {
			return wrong("flow %d: after the end of the device: %v", l.i, err)
		}
	}
	c.flows, c.cq, c.shared = nil, nil, nil
	return c.ctx.Close()
}

// leave closes everything one by one and checks that no resources are left.
func (c *client) leave(before Resources) error {
	if err := c.drain(); err != nil {
		return err
	}
	for _, l := range c.flows {
		if err := l.mem.untouched(); err != nil {
			return wrong("flow %d: at the end: %v", l.i, err)
		}
		if err := l.close(); err != nil {
			return err
		}
		if err := l.mem.close(); err != nil {
			return err
		}
	}
	c.flows = nil
	if !isPoison(c.shared.mr.Bytes()) {
		return wrong("shared receive buffers were written outside of messages")
	}
	if err := errors.Join(c.shared.srq.Close(), c.shared.mr.Close()); err != nil {
		return err
	}
	if err := errors.Join(c.cq.Close(), c.pd.Close(), c.ctx.Close()); err != nil {
		return err
	}
	var after Resources
	for m := c.mark(); ; time.Sleep(time.Millisecond) {
		c.Quiet(func() { after = takeResources() })
		if after.leaked(before) == "" {
			break
		}
		if c.passed(m) > goneTime {
			stacks := make([]byte, 1<<14)
			return verdict.Late(verdict.Leaked, c.Alone(m.Mark), fmt.Sprintf("what it had at the start, within %v", goneTime),
				"a client that closed everything still has %s\n%s", after.leaked(before), stacks[:runtime.Stack(stacks, true)])
		}
	}
	c.report()
	c.w.send(Report{Is: isClosed})
	return nil
}
