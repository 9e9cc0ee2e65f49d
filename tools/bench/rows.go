//go:build linux && (amd64 || arm64)

package bench

import (
	"math/bits"

	"github.com/nicless/nicless"
)

// groups are the rows of the table.
var groups = []group{
	lat("write-8", "8-byte WRITE, post to completion", 1.1, Config{Op: nicless.Write}),
	lat("write-8-inline", "the same, payload inside the WQE", 1.15, Config{Op: nicless.Write, Inline: true}),
	lat("write-8-bf", "the same, from a BlueFlame register", 1.3, Config{Op: nicless.Write, Inline: true, BlueFlame: true}),
	lat("read-8", "8-byte READ, post to completion", 1.2, Config{Op: nicless.Read}),
	lat("send-8", "8-byte SEND, post to the completions of sender and receiver, both in one process", 1.5, Config{Op: nicless.Send}),
	lat("fetch-add", "fetch-and-add, post to completion", 1.45, Config{Op: nicless.FetchAdd}),
	rate("rate-db16", "8-byte WRITEs, 64 in flight, all signaled, a doorbell for 16", 0.7, Config{Op: nicless.Write, Batch: 16}),
	rate("rate-db1", "the same, a doorbell for each", 0.45, Config{Op: nicless.Write, Batch: 1}),
	rate("rate-db16-sig8", "8-byte WRITEs, 64 in flight, one of 8 signaled, a doorbell for 16", 0.9, Config{Op: nicless.Write, Batch: 16, Signal: 8}),
	rate("rate-inline-db16", "8-byte WRITEs, 64 in flight, all signaled, a doorbell for 16, payload inside the WQE", 0.8, Config{Op: nicless.Write, Batch: 16, Inline: true}),
	rate("rate-read-db16", "8-byte READs, 64 in flight, all signaled, a doorbell for 16", 0, Config{Op: nicless.Read, Batch: 16}),
	rate("rate-send-db16", "8-byte SENDs, 64 in flight, a doorbell for 16, completions of sender and receiver", 0.8, Config{Op: nicless.Send, Batch: 16}),
	bandwidth("bw-4K", "WRITEs of 4 KiB, 16 in flight", "4 KiB", 4<<10, 0.9),
	bandwidth("bw-64K", "WRITEs of 64 KiB, 16 in flight", "64 KiB", 64<<10, 0.95),
	bandwidth("bw-1M", "WRITEs of 1 MiB, 16 in flight", "1 MiB", 1<<20, 0.95),
	bandwidth("bw-64M", "WRITEs of 64 MiB, 16 in flight", "64 MiB", 64<<20, 0.95),
	crowdGroup,
	crowdedGroup,
	activeGroup,
	besideGroup,
	idleGroup,
	holdGroup,
	startGroup,
	controlGroup,
	memoryGroup,
}

func lat(name, what string, most float64, c Config) group {
	c.Metric = Latency
	r := spec{name: name, what: what, unit: "ns", floor: c.floorOp() + ", 8 B", most: most}
	return basic(r, func(s *suite) Config {
		c.Iters = s.counts.latency
		return c
	})
}

// rate returns the group of a row of Rate, with 64 operations in flight. If least is 0, the row
// has no target.
func rate(name, what string, least float64, c Config) group {
	c.Metric, c.Depth = Rate, 64
	r := spec{name: name, what: what, unit: "Mops", floor: c.floorOp() + ", 8 B", least: least}
	return basic(r, func(s *suite) Config {
		c.Iters = s.counts.rate
		return c
	})
}

func bandwidth(name, what, sizeName string, size int, least float64) group {
	c := Config{Metric: Bandwidth, Op: nicless.Write, Size: size, Depth: 16, Batch: 1}
	r := spec{name: name, what: what, unit: "MB/s", floor: c.floorOp() + ", " + sizeName, least: least}
	return basic(r, func(s *suite) Config {
		c.Iters = min(max(8, s.counts.copied/size), 1<<bits.Len(uint(s.counts.rate)))
		return c
	})
}

// basic returns the group of one row, which a measurement like those of Run measures.
func basic(r spec, config func(s *suite) Config) group {
	open := func(s *suite) (func() ([]pairOf, error), func() error, error) {
		m := &measurement{Config: config(s), ctx: s.ctx, mean: s.Sweeps}
		m.ClientCPU, m.EngineCPU = s.ClientCPU, s.EngineCPU
		if err := m.Complete(); err != nil {
			return nil, nil, err
		}
		f, err := newFloor(m.shape(), m.Size, m.slots(), m.Depth, m.EngineCPU)
		if err != nil {
			return nil, nil, err
		}
		take := func() ([]pairOf, error) {
			p, err := m.pair(f)
			return []pairOf{p}, err
		}
		return take, f.close, nil
	}
	return group{rows: []spec{r}, busy: true, open: open}
}
