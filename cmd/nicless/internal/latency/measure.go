package latency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/state"
	"github.com/nicless/nicless/trace"
)

// Limits of a sample. A watch costs the engine time for each event. So the sample of a busy queue that
// signals few WQEs ends by the number of its events, and not by time.
const (
	MostCompletions = 64
	MostEvents      = 8192 // those that were lost count, too
	MostTime        = 250 * time.Millisecond
)

// ring is the size of the watch's ring, in bytes: what the fastest queue writes between two looks at it.
const ring = 4 * trace.LeastRing

// A Sample is the latencies of some completions of a queue pair that follow each other.
type Sample struct {
	Queue     uint32
	Latencies []time.Duration // the oldest first; at most MostCompletions
}

// errEnough ends the wait for events.
var errEnough = errors.New("latency: the time of a sample is over")

// Measure takes a sample of a queue pair of the engine whose socket is at path. A sample of a queue that does
// nothing has no latencies. It returns the error of ctx when ctx ends, and an error if the engine refuses:
// only the queue's user, the engine's and root may watch. Safe for concurrent use.
func Measure(ctx context.Context, path string, queue uint32) (s Sample, err error) {
	s.Queue = queue
	c, err := nicless.Dial(path)
	if err != nil {
		return s, fmt.Errorf("latency: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	w, err := c.Watch(nicless.WatchFilter{QPN: queue, Bytes: ring})
	if err != nil {
		return s, fmt.Errorf("latency: queue 0x%x: %w", queue, err)
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	// The watch is open now. So blocks that are not announced yet, by what the engine says from here on, have
	// their doorbell in the watch.
	announced, err := announcedOf(ctx, path, queue)
	if err != nil {
		return s, err
	}
	short, cancel := context.WithTimeoutCause(ctx, MostTime, errEnough)
	defer cancel()
	return s, s.read(short, w, newPairing(queue, announced, w.Clock().Hz))
}

// read reads events until the sample is whole or ctx ends.
func (s *Sample) read(ctx context.Context, w *nicless.Watch, p *pairing) error {
	found := func(d time.Duration) {
		if len(s.Latencies) < MostCompletions {
			s.Latencies = append(s.Latencies, d)
		}
	}
	events := uint64(0)
	for len(s.Latencies) < MostCompletions && ctx.Err() == nil {
		if events >= MostEvents {
			return nil
		}
		var e trace.Event
		err := w.Next(ctx, &e)
		switch {
		case errors.Is(err, errEnough), errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		events++
		if e.Kind == trace.KindLost {
			events += e.Value
		}
		p.event(&e, found)
	}
	if errors.Is(context.Cause(ctx), errEnough) {
		return nil
	}
	return context.Cause(ctx)
}

// announcedOf returns how many blocks of a queue pair have been announced since RESET.
func announcedOf(ctx context.Context, path string, queue uint32) (uint64, error) {
	s, err := state.Read(ctx, path, state.Request{Kinds: []state.Kind{state.Queues}, Queue: queue})
	if err != nil {
		return 0, err
	}
	for i := range s.Queues {
		if q := &s.Queues[i]; q.Number == queue {
			return q.Done + uint64(q.Announced), nil
		}
	}
	return 0, fmt.Errorf("latency: queue 0x%x does not exist any more", queue)
}
