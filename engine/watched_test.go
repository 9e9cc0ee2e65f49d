package engine

import (
	"flag"

	"github.com/nicless/nicless/engine/internal/execution"
	events "github.com/nicless/nicless/engine/internal/tap"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// watched runs all tests of this package with a watch on all clients: nothing but the record may change.
var watched = flag.Bool("watched", false, "all tests: everything that the clients do is watched")

// sanitized, with watched, runs all tests with what belongs to the device in custody, with which nothing may
// change either.
var sanitized = flag.Bool("sanitized", false, "with -watched: what belongs to the device is compared before it is executed")

// watchAll puts a watch on everything that h will do. The record has to be readable at the end of the test.
func (r *rig) watchAll(h *host) {
	const number = events.Most - 1
	h.c.Follows, h.c.Watched = 1<<number, 1<<number
	if r.rings != nil {
		return
	}
	if *sanitized {
		r.d.runner.WatchesSanitize = 1 << number
	}
	for i, sh := range r.d.runner.Shards {
		if *sanitized {
			r.d.runner.Loops[i].Custody.Hold, r.d.runner.Loops[i].Custody.Budget = 0, 0
		}
		sh.Scratch.Unmapped.Between = make([][execution.UnmappedBytes]byte, 1)[0][:]
		mem, err := shm.Heap(trace.RingHeadSize + trace.LeastRing)
		require.NoError(r, err)
		sh.Taps.Add(number, events.NewRing(mem.Bytes(), trace.Clock{Hz: 1}, i))
		ring, err := trace.NewRing(mem.Bytes())
		require.NoError(r, err)
		r.rings = append(r.rings, ring)
	}
	r.Cleanup(func() {
		for _, ring := range r.rings {
			recorded(r, ring)
		}
	})
}

// recorded returns what is in a ring.
func recorded(t require.TestingT, ring *trace.Ring) (all []trace.Event) {
	for {
		var e trace.Event
		ok, err := ring.Next(&e)
		require.NoError(t, err)
		if !ok {
			return all
		}
		e.Data = append([]byte(nil), e.Data...)
		all = append(all, e)
	}
}
