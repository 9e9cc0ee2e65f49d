//go:build linux && (amd64 || arm64)

package top

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/nicless/nicless/cmd/nicless/internal/latency"
	"github.com/nicless/nicless/state"
	"github.com/stretchr/testify/require"
)

// A recorded source has what engines have answered: JSON Lines, each with one of the members below.
type recorded struct {
	mu        sync.Mutex
	moments   []moment // a refresh takes the next one; the last one stays
	at        int
	rings     []state.Ring
	latencies map[uint32]latency.Sample
	links     Links

	read     func()          // called for each question; nil: nothing
	sample   func()          // called for each sample; nil: nothing
	requests []state.Request // all questions so far
	measured []uint32        // all samples so far
}

// A moment is a snapshot, or why there was none.
type moment struct {
	Snapshot *state.Snapshot `json:"snapshot,omitempty"`
	Error    string          `json:"error,omitempty"`
}

// A recordedLine is a line of a recording.
type recordedLine struct {
	moment
	Ring    *state.Ring     `json:"ring,omitempty"`
	Latency *latency.Sample `json:"latency,omitempty"`
	Links   *Links          `json:"links,omitempty"`
}

func load(t testing.TB, file string) *recorded {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	r := &recorded{latencies: map[uint32]latency.Sample{}}
	in := bufio.NewScanner(bytes.NewReader(b))
	in.Buffer(nil, len(b)+1)
	for in.Scan() {
		var l recordedLine
		require.NoError(t, json.Unmarshal(in.Bytes(), &l))
		switch {
		case l.Snapshot != nil || l.Error != "":
			r.moments = append(r.moments, l.moment)
		case l.Ring != nil:
			r.rings = append(r.rings, *l.Ring)
		case l.Latency != nil:
			r.latencies[l.Latency.Queue] = *l.Latency
		case l.Links != nil:
			r.links = *l.Links
		}
	}
	require.NotEmpty(t, r.moments)
	return r
}

// next goes on to the next moment.
func (r *recorded) next() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = min(r.at+1, len(r.moments)-1)
}

func (r *recorded) Read(ctx context.Context, q state.Request) (*state.Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, q)
	if r.read != nil {
		r.read()
	}
	m := r.moments[r.at]
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case m.Error != "":
		return nil, errors.New(m.Error)
	case q.Ring != nil:
		ring, err := r.ring(q.Ring)
		return &state.Snapshot{Ring: ring}, err
	}
	return choose(m.Snapshot, &q), nil
}

// choose returns the objects of a snapshot that a request asks for, as an engine does.
func choose(s *state.Snapshot, q *state.Request) *state.Snapshot {
	c := *s
	if !has(q, state.Clients) {
		c.Clients = nil
	}
	if !has(q, state.Queues) {
		c.Queues = nil
	}
	if !has(q, state.CQs) {
		c.CQs = nil
	}
	if q.Queue == 0 {
		return &c
	}
	c.Clients, c.Queues, c.CQs = slices.Clone(c.Clients), slices.Clone(c.Queues), slices.Clone(c.CQs)
	var one state.Queue
	c.Queues = slices.DeleteFunc(c.Queues, func(x state.Queue) bool { return x.Number != q.Queue })
	if len(c.Queues) > 0 {
		one = c.Queues[0]
	}
	c.Clients = slices.DeleteFunc(c.Clients, func(x state.Client) bool { return x.Number != one.Client })
	c.CQs = slices.DeleteFunc(c.CQs, func(x state.CQ) bool { return x.Number != one.SendCQ && x.Number != one.RecvCQ })
	return &c
}

// ring returns the entries of a ring that are asked for.
func (r *recorded) ring(q *state.RingRequest) (*state.Ring, error) {
	for _, ring := range r.rings {
		if ring.Queue != q.Queue || ring.Of != q.Of {
			continue
		}
		first := q.First
		if q.Last {
			first = ring.Consumer - min(ring.Consumer, uint64(q.Count/2))
		}
		first = max(first, ring.First)
		all := uint64(len(ring.Bytes)) / uint64(ring.Entry)
		from := min(first-ring.First, all)
		to := min(from+uint64(q.Count), all)
		ring.First, ring.Bytes = first, ring.Bytes[from*uint64(ring.Entry):to*uint64(ring.Entry)]
		return &ring, nil
	}
	return nil, fmt.Errorf("queue 0x%x has no %s ring", q.Queue, q.Of)
}

func (r *recorded) Latency(_ context.Context, queue uint32) (latency.Sample, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.measured = append(r.measured, queue)
	if r.sample != nil {
		r.sample()
	}
	s, ok := r.latencies[queue]
	if !ok {
		return s, errors.New("nothing was recorded")
	}
	return s, nil
}

func (r *recorded) Links(context.Context) (Links, error) { return r.links, nil }
