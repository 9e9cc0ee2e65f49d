package nicless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// A Context is one client of a device.
type Context struct {
	dev    device
	limits control.Welcome
	uar    *shm.Region
	status *shm.Region
	table  hostpath.Table // finds QPs by the user index of a CQE
	arena  arena
	waker  waker
	alone  bool // engine and program may have to take turns on one core

	gone   atomic.Bool   // the device has ended
	closed atomic.Bool   // Close was called
	ended  chan struct{} // closed when either is true
	once   sync.Once     // closes ended

	// Events; see NextEvent.
	events  *os.File
	inbox   chan Event
	lost    int           // the listener's: events dropped since the last one
	silent  chan struct{} // closed when no more events come
	explain atomic.Pointer[func(Explanation)]
	bell    bell

	mu       sync.Mutex
	next     int    // register for the next QP
	flames   uint64 // bit n: BlueFlame register n is a QP's
	channels map[*Channel]struct{}
	memory   map[*MR]struct{}
	qps      map[uint32]*QP // by number, for events
	cqs      map[uint32]*CQ
	srqs     map[uint32]*SRQ
}

// Dial connects to the engine that listens at the unix socket path.
func Dial(path string) (*Context, error) {
	dev, err := dial(path)
	if err != nil {
		return nil, err
	}
	return newContext(dev)
}

// newContext returns a client of dev, which it closes in the end, also when it
// fails.
func newContext(dev device) (*Context, error) {
	c := &Context{
		dev: dev, ended: make(chan struct{}), inbox: make(chan Event, maxEvents), silent: make(chan struct{}),
		channels: make(map[*Channel]struct{}), memory: make(map[*MR]struct{}),
		qps: make(map[uint32]*QP), cqs: make(map[uint32]*CQ), srqs: make(map[uint32]*SRQ),
	}
	c.arena.ctx = c
	c.alone = cpu.Uniprocessor()
	hello := &control.Hello{Magic: control.Magic, Major: control.Major, Minor: control.Minor, Features: control.FeatureWake, Name: programName()}
	r, err := dev.Call(control.OpHello, hello, &c.limits)
	if err != nil {
		_ = dev.Close()
		return nil, wrap("connect", err)
	}
	c.uar, c.status = r.UAR, r.Status
	c.waker.asleep = shm.Word64At(c.status.Bytes(), control.StatusAsleep)
	if n := int(c.limits.UARPages); n < 1 || c.uar.Size() < n*doorbell.UARPageSize {
		_ = errors.Join(dev.Close(), c.uar.Close(), c.status.Close())
		return nil, wrap("connect", fmt.Errorf("the engine gives %d bytes for %d UAR pages of %d", c.uar.Size(), n, doorbell.UARPageSize))
	}
	if err := c.uar.Seal(); err != nil {
		_ = errors.Join(dev.Close(), c.uar.Close(), c.status.Close())
		return nil, wrap("connect", err)
	}
	if r, err = dev.Call(control.OpOpenEvents, &control.Empty{}, &control.Empty{}); err != nil {
		_ = errors.Join(dev.Close(), c.uar.Close(), c.status.Close())
		return nil, wrap("events", err)
	}
	c.events = r.Events
	go c.listen(c.events)
	if c.limits.Features&control.FeatureWake != 0 {
		go c.offerWake()
	}
	go func() {
		select {
		case <-dev.Done():
			c.gone.Store(true)
			c.hurry()
			c.end()
		case <-c.ended:
		}
	}()
	return c, nil
}

// lastWords is how long a device that is gone may keep descriptors open which
// it has handed out: one that hangs closes none.
const lastWords = 100 * time.Millisecond

// hurry has everybody who waits for a device that is gone give up soon.
func (c *Context) hurry() {
	soon := time.Now().Add(lastWords)
	_ = c.events.SetReadDeadline(soon)
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.channels {
		_ = ch.file.SetReadDeadline(soon)
	}
}

func programName() string {
	if len(os.Args) == 0 {
		return ""
	}
	return filepath.Base(os.Args[0])
}

// Close destroys everything that was made through the context and unmaps its
// memory. Events that its work has caused are delivered first: explanations to
// the handler of OnExplanation, the others, or all if there is none, to
// NextEvent, which returns them even afterwards. A program that ends without
// Close, by os.Exit for instance, may not hear the last ones.
//
// Nobody may be posting or polling meanwhile. Closing twice does nothing.
func (c *Context) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.hearOut()
	err := c.dev.Close() // first: then nothing moves in the memory any more
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	err = errors.Join(err, c.events.Close())
	c.bell.close()
	c.waker.close()
	for ch := range c.channels {
		err = errors.Join(err, ch.file.Close())
	}
	for m := range c.memory {
		err = errors.Join(err, m.unmap())
	}
	return errors.Join(err, c.arena.close(), c.uar.Close(), c.status.Close())
}

// hearing is how long Close waits for a device that does not answer, or for a
// handler of explanations that does not return.
const hearing = time.Second

// hearOut has everything delivered that the device has said so far. A request
// for another descriptor of events makes it close the one that is listened to,
// behind all that work has caused before.
func (c *Context) hearOut() {
	answered := make(chan error, 1)
	go func() {
		r, err := c.dev.Call(control.OpOpenEvents, &control.Empty{}, &control.Empty{})
		if err == nil {
			err = r.Events.Close()
		}
		answered <- err
	}()
	late := time.After(hearing)
	select {
	case err := <-answered:
		if err != nil {
			return // gone, or without a descriptor to spare
		}
	case <-late:
		return
	}
	select {
	case <-c.silent:
	case <-late:
	}
}

func (c *Context) end() { c.once.Do(func() { close(c.ended) }) }

// Done is closed when the device is gone or the context is closed.
func (c *Context) Done() <-chan struct{} { return c.ended }

// Device returns the number of the engine behind this context: queue pairs can
// be connected when theirs are equal.
func (c *Context) Device() uint64 { return c.limits.GUID }

// err returns why the context cannot be used, or nil.
func (c *Context) err() error {
	switch {
	case c.closed.Load():
		return ErrClosed
	case c.gone.Load():
		return ErrDeviceGone
	}
	return nil
}

// call sends a request, unless the context has ended.
func (c *Context) call(what string, op control.Op, req, ans control.Message) (control.Reply, error) {
	if err := c.err(); err != nil {
		return control.Reply{}, wrap(what, err)
	}
	r, err := c.dev.Call(op, req, ans)
	return r, wrap(what, err)
}

// register returns the next doorbell register, in turn: queues that share one
// only share a hint.
func (c *Context) register() (page uint16, mem []byte) {
	c.mu.Lock()
	n := c.next
	c.next++
	c.mu.Unlock()
	const perPage = 2
	page = uint16(n / perPage % int(c.limits.UARPages))
	off := uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(n%perPage)*doorbell.BFRegSize
	return page, c.uar.Bytes()[off : off+doorbell.BFRegSize]
}

// armRegister is where CQs of page 0 are armed.
func (c *Context) armRegister() []byte { return c.uar.Bytes()[doorbell.CQArmOffset:][:8] }

// A PD is a protection domain: queue pairs and keys work together only within
// one.
type PD struct {
	ctx    *Context
	num    uint32
	closed atomic.Bool
}

// AllocPD makes a protection domain.
func (c *Context) AllocPD() (*PD, error) {
	var ans control.PD
	if _, err := c.call("PD", control.OpAllocPD, &control.Empty{}, &ans); err != nil {
		return nil, err
	}
	return &PD{ctx: c, num: ans.PDN}, nil
}

// Close destroys the domain. ErrBusy while keys or queue pairs belong to it.
// Closing twice does nothing.
func (p *PD) Close() error {
	return closing(p.ctx, &p.closed, func() error {
		_, err := p.ctx.call("close PD", control.OpDeallocPD, &control.PD{PDN: p.num}, &control.Empty{})
		return err
	})
}

// usable returns why the domain cannot be used, or nil.
func (p *PD) usable(what string) error {
	if p == nil || p.closed.Load() {
		return wrap(what+": PD", ErrClosed)
	}
	return nil
}

// closing runs destroy once, and not at all when the context has ended: the
// device has destroyed everything then. When destroy fails, the object lives.
func closing(c *Context, closed *atomic.Bool, destroy func() error) error {
	if closed.Swap(true) {
		return nil
	}
	if c.err() != nil {
		return nil
	}
	err := destroy()
	if err != nil && !errors.Is(err, ErrDeviceGone) {
		closed.Store(false)
		return err
	}
	return nil
}
