package torture

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/nicless/nicless"
)

// drain puts all queue pairs into error and waits until everything posted has
// completed: nothing may be lost, and nothing else may come.
func (c *client) drain() error {
	for _, l := range c.lanes {
		if err := l.qp.Modify(&nicless.Attr{Mask: nicless.AttrState, State: nicless.StateERR}); err != nil {
			return err
		}
		// What is flushed last shows that all before it was.
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
			err = corrupt("%d completions more than work requests", n)
		}
		return err
	}
	if err := c.audit(); err != nil {
		return err
	}
	for _, l := range c.lanes {
		if err := l.mem.intact(); err != nil {
			return corrupt("lane %d: after the end of its peer: %v", l.i, err)
		}
	}
	return edgesIntact(c.shared.mr.Bytes())
}

// audit compares the device's count of completions with this side's, when all
// are in: a queue pair passes over those that it can make nothing of, such as
// the second one of the same work.
func (c *client) audit() error {
	for end := c.now().Add(goneTime); ; time.Sleep(time.Millisecond) { // the device's is published now and then
		s, err := c.ctx.Status()
		switch {
		case err != nil:
			return err
		case s.CQEs == c.polled:
			return nil
		case s.CQEs > c.polled:
			c.count.Duplicated += s.CQEs - c.polled
			return corrupt("the device has written %d completions, of which %d were of work posted", s.CQEs, c.polled)
		case gone(c.ctx):
			return nicless.ErrDeviceGone
		case c.now().After(end):
			return corrupt("%d completions were polled; the device says that it has written %d", c.polled, s.CQEs)
		}
	}
}

// outstanding returns how many work requests have not completed. Receives of
// the shared queue stay there.
func (c *client) outstanding(receives bool) (n int) {
	for _, l := range c.lanes {
		n += l.sends.Outstanding()
		if receives && l.recvs != nil {
			n += l.recvs.Outstanding()
		}
	}
	return n
}

// settle accounts for completions until nothing is left.
func (c *client) settle(left func() int) error {
	for end := time.Now().Add(hangTime); left() > 0; {
		ctx, cancel := context.WithDeadline(context.Background(), end)
		n, err := c.cq.Wait(ctx, c.list[:])
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			err = c.hang()
			for _, l := range c.lanes {
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

// bury checks what has to hold when the device is gone, and lets go of it.
func (c *client) bury() error {
	c.count.DevicesGone++
	begin := c.now()
	for !gone(c.ctx) { // a call can learn it from its own descriptor a moment before the context does
		if c.now().Sub(begin) > goneTime {
			return corrupt("a call returned that the device is gone; its context lives")
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(goneTime / 10):
		}
	}
	for _, l := range c.lanes {
		if l.qp == nil {
			continue
		}
		if err := l.qp.PostSend(&nicless.SendWR{Op: nicless.Write}); !errors.Is(err, nicless.ErrDeviceGone) {
			return corrupt("the device is gone; a post returns %v", err)
		}
		if err := l.receive(&nicless.RecvWR{}); !errors.Is(err, nicless.ErrDeviceGone) {
			return corrupt("the device is gone; a post of a receive returns %v", err)
		}
		l.sends.Abandon()
		if l.recvs != nil {
			l.recvs.Abandon()
		}
	}
	if c.cq != nil {
		// What was completed before can still be polled, at most one queue of it.
		for left := 2 * completions; ; left -= len(c.list) {
			n, err := c.cq.Wait(context.Background(), c.list[:])
			if errors.Is(err, nicless.ErrDeviceGone) {
				break
			}
			if err != nil || n == 0 || left < 0 {
				return corrupt("the device is gone; waiting returns %d completions, %v", n, err)
			}
		}
	}
	if d := c.now().Sub(begin); d > goneTime {
		return corrupt("it took %v to be told that the device is gone", d)
	}
	c.w.say(Report{Is: isGone, Ready: c.ready})
	for _, l := range c.lanes {
		if l.qp == nil {
			continue // its memory has not been prepared
		}
		if err := l.mem.intact(); err != nil {
			return corrupt("lane %d: after the end of the device: %v", l.i, err)
		}
	}
	c.lanes, c.cq, c.shared = nil, nil, nil
	return c.ctx.Close()
}

// leave closes everything, one by one, and checks that nothing is left.
func (c *client) leave(before Holds) error {
	if err := c.drain(); err != nil {
		return err
	}
	for _, l := range c.lanes {
		if err := l.mem.untouched(); err != nil {
			return corrupt("lane %d: at the end: %v", l.i, err)
		}
		if err := l.close(); err != nil {
			return err
		}
		if err := l.mem.close(); err != nil {
			return err
		}
	}
	c.lanes = nil
	if !isPoison(c.shared.mr.Bytes()) {
		return corrupt("shared receive buffers were written where no message was")
	}
	if err := errors.Join(c.shared.srq.Close(), c.shared.mr.Close()); err != nil {
		return err
	}
	if err := errors.Join(c.cq.Close(), c.pd.Close(), c.ctx.Close()); err != nil {
		return err
	}
	var after Holds
	for end := time.Now().Add(goneTime); ; time.Sleep(time.Millisecond) {
		if after = holds(); after.leaked(before) == "" {
			break
		}
		if time.Now().After(end) {
			stacks := make([]byte, 1<<14)
			return corrupt("a client that closed everything keeps %s\n%s", after.leaked(before), stacks[:runtime.Stack(stacks, true)])
		}
	}
	c.report()
	c.w.say(Report{Is: isClosed})
	return nil
}
