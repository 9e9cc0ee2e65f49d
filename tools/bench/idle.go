//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"slices"
	"time"

	"github.com/nicless/nicless/tools/quantile"
)

// How long an engine that may sleep gets no work: before its use of the core is measured,
// during that measurement, and before each operation that is a first operation after a pause.
const (
	quietTime = 100 * time.Millisecond
	idleTime  = 300 * time.Millisecond
	pauseTime = 10 * time.Millisecond
)

var idleGroup = group{
	process: true,
	rows: []spec{
		{name: "idle-cpu", what: "time on cores of an engine process that may sleep, with one client and no work", unit: "% of a core", most: 1},
		{name: "first-write-8", what: "first 8-byte WRITE after 10 ms without work, post to completion", unit: "us",
			floor: "an eventfd wakes a thread that has slept for 10 ms; the thread answers by a store to shared memory", most: 3},
		{name: "first-foreign", what: "the same by a poster that writes WQE, record and register, and wakes nobody", unit: "us",
			floor: "the same", most: 100, absolute: true},
	},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		engine, client, err := s.start(false)
		if err != nil {
			return nil, nil, err
		}
		end := engine.with(client)
		i := &idleness{suite: s, engine: engine}
		i.pair, err = s.pinger(client)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return i.take, end, nil
	},
}

// idleness is an engine that may sleep, and a poster that wakes it.
type idleness struct {
	*suite
	engine *process
	pair   *Pair
	next   uint64
}

func (i *idleness) take() ([]pairOf, error) {
	out := make([]pairOf, 3)
	time.Sleep(quietTime)
	before, start := i.engine.ran(), time.Now()
	time.Sleep(idleTime)
	out[0].device.value = 100 * float64(i.engine.ran()-before) / float64(time.Since(start))

	w, err := newWaker(i.EngineCPU)
	if err != nil {
		return nil, err
	}
	floor, err := i.median(w.wake)
	if err := errors.Join(err, w.close()); err != nil {
		return nil, err
	}
	out[1].floor.value, out[2].floor.value = floor, floor
	out[1].device.value, err = i.median(func() error {
		defer func() { i.next++ }()
		i.pair.stamp(i.next)
		return i.pair.one(i.ctx, i.next)
	})
	if err != nil {
		return nil, err
	}
	out[2].device.value, err = i.strangers()
	return out, errors.Join(err, i.pair.Compare())
}

// strangers measures a poster that does not wake the engine. The poster has a separate engine,
// because an engine with such a client wakes up at short intervals, even if its other clients
// wake it.
func (i *idleness) strangers() (median float64, err error) {
	engine, client, err := i.start(false)
	if err != nil {
		return 0, err
	}
	end := engine.with(client)
	f, err := newForeign(client)
	if err == nil {
		median, err = i.median(func() error { return f.write(i.ctx) })
	}
	return median, errors.Join(err, end())
}

// median returns the median time that f takes after a pause, in microseconds.
func (i *idleness) median(f func() error) (float64, error) {
	var took []time.Duration
	for range i.counts.pauses {
		time.Sleep(pauseTime)
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
		if err := i.ctx.Err(); err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return float64(quantile.Rank(took, 0.5).Nanoseconds()) / 1e3, nil
}
