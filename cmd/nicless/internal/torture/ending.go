//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/nicless/nicless"
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
	if err := c.settle(func() int { return c.outstanding(true) }); err != nil {
		return err
	}
	if n, err := c.cq.Poll(c.list[:]); n > 0 || err != nil {
		c.count.Duplicated += uint64(n)
		if err == nil {
			err = corrupt("%d more completions than work requests", n)
		}
		return err
	}
	if err := c.audit(); err != nil {
		return err
	}
	for _, l := range c.flows {
		if err := l.mem.intact(); err != nil {
			return corrupt("flow %d: after the end of its peer: %v", l.i, err)
		}
	}
	return edgesIntact(c.shared.mr.Bytes())
}

// audit compares the device's count of completions with that of this client, after all have
// come. So it finds completions that Poll drops because they match no work, such as a second
// completion of the same work.
func (c *client) audit() error {
	for end := c.now().Add(goneTime); ; time.Sleep(time.Millisecond) { // the device publishes its count at intervals
		s, err := c.ctx.Status()
		switch {
		case err != nil:
			return err
		case s.CQEs == c.polled:
			return nil
		case s.CQEs > c.polled:
			c.count.Duplicated += s.CQEs - c.polled
			return corrupt("the device has written %d completions, but only %d were for posted work", s.CQEs, c.polled)
		case gone(c.ctx):
			return nicless.ErrDeviceGone
		case c.now().After(end):
			return corrupt("%d completions were polled, but the device counts only %d", c.polled, s.CQEs)
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

// settle accounts for completions until the function left returns 0.
func (c *client) settle(left func() int) error {
	for end := time.Now().Add(hangTime); left() > 0; {
		ctx, cancel := context.WithDeadline(context.Background(), end)
		n, err := c.cq.Wait(ctx, c.list[:])
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			err = c.hang()
			for _, l := range c.flows {
				l.sends.End()
				if l.recvs != nil {
					l.recvs.End()
				}
			}
			c.report()
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

// deviceGone checks that all calls report that the device is gone, then closes everything.
func (c *client) deviceGone() error {
	c.count.DevicesGone++
	begin := c.now()
	for !gone(c.ctx) { // a call on another descriptor can notice the end just before the context does
		if c.now().Sub(begin) > goneTime {
			return corrupt("a call reported that the device is gone, but its context is not done")
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
			return corrupt("the device is gone, but a post returned %v", err)
		}
		if err := l.receive(&nicless.RecvWR{}); !errors.Is(err, nicless.ErrDeviceGone) {
			return corrupt("the device is gone, but posting a receive returned %v", err)
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
				return corrupt("the device is gone, but waiting returned %d completions, %v", n, err)
			}
		}
	}
	if d := c.now().Sub(begin); d > goneTime {
		return corrupt("noticing that the device is gone took %v", d)
	}
	c.w.say(Report{Is: isGone, Ready: c.ready})
	for _, l := range c.flows {
		if l.qp == nil {
			continue // the memory of this flow was not prepared
		}
		if err := l.mem.intact(); err != nil {
			return corrupt("flow %d: after the end of the device: %v", l.i, err)
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
			return corrupt("flow %d: at the end: %v", l.i, err)
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
		return corrupt("shared receive buffers were written outside of messages")
	}
	if err := errors.Join(c.shared.srq.Close(), c.shared.mr.Close()); err != nil {
		return err
	}
	if err := errors.Join(c.cq.Close(), c.pd.Close(), c.ctx.Close()); err != nil {
		return err
	}
	var after Resources
	for end := time.Now().Add(goneTime); ; time.Sleep(time.Millisecond) {
		if after = takeResources(); after.leaked(before) == "" {
			break
		}
		if time.Now().After(end) {
			stacks := make([]byte, 1<<14)
			return corrupt("a client that closed everything still has %s\n%s", after.leaked(before), stacks[:runtime.Stack(stacks, true)])
		}
	}
	c.report()
	c.w.say(Report{Is: isClosed})
	return nil
}
