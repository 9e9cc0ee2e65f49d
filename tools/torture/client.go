//go:build linux && (amd64 || arm64)

package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

// completions is the size of the completion queue, which all flows share. It has room for the
// completions of everything that can be in flight.
const completions = 1024

const (
	// hangTime is how long posted work may take while the peer is alive, unless a Spec says otherwise.
	hangTime = 10 * time.Second
	// probeTime is how long a client waits before it checks that its peer is alive.
	probeTime = 20 * time.Millisecond
	// goneTime is how long a call may take to notice that the device is gone.
	goneTime = 2 * time.Second
	// countTime is the time between two reports of counts.
	countTime = 50 * time.Millisecond
)

// A client is a correct client: one end of a pair.
type client struct {
	*waitMeter
	w     *wire
	spec  Spec
	count Count
	r     *rand.Rand // random source of the pauses

	ctx    *nicless.Context
	pd     *nicless.PD
	cq     *nicless.CQ
	shared *shared
	flows  []*flow
	ready  int    // number of the last ready report
	polled uint64 // completions that were polled since the client connected to this engine

	list    [64]nicless.Completion
	counted time.Time

	mu              sync.Mutex
	explained       map[string]uint64 // number of explanations, by code
	lastExplanation string
}

// How a connection ends.
var (
	errPeerLost = errors.New("the peer is lost")
	errAgain    = errors.New("the peer was gone before the connection was used")
	errClose    = errors.New("told to close")
)

func runClient(w *wire, spec Spec) error {
	g, err := newWaitMeter(&spec)
	if err != nil {
		return err
	}
	c := &client{waitMeter: g, w: w, spec: spec,
		r: rand.New(rand.NewPCG(spec.Seed, uint64(spec.Pair*2+spec.End)))}
	c.count.ByOp, c.explained = make(map[string]uint64), make(map[string]uint64)
	before, err := c.measure()
	if err != nil {
		return err
	}
	for {
		err := c.session()
		switch {
		case verdict.IsTimeout(err):
			c.report()
			return c.fault(err)
		case errors.Is(err, errClose):
			if err := c.leave(before); err != nil {
				return c.fault(err)
			}
			return nil
		case errors.Is(err, nicless.ErrDeviceGone):
			if err := c.deviceGone(); err != nil {
				return c.fault(err)
			}
		default:
			c.report() // the last counts
			return c.fault(err)
		}
	}
}

// session is everything that a client does with one engine. It returns when the engine is gone
// or the client has the order to close.
func (c *client) session() error {
	if err := c.dial(); err != nil {
		return err
	}
	for {
		err := c.connection()
		if err != nil && !outlives(err) && gone(c.ctx) {
			return nicless.ErrDeviceGone
		}
		switch {
		case errors.Is(err, errPeerLost):
			c.count.PeersLost++
		case errors.Is(err, errAgain):
		case err != nil && !errors.Is(err, errClose) && !outlives(err) && endsSoon(c.ctx):
			return nicless.ErrDeviceGone
		default:
			return err
		}
		for _, l := range c.flows {
			if err := l.close(); err != nil {
				return err
			}
		}
		if err := c.shared.srq.Close(); err != nil {
			return err
		}
	}
}

// outlives reports whether an error counts although the engine has ended by now: no answer came while it was
// there, or bytes are wrong, which arrive whole, or the completion says that they did not.
func outlives(err error) bool {
	f := verdict.Of(err)
	return verdict.IsTimeout(err) || f != nil && f.Kind == verdict.WrongBytes
}

// measure returns the resources of this process without a connection. It first connects once
// and disconnects, because the Go runtime keeps some descriptors after the first connection.
func (c *client) measure() (Resources, error) {
	if err := c.enter(); err != nil {
		return Resources{}, err
	}
	if err := c.ctx.Close(); err != nil {
		return Resources{}, err
	}
	time.Sleep(time.Millisecond) // time for the connection's goroutines to end
	return takeResources(), nil
}

// enter connects as soon as an engine serves. The supervisor checks how long that takes,
// because only the supervisor knows the state of the previous engine.
func (c *client) enter() (err error) {
	c.mark()
	for end := time.Now().Add(3 * waitLimit); ; time.Sleep(2 * time.Millisecond) {
		c.ctx, err = nicless.Dial(c.spec.Socket)
		if err == nil || time.Now().After(end) {
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
		c.lastExplanation = x.String()
	})
	c.pd, err = c.ctx.AllocPD()
	if err != nil {
		return err
	}
	// All kinds of entries are in use: of 128 bytes, of 64 bytes, and compressed.
	cq := nicless.CQConfig{Entries: completions, Size128: c.spec.End == 1, Compressed: c.spec.End == 0 &&
		c.spec.Pair%2 == 0}
	c.cq, err = c.ctx.CreateCQ(cq)
	if err != nil {
		return err
	}
	c.shared, err = newShared(c.pd)
	if err != nil {
		return err
	}
	c.flows, c.polled = nil, 0
	for i := range flowConfigs {
		mem, err := newMemory(c.pd, sourceKey(&c.spec, c.spec.End, i), flowConfigs[i].receives)
		if err != nil {
			return err
		}
		c.flows = append(c.flows,
			&flow{c: c, i: i, flowConfig: flowConfigs[i], mem: mem, scratch: make([]byte, largeSize)})
	}
	return nil
}

// connection makes one connection with the peer and uses it until the connection ends.
func (c *client) connection() error {
	c.ready++
	c.mark()
	ready := Report{Is: isReady, Ready: c.ready}
	if err := c.shared.open(c.pd); err != nil {
		return err
	}
	for _, l := range c.flows {
		if err := l.open(); err != nil {
			return err
		}
		ready.Flows = append(ready.Flows, l.describe())
	}
	c.w.send(ready)
	c.Rest()
	o, err := c.order()
	c.mark()
	if err != nil {
		return err
	}
	epoch := o.Epoch
	if o.Do != doConnect || len(o.Peer) != len(c.flows) {
		return fmt.Errorf("order %q; expected connect", o.Do)
	}
	for i, l := range c.flows {
		if err := l.connect(o.Peer[i], epoch); err != nil {
			return err
		}
	}
	if err := c.drainUntil(func() int { return c.outstanding(false) }); err != nil {
		return err
	}
	c.w.send(Report{Is: isConnected, Ready: c.ready, Epoch: epoch})
	if o, err = c.order(); err != nil {
		return err
	}
	if o.Do != doGo {
		return fmt.Errorf("order %q; expected go", o.Do)
	}
	err = c.traffic()
	if errors.Is(err, errPeerLost) {
		if err := c.drain(); err != nil {
			return err
		}
		c.w.send(Report{Is: isPeerLost, Ready: c.ready, Epoch: epoch, Text: c.failure()})
	}
	return err
}

// failure returns the first error of each flow and the device's last explanation.
func (c *client) failure() (text string) {
	for _, l := range c.flows {
		if l.failed {
			text += l.failure + "; "
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return text + "last explanation: " + c.lastExplanation
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

// endsSoon reports whether the device ends within a second. A device that is being stopped
// flushes and refuses work shortly before it ends. Only the end shows that this was no error.
func endsSoon(c *nicless.Context) bool {
	select {
	case <-c.Done():
		return true
	case <-time.After(time.Second):
		return false
	}
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
