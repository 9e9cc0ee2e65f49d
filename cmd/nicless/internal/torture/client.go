package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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
	*gauge
	w     *wire
	spec  Spec
	count Count
	r     *rand.Rand // pauses

	ctx    *nicless.Context
	pd     *nicless.PD
	cq     *nicless.CQ
	shared *shared
	lanes  []*lane
	ready  int    // readies reported
	polled uint64 // completions, of this engine

	list    [64]nicless.Completion
	counted time.Time

	mu        sync.Mutex
	explained map[string]uint64 // by code
	said      string            // the last explanation
}

// How a connection ends.
var (
	errPeerLost = errors.New("the peer is lost")
	errAgain    = errors.New("the peer is gone before the connection was used")
	errClose    = errors.New("all is done")
)

func runClient(w *wire, spec Spec) error {
	g, err := newGauge(&spec)
	if err != nil {
		return err
	}
	c := &client{gauge: g, w: w, spec: spec, r: rand.New(rand.NewPCG(spec.Seed, uint64(spec.Pair*2+spec.End)))}
	c.count.ByOp, c.explained = make(map[string]uint64), make(map[string]uint64)
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
			c.report() // the last of it
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
		case err != nil && !errors.Is(err, errClose) && ends(c.ctx):
			return nicless.ErrDeviceGone
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

// enter becomes a client of the engine, as soon as there is one. How long that may take
// is for the supervisor to say, which knows what the engine before is doing.
func (c *client) enter() (err error) {
	for end := time.Now().Add(3 * patience); ; time.Sleep(2 * time.Millisecond) {
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
	c.ctx.OnExplanation(func(x nicless.Explanation) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.explained[x.Code] += 1 + uint64(x.Unsaid)
		c.said = x.String()
	})
	if c.pd, err = c.ctx.AllocPD(); err != nil {
		return err
	}
	if c.cq, err = c.ctx.CreateCQ(nicless.CQConfig{Entries: completions, Size128: c.spec.End == 1}); err != nil {
		return err
	}
	if c.shared, err = newShared(c.pd); err != nil {
		return err
	}
	c.lanes, c.polled = nil, 0
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
		c.w.say(Report{Is: isPeerLost, Ready: c.ready, Epoch: epoch, Text: c.failure()})
	}
	return err
}

// failure says what the first error of each lane was, and what the device said last.
func (c *client) failure() (text string) {
	for _, l := range c.lanes {
		if l.failed {
			text += l.failure + "; "
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return text + "explained last: " + c.said
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

// gone reports whether the device behind a context has ended.
// ends reports whether the device ends soon: one that is being stopped flushes and refuses
// before that can be told from a fault.
func ends(c *nicless.Context) bool {
	select {
	case <-c.Done():
		return true
	case <-time.After(time.Second):
		return false
	}
}

func gone(c *nicless.Context) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}
