//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/tools/quantile"
)

// engineSlice is how many bytes an engine moves for one queue before it serves other queues.
// It is the default of engine.Config.Slice.
const engineSlice = 64 << 10

var besideGroup = group{
	process: true,
	busy:    true,
	rows: []spec{{
		name: "beside-1G", what: fmt.Sprintf("p99 of 8-byte WRITEs, post to completion, while a WRITE of 1 GiB is executed on another queue pair; a slice is %d KiB", engineSlice>>10),
		unit: "ns", floor: "p99 of the copy of one slice of a large buffer, plus a round trip", most: 1,
	}},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		engine, client, err := s.start(true)
		if err != nil {
			return nil, nil, err
		}
		b := &beside{suite: s, engine: engine}
		end := engine.with(client)
		if err := b.prepare(client); err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return b.take, func() error { return errors.Join(b.trip.close(), end()) }, nil
	},
}

// beside is a long write, and short writes that are timed while the long write lasts.
type beside struct {
	*suite
	engine      *process
	long, short *Pair
	trip        *floor
	longs, next uint64 // numbers of long writes and of short writes so far
}

func (b *beside) prepare(c *nicless.Context) (err error) {
	b.long, err = NewPair(c, PairConfig{Op: nicless.Write, Size: b.counts.large, Slots: 1, Depth: 1,
		Batch: 1, Patience: patience})
	if err != nil {
		return err
	}
	b.short, err = b.pinger(c)
	if err != nil {
		return err
	}
	clear(b.long.From.Bytes())
	if err := b.long.one(b.ctx, 0); err != nil { // touches all pages, so that no page fault comes later
		return err
	}
	b.longs = 1
	b.trip, err = newFloor(shape{}, 8, 1, 1, b.EngineCPU)
	if err != nil {
		return err
	}
	return b.engine.pause()
}

func (b *beside) take() ([]pairOf, error) {
	var p pairOf
	trip, err := b.trip.roundTrip(b.counts.latency / 10)
	if err != nil {
		return nil, err
	}
	p.floor, err = b.slices()
	if err != nil {
		return nil, err
	}
	p.floor = sample{p.floor.value + trip.value, max(p.floor.lost, trip.lost)}
	err = b.engine.during(func() (err error) {
		p.device, err = b.while()
		return err
	})
	return []pairOf{p}, err
}

// slices returns the 99th percentile of the time that one slice takes on the engine's core.
func (b *beside) slices() (s sample, err error) {
	to, from := b.long.To.Bytes(), b.long.From.Bytes()
	cycles := make([]uint64, 0, len(from)/engineSlice+1)
	done := make(chan error)
	go func() {
		err := pinForGood(b.EngineCPU)
		if err == nil {
			t := timed(func() {
				for at := 0; at < len(from); at += engineSlice {
					n := min(engineSlice, len(from)-at)
					start := clock.Now()
					copy(to[at:at+n], from[at:at+n])
					cycles = append(cycles, clock.Now()-start)
				}
			})
			s.lost = t.lost
		}
		done <- err
	}()
	err = <-done
	s.value = p99(cycles)
	return s, err
}

// while returns the 99th percentile of the latencies of the short writes that begin while the
// long write lasts.
func (b *beside) while() (s sample, err error) {
	m := &measurement{ctx: b.ctx}
	if err := m.trips(b.short, b.next, b.next+100); err != nil {
		return s, err
	}
	b.next += 100
	if err := b.long.Post(b.longs, 1); err != nil {
		return s, err
	}
	b.longs++
	var cycles []uint64
	t := timed(func() {
		for done := uint64(0); done < b.longs && err == nil; done, err = b.long.Poll() {
			start := clock.Now()
			if err = b.short.one(b.ctx, b.next); err != nil {
				return
			}
			b.next++
			cycles = append(cycles, clock.Now()-start)
		}
	}, b.engine.pid())
	s = sample{p99(cycles), t.lost}
	return s, errors.Join(err, b.short.Compare())
}

// p99 returns the 99th percentile of cycles, in nanoseconds.
func p99(cycles []uint64) float64 {
	if len(cycles) == 0 {
		return 0
	}
	slices.Sort(cycles)
	return float64(clock.Duration(quantile.Rank(cycles, 0.99)) / time.Nanosecond)
}
