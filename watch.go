package nicless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
)

// A WatchFilter says which clients of an engine a Watch reads of. Exactly one of All, QPN, PID and
// Program is set. An ordinary user can watch clients of that user only; root and the engine's own user can
// watch all.
type WatchFilter struct {
	All     bool   // all clients that the user may watch, later ones too
	QPN     uint32 // one queue pair, which exists already
	PID     int    // the clients of a process, later ones too
	Program string // the clients of all processes of this name, as /proc/PID/comm has it: at most 15 bytes

	// Replay records also what a replay needs (nicless replay): payload, receives, and how queues were made.
	// The queue pairs that are watched then take the slow path.
	Replay bool

	// Sanitize records also what package sanitize needs, and holds each WQE back for a moment before it is
	// executed, so that a program that touches its bytes too early is seen. It implies Replay.
	Sanitize bool

	// Bytes is the size of the ring of each thread of the engine, a power of two from trace.LeastRing to
	// trace.MostRing; 0 leaves it to the engine, which takes 16 MiB. A larger ring lets a watcher that is
	// late for a moment lose nothing.
	Bytes int
}

// A Watch reads what clients of an engine do. Its methods may be used by one goroutine at a time. While
// nobody watches a queue pair, watching costs it nothing. A slow watcher loses events, and never holds the
// engine.
type Watch struct {
	c       *Context
	mem     *shm.Region
	rings   []*trace.Ring
	waiting []trace.Event // the next event of each ring
	have    []bool        // waiting has one
}

// Watch begins to record what other clients of the engine do. The record has what exists already: an event
// for each client, key and queue pair. A context can watch once; the engine records until the context is
// closed. Errors are refusals of the engine, or say that the engine is older than protocol 2.5.
func (c *Context) Watch(f WatchFilter) (_ *Watch, err error) {
	const what = "watch"
	if c.limits.Minor < minorWatch {
		return nil, wrap(what, control.Errorf(control.CodeUnsupported, "the engine's protocol is 2.%d; 2.%d is needed", c.limits.Minor, minorWatch))
	}
	if f.Bytes < 0 || f.PID < 0 || uint64(f.PID) > 1<<32-1 {
		return nil, wrap(what, control.Errorf(control.CodeInvalid, "rings of %d bytes, pid %d; both are at least 0", f.Bytes, f.PID))
	}
	m := control.Watch{Bytes: uint64(f.Bytes), QPN: f.QPN, PID: uint32(f.PID), Program: f.Program}
	if f.All {
		m.All = control.WatchAll
	}
	if f.Sanitize {
		if c.limits.Minor < minorSanitize {
			return nil, wrap(what, control.Errorf(control.CodeUnsupported, "the engine's protocol is 2.%d; 2.%d is needed for the sanitizer", c.limits.Minor, minorSanitize))
		}
		m.All |= control.WatchSanitize
	}
	if f.Replay || f.Sanitize {
		if c.limits.Minor < minorReplay {
			return nil, wrap(what, control.Errorf(control.CodeUnsupported, "the engine's protocol is 2.%d; 2.%d is needed to record for a replay", c.limits.Minor, minorReplay))
		}
		m.All |= control.WatchReplay
	}
	var rings control.Rings
	r, err := c.call(what, control.OpWatch, &m, &rings)
	if err != nil {
		return nil, err
	}
	w := &Watch{c: c, waiting: make([]trace.Event, rings.Rings), have: make([]bool, rings.Rings)}
	w.mem, err = shm.AttachReadOnly(r.Rings)
	if err != nil {
		return nil, wrap(what, err)
	}
	mem := w.mem.Bytes()
	for n := uint64(rings.Size); len(w.rings) < int(rings.Rings); mem = mem[n:] {
		ring, err := (*trace.Ring)(nil), error(nil)
		if n > uint64(len(mem)) {
			err = fmt.Errorf("%d rings of %d bytes in memory of %d", rings.Rings, n, w.mem.Size())
		} else {
			ring, err = trace.NewRing(mem[:n:n])
		}
		if err != nil {
			return nil, wrap(what, errors.Join(err, w.mem.Close()))
		}
		w.rings = append(w.rings, ring)
	}
	return w, nil
}

// minorWatch is the minor version of the protocol that has OpWatch.
const minorWatch = 5

// minorReplay is the minor version of the protocol that has control.WatchReplay.
const minorReplay = 6

// minorSanitize is the minor version of the protocol that has control.WatchSanitize.
const minorSanitize = 9

// Clock says what the times of the events mean.
func (w *Watch) Clock() trace.Clock { return w.rings[0].Clock() }

// Poll reads the next event. It returns false if there is none yet. The data of the event are valid until
// the next call. Events of one thread of the engine come in order; if there are several threads, an event can
// come after one of another thread that is younger, by the time of a visit.
func (w *Watch) Poll(e *trace.Event) (bool, error) {
	next := -1
	for i, r := range w.rings {
		if !w.have[i] {
			ok, err := r.Next(&w.waiting[i])
			if err != nil {
				return false, err
			}
			w.have[i] = ok
		}
		if w.have[i] && (next < 0 || int64(w.waiting[i].Time-w.waiting[next].Time) < 0) {
			next = i
		}
	}
	if next < 0 {
		return false, nil
	}
	*e = w.waiting[next]
	w.have[next] = false
	return true, nil
}

// watchPause is how long Next waits between two looks for events. In that time the engine writes 2 MB at a
// gigabyte a second, an eighth of the usual ring.
const watchPause = 2 * time.Millisecond

// Next waits for the next event, and reads it. It returns the error of ctx when ctx has ended and all events
// that were recorded before were read, and io.EOF when the engine has gone and all its events were read.
func (w *Watch) Next(ctx context.Context, e *trace.Event) error {
	var pause *time.Timer
	for {
		over, gone := ctx.Err() != nil, w.gone() // asked first: what was recorded before the end is read
		ok, err := w.Poll(e)
		switch {
		case err != nil || ok:
			return err
		case gone:
			return io.EOF
		case over:
			return context.Cause(ctx)
		}
		if pause == nil {
			pause = time.NewTimer(watchPause)
			defer pause.Stop()
		} else {
			pause.Reset(watchPause)
		}
		select {
		case <-ctx.Done():
		case <-w.c.Done():
		case <-pause.C:
		}
	}
}

// gone reports whether the engine has gone.
func (w *Watch) gone() bool {
	select {
	case <-w.c.Done():
		return true
	default:
		return false
	}
}

// Close ends the reading. The engine goes on recording until the context is closed.
func (w *Watch) Close() error {
	w.rings = nil
	return w.mem.Close()
}
