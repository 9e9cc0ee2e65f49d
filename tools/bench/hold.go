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

// A run lasts 0.4 s. At real-time priority (chrt -f) the kernel takes 50 ms of each second from a
// thread that does not sleep, which would be the longest wait of a longer run.
//
// tickTime is the time between two WRITEs beside a hoard. An engine without other work begins to nap
// within that time.
const tickTime = 200 * time.Microsecond

var holdGroup = group{
	process: true,
	rows: []spec{
		{name: "hoard-p50", what: "median of an 8-byte WRITE every 0.2 ms, post to completion, by a poster that wakes nobody, " +
			"beside 20 clients of the same user that hold 320,000 CQs with events", unit: "us",
			floor: "the same in an engine without these clients"},
		{name: "hoard-p99", what: "99th percentile of the same", unit: "us", floor: "the same", most: 1000, absolute: true},
		{name: "hoard-max", what: "longest of the same", unit: "us", floor: "the same", most: 5000, absolute: true},
	},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		var ends []func() error
		end := func() (err error) {
			for _, f := range slices.Backward(ends) {
				err = errors.Join(err, f())
			}
			return err
		}
		var sides [2]*ticker
		for i := range sides {
			engine, client, err := s.start(false)
			if err != nil {
				return nil, nil, errors.Join(err, end())
			}
			ends = append(ends, engine.with(client))
			f, err := newForeign(client)
			if err == nil && i == 1 {
				var hoard func() error
				if hoard, err = s.hold(engine); hoard != nil {
					ends = append(ends, hoard)
				}
			}
			if err == nil {
				err = engine.pause()
			}
			if err != nil {
				return nil, nil, errors.Join(err, end())
			}
			sides[i] = &ticker{suite: s, engine: engine, foreign: f}
		}
		take := func() ([]pairOf, error) {
			out := make([]pairOf, 3)
			for i, side := range sides {
				list, lost, err := side.tick()
				if err != nil {
					return nil, err
				}
				for at, v := range []time.Duration{quantile.Rank(list, 0.5), quantile.Rank(list, 0.99),
					list[len(list)-1]} {
					x := sample{float64(v.Nanoseconds()) / 1e3, lost}
					if i == 0 {
						out[at].floor = x
					} else {
						out[at].device = x
					}
				}
			}
			return out, nil
		}
		return take, end, nil
	},
}

// hold makes clients of the engine that hold many CQs with events. It returns a function that
// closes them, perhaps also if there is an error.
func (s *suite) hold(engine *process) (func() error, error) {
	var clients []*nicless.Context
	end := func() (err error) {
		err = engine.resume() // the engine must answer when a client is closed
		for _, c := range clients {
			err = errors.Join(err, c.Close())
		}
		return err
	}
	for range s.counts.holders {
		c, err := nicless.Dial(engine.socket)
		if err != nil {
			return end, err
		}
		clients = append(clients, c)
		ch, err := c.CreateChannel()
		if err != nil {
			return end, err
		}
		for i := range s.counts.held / s.counts.holders {
			if _, err := c.CreateCQ(nicless.CQConfig{Entries: 1, Channel: ch}); err != nil {
				return end, fmt.Errorf("bench: CQ %d of a hoard: %w", i, err)
			}
		}
	}
	return end, nil
}

// A ticker posts at regular times.
type ticker struct {
	*suite
	engine  *process
	foreign *foreign
}

// tick posts WRITEs, one each tickTime, and returns how long they took, in ascending order.
func (b *ticker) tick() (list []time.Duration, lost float64, err error) {
	list = make([]time.Duration, 0, b.counts.ticks)
	err = b.engine.during(func() error {
		t := timed(func() {
			next := clock.Now()
			for range b.counts.ticks {
				start := clock.Now()
				for start < next {
					start = clock.Now()
				}
				if err = b.foreign.write(b.ctx); err != nil {
					return
				}
				end := clock.Now()
				list = append(list, clock.Duration(end-start))
				next = max(start+clock.Cycles(tickTime), end)
			}
		}, b.engine.pid())
		lost = t.lost
		return err
	})
	if err == nil && len(list) == 0 {
		err = errors.New("bench: no WRITE was posted beside a hoard")
	}
	slices.Sort(list)
	return list, lost, err
}
