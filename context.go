package nicless

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// A Context is one client of an engine. Open and Dial make a Context. Every object made
// through a Context refers to it. The garbage collector closes a Context to which the program
// no longer refers, neither directly nor through such an object, and the log says so. After a
// call of Done, EventFd or Channel.Fd, the Context stays open until Close, because the
// garbage collector sees neither a goroutine that waits for the Done channel nor an epoll
// instance that holds the descriptor.
//
// A Context must not be copied: a copy is not a reference to the original.
//
// A Context is safe for concurrent use, and so are the methods that make and close objects.
type Context struct {
	_       noCopy
	*client // nil: the zero Context, through which no object can be made
}

// A noCopy field makes go vet (copylocks) report copies of the struct that contains it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// A client is the state of a Context. Goroutines and tables of this package refer to the
// client, but not to the Context or to objects made through it, so that the garbage
// collector knows when the program has dropped them. The field held is the exception.
type client struct {
	dev          device
	log          *slog.Logger // gets reports that no caller receives; nil: no log
	limits       control.Welcome
	uar          *shm.Region
	status       *shm.Region
	registers    []byte         // the bytes of uar; they stay usable during Close (see keep)
	statusPage   []byte         // the bytes of status; they stay usable during Close too
	table        hostpath.Table // finds QPs by the user index of a CQE
	arena        arena
	waker        waker
	steps        nic.Steps // what this client can do for the device; nil functions: nothing
	uniprocessor bool      // engine and program may have to take turns on one core
	driver       *driver   // steps the device; nil: the device has a thread

	early atomic.Pointer[earlyAccesses] // finds early accesses to buffers of receives; nil: off

	held atomic.Pointer[Context] // the Context, if hold keeps it from being collected; or nil

	gone   atomic.Bool   // the device has ended
	closed atomic.Bool   // Close was called
	ended  chan struct{} // closed when gone or closed becomes true
	once   sync.Once     // closes ended

	// Events; see NextEvent.
	events   *os.File
	inbox    chan waiting
	lost     int           // used by listen only: events dropped since the last delivered one
	noEvents chan struct{} // closed when no more events come
	explain  atomic.Pointer[func(Explanation)]
	eventFD  notifier
	reading  sync.Mutex // held while a driver's events are delivered

	sanitizing sync.Mutex                // held while a Sanitizer begins
	sanitizer  atomic.Pointer[Sanitizer] // nil: there is none

	announcing  announcing  // what this client announces
	others      othersNews  // what others announce
	wantsChange atomic.Bool // the program waits for a change of what others announce
	names       names       // connections by names

	faulting sync.Mutex  // held while rules of faults are set or asked for
	faults   *faultState // the newest rules; nil: none yet

	mu         sync.Mutex
	next       int    // number of the doorbell register for the next QP
	blueFlames uint64 // bit n: BlueFlame register n belongs to a QP
	channels   map[*os.File]struct{}
	memory     map[*shm.Region]struct{}    // the regions of all MRs
	qps        map[uint32]weak.Pointer[QP] // by QP number, because events name a QP by its number
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

// newContext returns a client of dev. Close of the Context closes dev. newContext closes
// dev too if it returns an error.
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
		dev: dev, log: log, ended: make(chan struct{}), inbox: make(chan waiting, maxEvents),
		noEvents: make(chan struct{}),
		channels: make(map[*os.File]struct{}), memory: make(map[*shm.Region]struct{}),
		qps: make(map[uint32]weak.Pointer[QP]), cqs: make(map[uint32]weak.Pointer[CQ]),
		srqs: make(map[uint32]weak.Pointer[SRQ]),
	}
	c.arena.c = c
	c.uniprocessor = cpu.Uniprocessor()
	hello := &control.Hello{Magic: control.Magic, Major: control.Major, Minor: control.Minor,
		Features: control.FeatureWake, Name: programName()}
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
	if d, ok := dev.(driven); ok && d.drivenBy() != nil {
		c.driver = d.drivenBy()
		c.waker.kick = c.driver.kick
		c.driver.add(c)
	} else {
		go c.listen(c.events)
	}
	if d, ok := dev.(lending); ok && c.driver == nil {
		c.steps = d.lend()
	}
	if c.driver == nil && c.limits.Features&control.FeatureWake != 0 {
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

// eventGrace is how long waiters wait for the last events of a device that is gone. The
// wait needs an end, because a device that hangs never closes the descriptors from which
// the waiters read.
const eventGrace = 100 * time.Millisecond

// expireWaits ends all waits for events of a device that is gone, after eventGrace.
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

// Close destroys all objects made through the context and gives its memory back to the
// system. First it delivers the events that work of the context has caused. Explanations go
// to the handler of OnExplanation. All other events, and explanations if there is no
// handler, go to NextEvent, which returns them even after Close. A program that ends without
// Close, for instance by os.Exit, may not receive the last events.
//
// A goroutine that posts or polls during Close gets ErrClosed, either at once or from its
// next call. Requests that it has posted may or may not be executed. A second Close does
// nothing.
func (c *Context) Close() error {
	if c == nil || c.client == nil {
		return errZero
	}
	return c.close()
}

// dropped closes a client whose Context was garbage-collected.
func (c *client) dropped() {
	if c.closed.Load() {
		return
	}
	if c.log != nil {
		c.log.Warn("nicless: a Context was dropped without Close; it is closed now", "device", fmt.Sprintf("%016x", c.limits.GUID))
	}
	c.mu.Lock()
	for r := range c.memory {
		r.Reserve() // never released: the program may still have a slice of the bytes
	}
	c.mu.Unlock()
	go c.close() // on another goroutine, because close waits for the device
}

func (c *client) close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.held.Store(nil)
	c.leaveSanitizers()
	c.drainEvents()
	var err error
	if s := c.sanitizer.Load(); s != nil {
		err = s.leave()
	}
	err = errors.Join(err, c.dev.Close()) // first: after it, the device does not access the memory
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

// hold keeps the Context from being garbage-collected until it is closed: the cleanup of
// newContext refers to the client, and from now on the client refers to the Context.
func (c *Context) hold() {
	c.held.Store(c)
	if c.closed.Load() { // Close may have cleared held already
		c.held.Store(nil)
	}
}

// keep makes region r keep its addresses after its Close, until owner is
// garbage-collected. owner is the client or an object of the client that uses r. A
// goroutine that posts, polls or reads while another goroutine closes then reads zeros.
// Without keep, its access would fault, and the fault would end the program.
func keep[T any](owner *T, r *shm.Region) {
	r.Reserve()
	runtime.AddCleanup(owner, func(r *shm.Region) { _ = r.Release() }, r)
}

// drainTime is how long Close waits for a device that does not answer, or for a
// handler of explanations that does not return.
const drainTime = time.Second

// drainEvents waits until all events that the device has sent are delivered. It asks the
// device for a new event descriptor. The device then closes the descriptor from which
// listen reads, after it has sent the events of all earlier work.
func (c *client) drainEvents() {
	if c.driver != nil {
		c.driver.stepAll()
		c.driver.remove(c)
		close(c.noEvents)
		return
	}
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
			return // the device is gone, or has no free file descriptor
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

// Done returns a channel that is closed when the device is gone or the context is closed.
// After a call of Done, the Context stays open until Close, even if the program no longer
// refers to it.
func (c *Context) Done() <-chan struct{} {
	if c.client == nil {
		return noContext
	}
	c.hold()
	return c.ended
}

// noContext is the Done channel of a zero Context.
var noContext = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Device returns the number of the engine that this context uses. Queue pairs of contexts with
// different numbers can be connected only if a link leads from one engine to the other.
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

// failed returns the error to report for a request that returned err. This is ErrClosed if
// the client was closed meanwhile.
func (c *client) failed(err error) error {
	if err != nil && c.closed.Load() {
		return ErrClosed
	}
	return err
}

// register returns the doorbell register for the next QP. It takes the registers in turn.
// Queues can share a register, because a register is only a hint: the doorbell record says
// what was posted.
func (c *client) register() (page uint16, at uint64) {
	c.mu.Lock()
	n := c.next
	c.next++
	c.mu.Unlock()
	const perPage = 2
	page = uint16(n / perPage % int(c.limits.UARPages))
	return page, uint64(page)*doorbell.UARPageSize + doorbell.BFOffset + uint64(n%perPage)*doorbell.BFRegSize
}

// armRegister returns the register of UAR page 0 to which arm commands of CQs are written.
func (c *client) armRegister() []byte { return c.registers[doorbell.CQArmOffset:][:8] }

// A PD is a protection domain. A queue pair can use a key only if both belong to the same
// domain.
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

// Close destroys the domain. It returns ErrBusy while keys or queue pairs belong to the
// domain. A second Close does nothing.
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

// closing runs destroy once. If the context has ended, closing does not run destroy, because
// the device has already destroyed everything. The same is true if destroy returns
// ErrDeviceGone or ErrClosed. After any other error of destroy, the object stays open.
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

// A device answers the control requests of a Context: an engine in this process
// (embedded) or behind a socket (socket).
type device interface {
	// Call sends a request and fills ans with the answer. A refusal is a
	// *control.Error; any other error means that the device cannot be reached.
	// Safe for concurrent use.
	Call(op control.Op, req, ans control.Message) (control.Reply, error)

	// Done returns a channel that is closed when the device is gone.
	Done() <-chan struct{}

	// NewRegion makes a region, which is zeroed memory of at least size bytes that the
	// device shares, and returns its number. To give the region back, the caller sends
	// OpDropRegion and then unmaps mem.
	NewRegion(name string, size int) (mem *shm.Region, id uint32, err error)

	// Close ends the connection. The device destroys all objects made through it.
	Close() error
}

// Call runs f, which makes control calls, and returns f's results. If ctx ends before f
// returns, Call returns at once, with an error that wraps ctx.Err():
//
//	qp, err := nicless.Call(ctx, func() (*nicless.QP, error) { return pd.CreateQP(cfg) })
//	pd, err := nicless.Call(ctx, c.AllocPD)
//
// A control call sends a request to the engine and waits for the answer. Each method
// that makes, changes, queries or closes an object makes one or several control calls.
// Without Call, such a method waits until the engine answers. If an engine in another
// process has not answered after ten seconds, the method gives up the connection. Posting
// and polling make no control calls. Wait and NextEvent have a context parameter.
//
// An abandoned call continues on another goroutine. It reads its answer from the
// connection, so that the next call gets the right answer. Other calls of the same Context
// wait until the abandoned call has read its answer, unless they are abandoned too. If f
// then returns an object that has a method Close, the object is closed. Changes are not
// undone: after an abandoned Modify, Connect, Resize or Reregister, the object may only be
// closed. Its Close waits for the abandoned call.
//
// If ctx has ended already, f is not called. A panic of f becomes a panic of Call.
func Call[T any](ctx context.Context, f func() (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, abandoned(ctx)
	}
	if ctx.Done() == nil {
		return f()
	}
	c := &calling[T]{done: make(chan struct{})}
	go c.run(f)
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.completed.CompareAndSwap(false, true) {
			var none T
			return none, abandoned(ctx)
		}
		<-c.done // f ended first
	}
	switch {
	case c.panicked != nil:
		panic(c.panicked)
	case !c.returned:
		runtime.Goexit() // as f did
	}
	return c.v, c.err
}

// Do is Call for a function that returns only an error:
//
//	err := nicless.Do(ctx, qp.Close)
func Do(ctx context.Context, f func() error) error {
	_, err := Call(ctx, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// DialContext is Dial, but it gives up when ctx ends. The returned Context does not depend
// on ctx.
func DialContext(ctx context.Context, path string) (*Context, error) {
	return Call(ctx, func() (*Context, error) { return Dial(path) })
}

func abandoned(ctx context.Context) error { return fmt.Errorf("nicless: abandoned: %w", ctx.Err()) }

// A calling is a call that can be abandoned.
type calling[T any] struct {
	completed atomic.Bool   // set by the first of two events: f ends, or the caller leaves
	done      chan struct{} // closed when f ends while the caller still waits

	v        T
	err      error
	returned bool // f returned: it has neither panicked nor called runtime.Goexit
	panicked any
}

func (c *calling[T]) run(f func() (T, error)) {
	defer func() {
		if !c.returned {
			c.panicked = recover()
		}
		switch {
		case c.completed.CompareAndSwap(false, true):
			close(c.done)
		case c.panicked != nil:
			panic(c.panicked)
		case c.returned && c.err == nil:
			if made, ok := any(c.v).(io.Closer); ok {
				_ = made.Close()
			}
		}
	}()
	c.v, c.err = f()
	c.returned = true
}

// Status is the device's report about itself and about its work for this context. Each
// number is published separately, so that two numbers need not belong to the same moment.
type Status struct {
	State string // "running", "stopping" or "gone"

	// Clock is the device clock at the last write of the status page. While the engine works,
	// that was at most a few hundred microseconds ago. While it sleeps, that was longer ago.
	// Hz is the number of ticks of the clock in a second. Completions carry times of this
	// clock.
	Clock, Hz uint64

	WQEs     uint64 // send WQEs executed
	Bytes    uint64 // bytes of payload that these WQEs moved
	CQEs     uint64 // completions written
	Failed   uint64 // WQEs that ended with an error
	Receives uint64 // receives consumed
	Events   uint64 // completion events and other events sent

	Explained uint64 // faults explained, including those whose explanation was held back
	Stalls    uint64 // how often memory used by this context's work delayed the engine's thread

	// Suppressed is how many of the Explained faults did not come as events, because there were too many, or
	// none was read.
	Suppressed uint64
}

// Status reads the device's status page. It makes no control call.
func (c *Context) Status() (Status, error) {
	if c.client == nil {
		return Status{}, wrap("status", errZero)
	}
	word := func(off uint64) uint64 { return shm.Word64At(c.statusPage, off).Observe() }
	count := func(n control.Counter) uint64 { return word(n.Offset()) }
	s := Status{
		State: control.EngineState(word(control.StatusState)).String(),
		Clock: word(control.StatusClock), Hz: word(control.StatusHz),
		WQEs: count(control.CounterWQEs), Bytes: count(control.CounterBytes),
		CQEs:   count(control.CounterCQEs),
		Failed: count(control.CounterFailed), Receives: count(control.CounterReceives),
		Events:    count(control.CounterEvents),
		Explained: count(control.CounterExplained), Stalls: count(control.CounterStalls),
		Suppressed: count(control.CounterSuppressed),
	}
	if c.closed.Load() { // checked after the reads: if false, the page was still the device's during them
		return Status{}, wrap("status", ErrClosed)
	}
	if c.gone.Load() {
		s.State = control.EngineGone.String() // a device that was killed could not say so
	}
	return s, nil
}

// A lending device may let the goroutines of its client run its steps.
type lending interface{ lend() nic.Steps }
