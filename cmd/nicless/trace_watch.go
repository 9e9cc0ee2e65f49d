//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
)

// A watchSource has the events of an engine, until the context ends or the engine stops. Then it has an event
// that ends the trace.
type watchSource struct {
	*nicless.Watch
	c     *nicless.Context
	ctx   context.Context
	idle  func() error // called before the source waits
	count uint64
	last  uint64 // time of the last event; before the first one, the moment of the clock
	ended bool
}

// checkProcess returns an error if no process has an id: it has no clients, and will have none.
func checkProcess(pid uint64) error {
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); errors.Is(err, fs.ErrNotExist) {
		return hintf("ps lists processes; --program NAME watches those that come later, too",
			"trace: process %d does not exist", pid)
	}
	return nil
}

// replayRing is the size of the ring of each thread of an engine that records for a replay. A trace that has
// lost events cannot be replayed, and payload takes much room: so it is four times the usual size, which is
// enough for a watcher that has no core for 50 ms while the engine moves a gigabyte a second.
const replayRing = 64 << 20

// openWatch watches those clients of an engine that x chooses.
func openWatch(ctx context.Context, socket string, x *eventChoice) (_ *namedSource, err error) {
	if socket == "" {
		if socket, err = defaultSocket(); err != nil {
			return nil, err
		}
	}
	c, err := nicless.Dial(socket)
	if err != nil {
		return nil, hintf("nicless run --trace FILE -- PROGRAM traces a program; for another engine: nicless trace --engine PATH",
			"trace: %w", err)
	}
	f := nicless.WatchFilter{All: x.whole(), Program: x.program, Replay: x.replay, Sanitize: x.sanitize}
	if x.replay || x.sanitize {
		f.Bytes = replayRing
	}
	switch {
	case x.qp != "":
		f.QPN = uint32(x.number)
	case x.pid != "":
		f.PID = int(x.number)
		if err := checkProcess(x.number); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	w, err := c.Watch(f)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", errors.Join(err, c.Close()))
	}
	s := &watchSource{Watch: w, c: c, ctx: ctx, last: w.Clock().Ticks}
	return &namedSource{eventSource: s, Closer: s, name: text.Plain(socket), live: true}, nil
}

// onIdle says what to do before the source waits.
func (s *watchSource) onIdle(f func() error) { s.idle = f }

func (s *watchSource) Next(e *trace.Event) error {
	if s.ended {
		return io.EOF
	}
	ok, err := s.Poll(e)
	if err == nil && !ok {
		if err = s.idle(); err != nil {
			return err
		}
		err = s.Watch.Next(s.ctx, e)
	}
	switch {
	case err == nil:
		s.count, s.last = s.count+1, e.Time
		return nil
	case err == io.EOF || s.ctx.Err() != nil:
		s.ended = true
		*e = trace.Event{Kind: trace.KindEnd, Time: s.last, Value: s.count}
		if err == io.EOF {
			e.Index = 1 // the engine has stopped
		}
		return nil
	}
	return err
}

func (s *watchSource) Close() error { return errors.Join(s.Watch.Close(), s.c.Close()) }
