//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"

	"github.com/nicless/nicless"
)

// activeBatch is the batch of the row with several operations for each doorbell.
const activeBatch = 16

var activeGroup = group{
	process: true,
	busy:    true,
	rows: []spec{
		{
			name: "active-db1", what: "8-byte WRITEs on 1,000 queue pairs in turn, one in flight on each, all signaled",
			unit: "Mops", floor: "one queue pair alone, 64 in flight, a doorbell for each", least: 0.5,
		},
		{
			name: "active-db16", what: "the same, 16 in flight on each, a doorbell for 16",
			unit: "Mops", floor: "one queue pair alone, 64 in flight, a doorbell for 16", least: 0.5,
		},
		{
			name: "active-share", what: "in active-db1 and active-db16: completions of the slowest queue pair, divided by an equal share",
			unit: "of a share", least: 0.5,
		},
	},
	open: func(s *suite) (func() ([]pairOf, error), func() error, error) {
		engine, client, err := s.start(true)
		if err != nil {
			return nil, nil, err
		}
		end := engine.with(client)
		r, err := newRotation(client, s.counts.active, activeBatch)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		if err := engine.pause(); err != nil {
			return nil, nil, errors.Join(err, end())
		}
		return func() ([]pairOf, error) { return s.active(engine, r) }, end, nil
	},
}

// active takes a sample of both rates, one for each batch. Before each it takes a sample of
// the rate of a single queue pair, for comparison.
func (s *suite) active(engine *process, r *rotation) ([]pairOf, error) {
	out := make([]pairOf, 3)
	least := &out[2].device.value
	*least = 1
	for i, batch := range []int{1, activeBatch} {
		m := &measurement{Config: Config{Metric: Rate, Op: nicless.Write, Batch: batch, Depth: 64,
			Iters:     s.counts.rate,
			ClientCPU: s.ClientCPU, EngineCPU: s.EngineCPU}, ctx: s.ctx}
		if err := m.Complete(); err != nil {
			return nil, err
		}
		var one pairOf
		if err := m.device(&one); err != nil {
			return nil, err
		}
		out[i].floor = one.device
		err := engine.during(func() error {
			v, share, err := r.rate(s.ctx, engine, s.counts.rate, batch)
			out[i].device, *least = v, min(*least, share)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
