package nicless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/platform"
	"github.com/nicless/nicless/sanitize"
	"github.com/nicless/nicless/trace"
)

// SanitizerConfig is the configuration of a Sanitizer. The zero value works.
type SanitizerConfig struct {
	// Report takes the reports, one after the other, on goroutines of the Sanitizer, until Close returns. It
	// must not close the Sanitizer or its context. Nil means that each report is written to standard error.
	Report func(*sanitize.Report)

	Strict bool // see sanitize.Options
	Notes  bool // see sanitize.Options
}

// A Sanitizer finds mistakes of the program in what it does by a context: memory that is changed while it
// belongs to the device, races of remote accesses, keys that are gone, queue pairs that are destroyed in
// flight. docs/SANITIZER.md describes each. Reports name both accesses, with the stacks of the posts.
//
// Its methods are safe for concurrent use.
type Sanitizer struct {
	c       *client // the sanitized one
	cfg     SanitizerConfig
	all     bool     // the device has no other clients than those that are to be sanitized
	watcher *Context // a client of the device, for watch
	watch   *Watch
	machine *sanitize.Sanitizer
	posters *posters
	cancel  func()
	ended   chan struct{} // closed when the goroutine has ended that reads watch
	gone    chan struct{} // closed when the device has destroyed what c had

	reporting sync.Mutex // held while a report is made
	done      bool       // no more reports are made

	mu        sync.Mutex
	found     []sanitize.Report
	stored    map[storedAt]sanitize.Report // stores to the buffers of receives; see explainStore
	readEarly map[readAt]bool              // buffers of which an early read is reported
	toEmit    []sanitize.Report            // of early reads; see emitEarly
	emitting  bool                         // emitEarly runs
	emitted   sync.Cond                    // of mu: emitEarly has ended
	failed    error                        // why no more events can be read

	closing sync.Once
	err     error // of closing
}

// Sanitize begins to look for mistakes of this program in what it does by the context. Call it before the
// context makes objects: posts to queues that exist already have no stacks, and early reads of the buffers of
// their receives are not found. The Sanitizer ends when it or the
// context is closed, and makes its last reports before the call returns.
//
// The device then holds each WQE back for 200 microseconds, so that a program that touches its bytes too
// early is seen, and a post takes one or two microseconds more. On an engine in another process this is so
// for all contexts of this process; the Sanitizer reports mistakes in which this context has a part.
//
// A context has one Sanitizer at a time. Other errors are refusals of the engine: it is older than protocol
// 2.9, or it sees this process by another number, because it runs in another PID namespace.
func (c *Context) Sanitize(cfg SanitizerConfig) (*Sanitizer, error) {
	const what = "sanitize"
	if c.client == nil {
		return nil, wrap(what, errZero)
	}
	if err := c.err(); err != nil {
		return nil, wrap(what, err)
	}
	dev, ok := c.dev.(watchable)
	if !ok {
		return nil, platform.Unsupported("nicless: sanitize")
	}
	s := &Sanitizer{c: c.client, cfg: cfg, ended: make(chan struct{}), gone: make(chan struct{}),
		posters: newPosters(), stored: make(map[storedAt]sanitize.Report), readEarly: make(map[readAt]bool)}
	s.emitted.L = &s.mu
	c.sanitizing.Lock()
	defer c.sanitizing.Unlock()
	if c.sanitizer.Load() != nil {
		return nil, wrap(what, control.Errorf(control.CodeLimit, "a context has one Sanitizer, and this one has it already"))
	}
	if s.cfg.Report == nil {
		s.cfg.Report = func(r *sanitize.Report) { _, _ = io.WriteString(os.Stderr, r.String()) }
	}
	sanitizers.add(s)
	if err := s.begin(dev); err != nil {
		s.endEarly()
		return nil, wrap(what, err)
	}
	c.sanitizer.Store(s)
	if c.closed.Load() { // Close may have found no Sanitizer
		return nil, wrap(what, errors.Join(ErrClosed, s.Close()))
	}
	return s, nil
}

// A watchable is a device whose client can be watched by another client of this process.
type watchable interface {
	// companion connects another client to the device, and says how that can watch this one.
	companion() (device, WatchFilter, error)

	// leave ends the client: the device destroys all that it has. The device is not closed.
	leave() error
}

// begin begins to watch.
func (s *Sanitizer) begin(dev watchable) error {
	d, filter, err := dev.companion()
	if err != nil {
		return err
	}
	s.watcher, err = newContext(d, nil)
	if err != nil {
		return err
	}
	filter.Sanitize, s.all = true, filter.All
	s.watch, err = s.watcher.Watch(filter)
	if err == nil {
		s.machine = sanitize.New(sanitize.Options{Clock: s.watch.Clock(), Strict: s.cfg.Strict,
			Notes: s.cfg.Notes, Stack: s.posters.stack})
		sanitizers.present(s)
		err = s.present(filter)
		if err != nil {
			err = errors.Join(err, s.watch.Close())
		}
	}
	if err != nil {
		return errors.Join(err, s.watcher.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.read(ctx)
	return nil
}

// present takes the events of what exists already. The client itself must be there.
func (s *Sanitizer) present(f WatchFilter) error {
	var e trace.Event
	for clients := 0; ; {
		ok, err := s.watch.Poll(&e)
		switch {
		case err != nil:
			return err
		case !ok && clients == 0:
			return fmt.Errorf("the engine sees no client of process %d: it runs in another PID namespace, "+
				"where this process has another number", f.PID)
		case !ok:
			return nil
		}
		if e.Kind == trace.KindClient {
			clients++
		}
		s.take(&e)
	}
}

// read takes events until ctx ends, or the device has gone.
func (s *Sanitizer) read(ctx context.Context) {
	defer close(s.ended)
	var e trace.Event
	err := s.watch.Next(ctx, &e)
	for err == nil {
		s.take(&e)
		err = s.watch.Next(ctx, &e)
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("sanitize: mistakes after that were not seen: %w", ErrDeviceGone)
	}
	if !errors.Is(err, context.Canceled) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed = err
	}
}

// take takes an event.
func (s *Sanitizer) take(e *trace.Event) {
	s.posters.event(e)
	s.report(s.machine.Event(e))
	s.dropStores(e)
	if e.Kind == trace.KindClientGone && s.posters.left(e.Queue) {
		close(s.gone)
	}
}

// report makes the reports in which the context has a part.
func (s *Sanitizer) report(list []sanitize.Report) {
	if len(list) == 0 {
		return
	}
	for i := range list {
		r := &list[i]
		ours := s.all || r.Code == sanitize.EventsLost
		for _, a := range r.Accesses {
			ours = ours || s.posters.is(a.Client)
		}
		if !ours {
			continue
		}
		s.explainStore(r)
		s.emit(r)
	}
}

// emit makes a report, unless the Sanitizer is closed.
func (s *Sanitizer) emit(r *sanitize.Report) {
	s.reporting.Lock()
	defer s.reporting.Unlock()
	if s.done {
		return
	}
	s.mu.Lock()
	s.found = append(s.found, *r)
	s.mu.Unlock()
	s.cfg.Report(r)
}

// Reports returns the reports that were made so far, of at most 4096 mistakes, and of early reads of at most
// 1024 buffers. After Close of the Sanitizer or of the context, these are all.
func (s *Sanitizer) Reports() []sanitize.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.found)
}

// Close makes the last reports, and ends the Sanitizer. The context stays open, and its queues go on noting
// stacks. Work that the device has not found yet, some microseconds after the post, is not seen. Errors say
// why events could not be read. A second Close returns the same.
func (s *Sanitizer) Close() error {
	s.closing.Do(func() {
		s.endEarly()
		s.drain()
		s.cancel()
		<-s.ended
		s.noteStores(func(storedAt) bool { return true })
		s.reporting.Lock()
		s.done = true
		s.reporting.Unlock()
		s.err = errors.Join(s.failed, s.watch.Close(), s.watcher.Close())
		s.c.sanitizer.CompareAndSwap(s, nil)
	})
	return s.err
}

// drain returns when everything is recorded that the device has done before: it answers between two steps.
func (s *Sanitizer) drain() {
	var a control.QPAttr
	_, _ = s.watcher.dev.Call(control.OpQueryQP, &control.QPN{}, &a) // there is no such queue pair
}

// leave ends the client on the device, and then the Sanitizer, which so sees also what the device destroys.
// Another engine finds out by itself that the connection has ended.
func (s *Sanitizer) leave() error {
	err := s.c.dev.(watchable).leave()
	if s.posters.known() {
		late := time.NewTimer(drainTime)
		defer late.Stop()
		select {
		case <-s.gone:
		case <-s.ended:
		case <-late.C:
		}
	}
	return errors.Join(err, s.Close())
}
