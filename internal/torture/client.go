package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nicless/nicless"
)

// completions is the size of the one completion queue: room for all that can
// be under way.
const completions = 1024

const (
	// hangTime is how long posted work may take while the peer lives.
	hangTime = 10 * time.Second
	// probeTime is how long a client waits before it asks whether its peer lives.
	probeTime = 20 * time.Millisecond
	// goneTime is how long a call may take to find out that the device is gone.
	goneTime = 2 * time.Second
	// countTime lies between two reports of what was done.
	countTime = 50 * time.Millisecond
)

// A client is a correct client: one end of a pair.
type client struct {
	w     *wire
	spec  Spec
	count Count
	r     *rand.Rand // pauses

	ctx    *nicless.Context
	pd     *nicless.PD
	cq     *nicless.CQ
	shared *shared
	lanes  []*lane
	ready  int // readies reported

	list    [64]nicless.Completion
	counted time.Time
}

// How a connection ends.
var (
	errPeerLost = errors.New("the peer is lost")
	errAgain    = errors.New("the peer is gone before the connection was used")
	errClose    = errors.New("all is done")
)

func runClient(w *wire, spec Spec) error {
	c := &client{w: w, spec: spec, r: rand.New(rand.NewPCG(spec.Seed, uint64(spec.Pair*2+spec.End)))}
	c.count.ByOp = make(map[string]uint64)
	before, err := c.measure()
	if err != nil {
		return err
	}
	for {
		err := c.live()
		switch {
		case errors.Is(err, errClose):
			return c.leave(before)
		case errors.Is(err, nicless.ErrDeviceGone):
			if err := c.bury(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// live is a client of one engine, until it is gone or all is done.
func (c *client) live() error {
	if err := c.dial(); err != nil {
		return err
	}
	for {
		err := c.connection()
		if err != nil && gone(c.ctx) {
			return nicless.ErrDeviceGone
		}
		switch {
		case errors.Is(err, errPeerLost):
			c.count.PeersLost++
		case errors.Is(err, errAgain):
		default:
			return err
		}
		for _, l := range c.lanes {
			if err := l.close(); err != nil {
				return err
			}
		}
		if err := c.shared.srq.Close(); err != nil {
			return err
		}
	}
}

// measure returns what this process holds when it is no client; the runtime keeps
// descriptors of its own from the first connection on.
func (c *client) measure() (Holds, error) {
	if err := c.enter(); err != nil {
		return Holds{}, err
	}
	if err := c.ctx.Close(); err != nil {
		return Holds{}, err
	}
	time.Sleep(time.Millisecond) // the connection's goroutines end
	return holds(), nil
}

// enter becomes a client of the engine, as soon as there is one.
func (c *client) enter() (err error) {
	for end := time.Now().Add(hangTime); ; time.Sleep(2 * time.Millisecond) {
		if c.ctx, err = nicless.Dial(c.spec.Socket); err == nil || time.Now().After(end) {
			return err
		}
	}
}

// dial connects to the engine and registers memory.
func (c *client) dial() (err error) {
	if err := c.enter(); err != nil {
		return err
	}
	if c.pd, err = c.ctx.AllocPD(); err != nil {
		return err
	}
	if c.cq, err = c.ctx.CreateCQ(nicless.CQConfig{Entries: completions, Size128: c.spec.End == 1}); err != nil {
		return err
	}
	if c.shared, err = newShared(c.pd); err != nil {
		return err
	}
	c.lanes = nil
	for i := range courses {
		mem, err := newMemory(c.pd, sourceKey(&c.spec, c.spec.End, i), courses[i].receives)
		if err != nil {
			return err
		}
		c.lanes = append(c.lanes, &lane{c: c, i: i, course: courses[i], mem: mem, scratch: make([]byte, largeSize)})
	}
	return nil
}

// connection is one connection with the peer, from its beginning to its end.
func (c *client) connection() error {
	c.ready++
	ready := Report{Is: isReady, Ready: c.ready}
	if err := c.shared.open(c.pd); err != nil {
		return err
	}
	for _, l := range c.lanes {
		if err := l.open(); err != nil {
			return err
		}
		ready.Lanes = append(ready.Lanes, l.describe())
	}
	c.w.say(ready)
	o, err := c.order()
	if err != nil {
		return err
	}
	epoch := o.Epoch
	if o.Do != doConnect || len(o.Peer) != len(c.lanes) {
		return fmt.Errorf("order %q where a connection was expected", o.Do)
	}
	for i, l := range c.lanes {
		if err := l.connect(o.Peer[i], epoch); err != nil {
			return err
		}
	}
	if err := c.settle(func() int { return c.outstanding(false) }); err != nil {
		return err
	}
	c.w.say(Report{Is: isConnected, Ready: c.ready, Epoch: epoch})
	if o, err = c.order(); err != nil {
		return err
	}
	if o.Do != doGo {
		return fmt.Errorf("order %q where a go was expected", o.Do)
	}
	err = c.traffic()
	if errors.Is(err, errPeerLost) {
		if err := c.drain(); err != nil {
			return err
		}
		c.w.say(Report{Is: isPeerLost, Ready: c.ready, Epoch: epoch})
	}
	return err
}

// order waits for an order about the connection that was reported ready last.
func (c *client) order() (Order, error) {
	for {
		select {
		case o, ok := <-c.w.Orders:
			switch {
			case !ok:
				return o, errors.New("the supervisor is gone")
			case o.Ready != c.ready:
			case o.Do == doAgain:
				return o, errAgain
			default:
				return o, nil
			}
		case <-c.ctx.Done():
			return Order{}, nicless.ErrDeviceGone
		}
	}
}

// traffic moves data until the peer is lost, the device is gone or all is done.
func (c *client) traffic() error {
	last := time.Now() // a completion came, or nothing was posted
	moved, progress := last, uint64(0)
	quiet := false
	for {
		select {
		case o, ok := <-c.w.Orders:
			switch {
			case !ok:
				return errors.New("the supervisor is gone")
			case o.Do == doStop:
				for _, l := range c.lanes {
					l.stopping = true
				}
			case o.Do == doClose:
				return errClose
			}
		default:
		}
		posted := false
		for _, l := range c.lanes {
			did, err := l.post()
			if err != nil {
				return err
			}
			posted = posted || did
		}
		c.tell()
		if !quiet && c.quiet() {
			quiet = true
			c.w.say(Report{Is: isQuiet, Ready: c.ready})
		}
		n, err := c.cq.Poll(c.list[:])
		if n == 0 && err == nil && !posted {
			n, err = c.wait()
		}
		if err != nil {
			return err
		}
		if n > 0 {
			c.count.Stall = max(c.count.Stall, int64(time.Since(last)))
			last = time.Now()
		}
		// Probes complete also where nothing moves any more.
		if p := c.progress(); p != progress || quiet {
			moved, progress = time.Now(), p
		} else if time.Since(moved) > hangTime {
			return c.hang()
		}
		if err := c.account(c.list[:n]); err != nil {
			return err
		}
		for _, l := range c.lanes {
			if l.failed {
				return errPeerLost
			}
		}
		if c.r.IntN(64) == 0 { // the others want to live, too; and let the engine fall asleep
			time.Sleep(time.Duration(c.r.IntN(2_000_000)))
			last = time.Now()
		}
	}
}

// wait waits for completions; after a while it asks whether the peer lives.
func (c *client) wait() (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	n, err := c.cq.Wait(ctx, c.list[:])
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil
		for _, l := range c.lanes {
			if err == nil {
				err = l.probe()
			}
		}
	}
	return n, err
}

func (c *client) account(list []nicless.Completion) error {
	for i := range list {
		l := c.laneOf(list[i].QPN)
		if l == nil {
			c.count.Duplicated++
			return corrupt("a completion of QP %#x, which is none of this connection", list[i].QPN)
		}
		if err := l.complete(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) laneOf(qpn uint32) *lane {
	for _, l := range c.lanes {
		if l.qp.QPN() == qpn {
			return l
		}
	}
	return nil
}

// hang says what does not come.
func (c *client) hang() error {
	text := ""
	for _, l := range c.lanes {
		text += fmt.Sprintf("; lane %d (%v): posted %d, acknowledged %d, %d sends from %d outstanding, checked %d of the peer's, told %d, unbound %d, stopping %v, pending %v",
			l.i, l.transport, l.next, l.acked, l.sends.Outstanding(), l.sends.Oldest(), l.checked, l.told, l.unbound, l.stopping, l.pending)
		if a, err := l.qp.Query(); err == nil {
			text += fmt.Sprintf(", state %d", a.State)
		}
	}
	return corrupt("no progress for %v%s", hangTime, text)
}

func (c *client) quiet() bool {
	for _, l := range c.lanes {
		if !l.quiet() {
			return false
		}
	}
	return true
}

// progress grows with everything that is done on either side.
func (c *client) progress() (n uint64) {
	for _, l := range c.lanes {
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

// tell reports the count now and then.
func (c *client) tell() {
	if t := time.Now(); t.Sub(c.counted) > countTime {
		c.counted = t
		c.report()
	}
}

func (c *client) report() {
	count := c.count
	for _, l := range c.lanes {
		if l.sends != nil {
			count.Wrong.add(l.sends.Wrong)
		}
		if l.recvs != nil {
			count.Wrong.add(l.recvs.Wrong)
		}
	}
	c.w.say(Report{Is: isCount, Ready: c.ready, Count: &count})
}

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
	for _, l := range c.lanes {
		if err := l.mem.intact(); err != nil {
			return corrupt("lane %d: after the end of its peer: %v", l.i, err)
		}
	}
	return edgesIntact(c.shared.mr.Bytes())
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
	begin := time.Now()
	select { // a call can learn it from its own descriptor a moment before the context does
	case <-c.ctx.Done():
	case <-time.After(goneTime):
		return corrupt("a call returned that the device is gone; its context lives")
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
	if d := time.Since(begin); d > goneTime {
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
			return corrupt("a client that closed everything keeps %s", after.leaked(before))
		}
	}
	c.report()
	c.w.say(Report{Is: isClosed})
	return nil
}

// gone reports whether the device behind a context has ended.
func gone(c *nicless.Context) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}
