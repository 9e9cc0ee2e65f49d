//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

// plantInClient, in tests of this package only, changes the n completions of c.list, or the memory. It
// returns how many there are then.
var plantInClient func(c *client, n int) int

// traffic moves data until the peer is lost, the device is gone or the client has the order to
// close.
func (c *client) traffic() error {
	last := c.mark() // time of the last completion, or a later time at which no completion was expected
	moved, progress := last, uint64(0)
	defer c.Rest()
	quiet := false
	for {
		select {
		case o, ok := <-c.w.Orders:
			switch {
			case !ok:
				return errors.New("the supervisor is gone")
			case o.Do == doStop:
				for _, l := range c.flows {
					l.stopping = true
				}
			case o.Do == doClose:
				return errClose
			}
		default:
		}
		posted := false
		for _, l := range c.flows {
			did, err := l.post()
			if err != nil {
				return err
			}
			posted = posted || did
		}
		c.reportCount()
		if !quiet && c.quiet() {
			quiet = true
			c.w.send(Report{Is: isQuiet, Ready: c.ready})
		}
		n, err := c.cq.Poll(c.list[:])
		if n == 0 && err == nil && !posted {
			n, err = c.wait(!quiet) // when quiet the peer may have closed
		}
		if plantInClient != nil {
			n = plantInClient(c, n)
		}
		if err != nil {
			return err
		}
		switch {
		case n > 0:
			if s := c.since(last, "a completion"); s != nil {
				c.w.send(Report{Is: isStall, Stall: s})
			}
			last = c.mark()
		case quiet: // no completion is expected
			last = c.mark()
		}
		// Completions of probes do not count as progress.
		if p := c.progress(); p != progress || quiet {
			moved, progress = last, p
		} else if c.passed(moved) > c.spec.hang() {
			f := c.hang(moved)
			if f.Kind != verdict.Undecided {
				return f
			}
			c.w.send(Report{Is: isFault, Fault: f}) // and go on: the machine was too busy
			moved = c.mark()
		}
		if err := c.account(c.list[:n]); err != nil {
			return err
		}
		for _, l := range c.flows {
			if l.failed {
				return errPeerLost
			}
		}
		if c.r.IntN(64) == 0 { // leave the core to others, and let the engine fall asleep
			time.Sleep(time.Duration(c.r.IntN(2_000_000)))
			last = c.mark()
		}
	}
}

// wait waits for completions. If ask is true, it posts probes after probeTime. Probes fail if the
// peer is gone.
func (c *client) wait(ask bool) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	n, err := c.cq.Wait(ctx, c.list[:])
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
		for _, l := range c.flows {
			if err == nil && ask {
				err = l.probe()
			}
		}
	}
	return n, err
}

func (c *client) account(list []nicless.Completion) error {
	c.polled += uint64(len(list))
	for i := range list {
		l := c.flowOf(list[i].QPN)
		if l == nil {
			c.count.Duplicated++
			return verdict.New(verdict.Repeated, "completions of this connection", "a completion of QP %#x, which does not belong to it", list[i].QPN)
		}
		if err := l.complete(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) flowOf(qpn uint32) *flow {
	for _, l := range c.flows {
		if l.qp.QPN() == qpn {
			return l
		}
	}
	return nil
}

// hang returns the fault of operations that make no progress. They may wait for the peer too.
func (c *client) hang(m mark) *verdict.Fault {
	text := ""
	for _, l := range c.flows {
		text += "; " + l.progress()
	}
	return verdict.Late(verdict.NoAnswer, c.evidence(m), fmt.Sprintf("progress within %v", c.spec.hang()),
		"none%s", text)
}

// progress says how far a flow is.
func (l *flow) progress() string {
	text := fmt.Sprintf("flow %d (%v): posted %d, acknowledged %d, %d sends from %d outstanding, checked %d of the peer's, acknowledged %d of these, unbound %d, stopping %v, pending %v",
		l.i, l.transport, l.next, l.acked, l.sends.Outstanding(), l.sends.Oldest(), l.checked, l.ackSent,
		l.unbound, l.stopping, l.pending)
	if a, err := l.qp.Query(); err == nil {
		text += fmt.Sprintf(", state %d", a.State)
	}
	return text
}

// quiet reports whether all flows of the client are quiet.
func (c *client) quiet() bool {
	for _, l := range c.flows {
		if !l.quiet() {
			return false
		}
	}
	return true
}

// progress returns a number that grows with each operation of either end.
func (c *client) progress() (n uint64) {
	for _, l := range c.flows {
		n += l.acked + l.checked
	}
	return n
}

// done counts an operation that has succeeded.
func (c *client) done(o *Operation) {
	c.count.Operations++
	c.count.Bytes += uint64(o.Len)
	c.count.ByOp[o.Op.String()]++
}

// reportCount reports the count at intervals.
func (c *client) reportCount() {
	if t := time.Now(); t.Sub(c.counted) > countTime {
		c.counted = t
		c.report()
	}
}

func (c *client) report() {
	count := c.count
	count.Stall = int64(c.longest)
	c.mu.Lock()
	count.Explained = maps.Clone(c.explained)
	c.mu.Unlock()
	for _, l := range c.flows {
		if l.sends != nil {
			count.Wrong.add(l.sends.Wrong)
		}
		if l.recvs != nil {
			count.Wrong.add(l.recvs.Wrong)
		}
	}
	c.w.send(Report{Is: isCount, Ready: c.ready, Count: &count})
}
