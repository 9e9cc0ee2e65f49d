package niclesstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/inside"
	"github.com/nicless/nicless/trace"
)

// Config says how a device behaves. The zero value is right for most tests.
type Config struct {
	// Clock says what makes the device clock advance. Zero means Real.
	Clock Clock

	// NoTrace lets nobody watch the device. Device.Trace then fails the test. Watched queue pairs are
	// slower, so that benchmarks set NoTrace.
	NoTrace bool

	// TraceBytes is the size of the ring of events, a power of two from 256 KiB to 1 GiB. Zero means 2 MiB,
	// which is enough unless the machine is very busy, or more than 5,000 work requests are announced at
	// once. Events for which there is no room are lost, and the trace says so. A device with a ring of 16 MiB
	// takes 20 ms to make.
	TraceBytes int

	// Engine configures the engine: links, limits, its log. Cores must have one element at most.
	Engine nicless.Config
}

// A Device is a device for one test. Its methods are safe for concurrent use. Those that fail the test
// (Fatal) may only be called on the goroutine of the test.
type Device struct {
	t      testing.TB
	cfg    Config
	engine inside.Engine
	watch  *nicless.Watch // nil: NoTrace
	clock  trace.Clock    // of watch

	attaching sync.Mutex // held while a client is made
	attached  int        // clients so far

	recording  sync.Mutex
	recorded   []trace.Event
	unreadable error  // of watch
	mostEvents int    // for tests; otherwise the constant
	stop       func() // ends the goroutine that collects events

	mu              sync.Mutex
	guests          []*guest
	pairs           []*End
	watcher         *guest
	faulters        []*guest // have set rules of faults
	sanitizers      []*guest
	explanations    []nicless.Explanation
	expected        map[string]bool // codes that must come; true: has come
	allowed         map[string]bool // codes that may come
	leaksAllowed    bool
	unpolledAllowed bool
	ended           bool // the test is over and must not be logged to
}

// A guest is a client of the device, with what it has made.
type guest struct {
	d      *Device
	name   string
	client inside.Client
	ctx    *nicless.Context
	ledger
}

// New returns a device for the test t, with a first client. It skips the test on systems where there is no
// device: anything but Linux on amd64 and arm64. At the end of the test the device closes what it has made,
// and fails the test for what is left: see the package's documentation.
//
// A test, a benchmark and a function under test of a fuzz target each take a device of their own.
func New(t testing.TB) *Device {
	t.Helper()
	return NewWith(t, Config{})
}

// traceBytes is the usual size of the ring of events. All its pages are taken when it is made, so that a
// larger one would make each test slower.
const traceBytes = 2 << 20

// NewWith is New for a device that is not the usual one.
func NewWith(t testing.TB, cfg Config) *Device {
	t.Helper()
	if cfg.Clock == Real && inBubble() {
		t.Fatalf("niclesstest: a device with the clock Real in a synctest bubble, whose time would stand still; " +
			"take NewWith(t, Config{Clock: Bubble})")
	}
	e, err := inside.Open(cfg.Engine, inside.Clock(cfg.Clock))
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("niclesstest: there is no device here: %v", err)
	}
	if err != nil {
		t.Fatalf("niclesstest: %v", err)
	}
	if cfg.TraceBytes == 0 {
		cfg.TraceBytes = traceBytes
	}
	d := &Device{t: t, cfg: cfg, engine: e, expected: make(map[string]bool), allowed: make(map[string]bool)}
	t.Cleanup(d.end)
	d.NewClient()
	if !cfg.NoTrace {
		d.watcher = d.attach()
		d.watch, err = d.watcher.ctx.Watch(nicless.WatchFilter{All: true, Bytes: cfg.TraceBytes})
		if err != nil {
			t.Fatalf("niclesstest: %v", err)
		}
		d.record()
	}
	return d
}

// record lets events be collected before the ring is full.
func (d *Device) record() {
	d.clock, d.mostEvents = d.watch.Clock(), mostEvents
	if d.cfg.Clock != Real {
		d.engine.AfterSteps(d.collect)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.collectOften(ctx)
	}()
	d.stop = func() {
		cancel()
		<-ended
	}
}

// attach makes a client. Its name has the number by which traces, explanations and rules of faults name it:
// the device numbers clients from 1 on.
func (d *Device) attach() *guest {
	d.t.Helper()
	d.attaching.Lock()
	defer d.attaching.Unlock()
	d.attached++
	g := &guest{d: d, name: fmt.Sprintf("client %d", d.attached), ledger: newLedger()}
	var err error
	g.client, err = d.engine.Attach(g.name, &g.ledger)
	if err != nil {
		d.t.Fatalf("niclesstest: %v", err)
	}
	g.ctx = g.client.Context().(*nicless.Context)
	return g
}

// Client returns the first client of the device. The device closes it at the end of the test.
func (d *Device) Client() *nicless.Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.guests[0].ctx
}

// NewClient returns another client of the device, which the device closes at the end of the test. A
// test can close a client before, as a program that ends does: the objects that the client has made do not
// count as left.
func (d *Device) NewClient() *nicless.Context {
	d.t.Helper()
	g := d.attach()
	g.ctx.OnExplanation(func(x nicless.Explanation) { d.explained(g, x) })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.guests = append(d.guests, g)
	return g.ctx
}

// AllowLeaks lets objects be left at the end of the test.
func (d *Device) AllowLeaks() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leaksAllowed = true
}

// AllowUnpolled lets completions be left at the end of the test.
func (d *Device) AllowUnpolled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unpolledAllowed = true
}

// end closes everything in the right order and checks what is left. It runs after all functions that the test
// has given to Cleanup after New.
func (d *Device) end() {
	d.t.Helper()
	d.mu.Lock()
	guests, pairs, watcher, faulters, sanitizers := d.guests, d.pairs, d.watcher, d.faulters, d.sanitizers
	d.mu.Unlock()
	for _, g := range guests {
		g.client.Drain() // so that what is left does not depend on how fast the device is
		g.client.Alive() // otherwise its objects are gone, too
	}
	closing := closePairs(pairs)
	var leaks, unpolled []string
	for _, g := range guests {
		leaks = append(leaks, g.left(g.name)...)
	}
	for _, g := range guests {
		closing = errors.Join(closing, g.ctx.Close()) // delivers the last explanations
		unpolled = append(unpolled, g.unpolled(g.name)...)
	}
	for _, g := range sanitizers {
		closing = errors.Join(closing, g.ctx.Close()) // makes the last reports
	}
	d.check(leaks, unpolled)
	if d.t.Failed() && d.watch != nil {
		d.logTrace()
	}
	if d.stop != nil {
		d.stop()
	}
	if d.watch != nil {
		closing = errors.Join(closing, d.closeWatch())
	}
	if watcher != nil {
		closing = errors.Join(closing, watcher.ctx.Close())
	}
	for _, g := range faulters {
		closing = errors.Join(closing, g.ctx.Close())
	}
	closing = errors.Join(closing, d.engine.Close())
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	if closing != nil && len(leaks) == 0 {
		d.t.Errorf("niclesstest: closing the device: %v", closing)
	}
}

// closeWatch closes the watch. A step that ends meanwhile collects nothing more.
func (d *Device) closeWatch() error {
	d.recording.Lock()
	defer d.recording.Unlock()
	d.unreadable = nicless.ErrClosed
	return d.watch.Close()
}

// check fails the test for what is left.
func (d *Device) check(leaks, unpolled []string) {
	d.t.Helper()
	d.mu.Lock()
	if d.leaksAllowed {
		leaks = nil
	}
	if d.unpolledAllowed {
		unpolled = nil
	}
	unexpected, missing := d.surprises()
	d.mu.Unlock()
	for _, x := range []struct {
		what, remedy string
		list         []string
	}{
		{"objects were not closed", "Close them, or call AllowLeaks", leaks},
		{"completions were not polled", "poll them, or call AllowUnpolled", unpolled},
		{"explanations were not expected", "correct the cause, or call Expect with the code", unexpected},
		{"expected explanations did not come", "call Allow for what need not come", missing},
	} {
		if len(x.list) > 0 {
			d.t.Errorf("niclesstest: %s (%s):\n\t%s", x.what, x.remedy, strings.Join(most(x.list), "\n\t"))
		}
	}
}

// mostListed is how many lines a list in a failure has: a screen. A program that leaks thousands of objects
// leaks them at few places, which the first lines name.
const mostListed = 40

func most(list []string) []string {
	if n := len(list) - mostListed; n > 0 {
		return append(list[:mostListed:mostListed], fmt.Sprintf("… and %d more", n))
	}
	return list
}
