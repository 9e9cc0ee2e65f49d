package nicless

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
)

// A Context is one client of an engine. Open and Dial make one. Everything that is
// made through it keeps it in use; when nothing does any more, a Context that was
// not closed is closed, and the log says so. After Done, EventFd or Channel.Fd it
// stays open until Close, because the collector sees neither a goroutine that waits
// for the channel nor an epoll that has the descriptor.
//
// It must not be copied: a copy does not keep it in use.
//
// Safe for concurrent use, as the methods that make and close objects are.
type Context struct {
	_       noCopy
	*client // nil: the zero Context, which nothing can be made through
}

// A noCopy has go vet (copylocks) report copies of what it is part of.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// A client is what a Context works with. No goroutine of ours and no table of
// objects refers to the Context itself or to what was made through it, so that the
// garbage collector can tell that a program has dropped them. held is the exception.
type client struct {
	dev          device
	log          *slog.Logger // for what nobody is there to be told of; nil: nothing is said
	limits       control.Welcome
	uar          *shm.Region
	status       *shm.Region
	registers    []byte         // all of uar. Close keeps the addresses (see keep), so it can be used beside Close.
	statusPage   []byte         // all of status, likewise
	table        hostpath.Table // finds QPs by the user index of a CQE
	arena        arena
	waker        waker
	uniprocessor bool // engine and program may have to take turns on one core

	held atomic.Pointer[Context] // nil, or the Context that hold keeps in use

	gone   atomic.Bool   // the device has ended
	closed atomic.Bool   // Close was called
	ended  chan struct{} // closed when either is true
	once   sync.Once     // closes ended

	// Events; see NextEvent.
	events   *os.File
	inbox    chan waiting
	lost     int           // the listener's: events dropped since the last one
	noEvents chan struct{} // closed when no more events come
	explain  atomic.Pointer[func(Explanation)]
	eventFD  notifier

	mu         sync.Mutex
	next       int    // register for the next QP
	blueFlames uint64 // bit n: BlueFlame register n is a QP's
	channels   map[*os.File]struct{}
	memory     map[*shm.Region]struct{}    // of MRs
	qps        map[uint32]weak.Pointer[QP] // by number, for events
	cqs        map[uint32]weak.Pointer[CQ]
	srqs       map[uint32]weak.Pointer[SRQ]
}

// Dial connects to the engine that listens at the unix socket path.
func Dial(path string) (*Context, error) {
	dev, err := dial(path)
	if err != nil {
		return nil, err
	}
	return newContext(dev, slog.Default())
}

// newContext returns a client of dev, which it closes in the end, also when it
// fails.
func newContext(dev device, log *slog.Logger) (*Context, error) {
	c, err := newClient(dev, log)
	if err != nil {
		return nil, err
	}
	outer := &Context{client: c}
	runtime.AddCleanup(outer, (*client).dropped, c)
	return outer, nil
}

func newClient(dev device, log *slog.Logger) (*client, error) {
	c := &client{
		dev: dev, log: log, ended: make(chan struct{}), inbox: make(chan waiting, maxEvents), noEvents: make(chan struct{}),
		channels: make(map[*os.File]struct{}), memory: make(map[*shm.Region]struct{}),
		qps: make(map[uint32]weak.Pointer[QP]), cqs: make(map[uint32]weak.Pointer[CQ]), srqs: make(map[uint32]weak.Pointer[SRQ]),
	}
	c.arena.c = c
	c.uniprocessor = cpu.Uniprocessor()
	hello := &control.Hello{Magic: control.Magic, Major: control.Major, Minor: control.Minor, Features: control.FeatureWake, Name: programName()}
	r, err := dev.Call(control.OpHello, hello, &c.limits)
	if err != nil {
		_ = dev.Close()
		return nil, wrap("connect", err)
	}
	c.uar, c.status = r.UAR, r.Status
	keep(c, c.uar)
	keep(c, c.status)
	c.registers, c.statusPage = c.uar.Bytes(), c.status.Bytes()
	c.waker.asleep = shm.Word64At(c.statusPage, control.StatusAsleep)
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
			c.expireWaits()
			c.end()
		case <-c.ended:
		}
	}()
	return c, nil
}

// eventGrace is how long waiters wait for the last events of a device that is gone. A
// device that hangs never closes the descriptors from which they read.
const eventGrace = 100 * time.Millisecond

// expireWaits lets all waits for events of a device that is gone end soon.
func (c *client) expireWaits() {
	soon := time.Now().Add(eventGrace)
	_ = c.events.SetReadDeadline(soon)
	c.mu.Lock()
	defer c.mu.Unlock()
	for events := range c.channels {
		_ = events.SetReadDeadline(soon)
	}
}

func programName() string {
	if len(os.Args) == 0 {
		return ""
	}
	return filepath.Base(os.Args[0])
}

// Close destroys everything that was made through the context and gives its memory
// back. Events that its work has caused are delivered first: explanations to the
// handler of OnExplanation, the others, or all if there is none, to NextEvent, which
// returns them even afterwards. A program that ends without Close, by os.Exit for
// instance, may not receive the last ones.
//
// A goroutine that posts or polls meanwhile gets ErrClosed, at the latest from its
// next call; what it has posted may or may not be executed. Closing twice does
// nothing.
func (c *Context) Close() error {
	if c == nil || c.client == nil {
		return errZero
	}
	return c.close()
}

// dropped closes a client whose Context nothing refers to any more.
func (c *client) dropped() {
	if c.closed.Load() {
		return
	}
	if c.log != nil {
		c.log.Warn("nicless: a Context was dropped without Close; it is closed now", "device", fmt.Sprintf("%016x", c.limits.GUID))
	}
	c.mu.Lock()
	for r := range c.memory {
		r.Reserve() // without a Release: the program may still have the bytes
	}
	c.mu.Unlock()
	go c.close() // it waits for the device
}

func (c *client) close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.held.Store(nil)
	c.drainEvents()
	err := c.dev.Close() // first: then nothing moves in the memory any more
	c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	err = errors.Join(err, c.events.Close())
	c.eventFD.close()
	c.waker.close()
	for events := range c.channels {
		err = errors.Join(err, events.Close())
	}
	for r := range c.memory {
		err = errors.Join(err, r.Close())
	}
	return errors.Join(err, c.arena.close(), c.uar.Close(), c.status.Close())
}

// hold keeps the Context in use until it is closed: the cleanup of newContext refers to
// the client, and the client to the Context.
func (c *Context) hold() {
	c.held.Store(c)
	if c.closed.Load() { // Close may have let go already
		c.held.Store(nil)
	}
}

// keep has r, which the client or an object of it uses, keep its addresses when it
// is closed for as long as owner is in use: a goroutine that posts, polls or reads
// while another closes finds zeros, rather than a fault that ends the program.
func keep[T any](owner *T, r *shm.Region) {
	r.Reserve()
	runtime.AddCleanup(owner, func(r *shm.Region) { _ = r.Release() }, r)
}

// drainTime is how long Close waits for a device that does not answer, or for a
// handler of explanations that does not return.
const drainTime = time.Second

// drainEvents waits until all events that the device has sent are delivered. It asks for
// another descriptor of events. The device then closes the one that is read from,
// behind the events of all work before.
func (c *client) drainEvents() {
	answered := make(chan error, 1)
	go func() {
		r, err := c.dev.Call(control.OpOpenEvents, &control.Empty{}, &control.Empty{})
		if err == nil {
			err = r.Events.Close()
		}
		answered <- err
	}()
	late := time.After(drainTime)
	select {
	case err := <-answered:
		if err != nil {
			return // gone, or without a descriptor to spare
		}
	case <-late:
		return
	}
	select {
	case <-c.noEvents:
	case <-late:
	}
}

func (c *client) end() { c.once.Do(func() { close(c.ended) }) }

// String returns, for instance, "context of engine 0123456789abcdef".
func (c *Context) String() string { return fmt.Sprintf("context of engine %016x", c.Device()) }

// Done is closed when the device is gone or the context is closed. After it was called,
// the Context stays open until Close, also when nothing refers to it any more.
func (c *Context) Done() <-chan struct{} {
	if c.client == nil {
		return noContext
	}
	c.hold()
	return c.ended
}

// noContext is the Done of a zero Context.
var noContext = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Device returns the number of the engine behind this context: queue pairs can
// be connected when theirs are equal.
func (c *Context) Device() uint64 {
	if c.client == nil {
		return 0
	}
	return c.limits.GUID
}

// err returns why the context cannot be used, or nil.
func (c *client) err() error {
	switch {
	case c == nil:
		return errZero
	case c.closed.Load():
		return ErrClosed
	case c.gone.Load():
		return ErrDeviceGone
	}
	return nil
}

// call sends a request, unless the context has ended.
func (c *client) call(what string, op control.Op, req, ans control.Message) (control.Reply, error) {
	if err := c.err(); err != nil {
		return control.Reply{}, wrap(what, err)
	}
	r, err := c.dev.Call(op, req, ans)
	return r, wrap(what, c.failed(err))
}

// failed returns the error of a request that returned err: ErrClosed if the client was
// closed meanwhile.
func (c *client) failed(err error) error {
	if err != nil && c.closed.Load() {
		return ErrClosed
	}
	return err
}

// register returns the next doorbell register, in turn. Queues can share one, because
// it is only a hint: the record says what was posted.
func (c *client) register() (page uint16, mem []byte) {
	c.mu.Lock()
	n := c.next
	c.next++
	c.mu.Unlock()
	const perPage = 2
	page = uint16(n / perPage % int(c.limits.UARPages))
	off := uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(n%perPage)*doorbell.BFRegSize
	return page, c.registers[off : off+doorbell.BFRegSize]
}

// armRegister is where CQs of page 0 are armed.
func (c *client) armRegister() []byte { return c.registers[doorbell.CQArmOffset:][:8] }

// A PD is a protection domain: queue pairs and keys work together only if they belong
// to the same one.
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

// String returns, for instance, "PD 0x1".
func (p *PD) String() string { return fmt.Sprintf("PD %#x", p.num) }

// Close destroys the domain. ErrBusy while keys or queue pairs belong to it.
// Closing twice does nothing.
func (p *PD) Close() error {
	if p == nil {
		return errZero
	}
	return closing(p.ctx, &p.closed, func() error {
		_, err := p.ctx.call("close PD", control.OpDeallocPD, &control.PD{PDN: p.num}, &control.Empty{})
		return err
	})
}

// usable returns why the domain cannot be used, or nil.
func (p *PD) usable(what string) error {
	switch {
	case p == nil || p.ctx == nil:
		return wrap(what+": PD", errZero)
	case p.closed.Load():
		return wrap(what+": PD", ErrClosed)
	}
	return nil
}

// closing runs destroy once. It does not run it when the context has ended, because the
// device has destroyed everything then; so it has when destroy finds that. When destroy fails, the object stays open.
func closing(c *Context, closed *atomic.Bool, destroy func() error) error {
	if c == nil {
		return errZero
	}
	if closed.Swap(true) {
		return nil
	}
	if c.err() != nil {
		return nil
	}
	err := destroy()
	if err != nil && !errors.Is(err, ErrDeviceGone) && !errors.Is(err, ErrClosed) {
		closed.Store(false)
		return err
	}
	return nil
}
