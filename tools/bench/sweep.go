//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"

	"github.com/nicless/nicless"
)

// The sweeps are rows for plots: latency by the size of an operation, and the rate by the
// number of operations for each doorbell.
var (
	sweepSizes   = []int{8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10}
	sweepBatches = []int{1, 2, 4, 8, 16, 32, 64}
)

func sizeName(n int) string {
	if n >= 1<<10 {
		return fmt.Sprintf("%dK", n>>10)
	}
	return fmt.Sprint(n)
}

func sweptSize(size int) string   { return "size-" + sizeName(size) }
func sweptBatch(batch int) string { return fmt.Sprintf("batch-%d", batch) }

// sweeps are the groups of the sweeps. They have no targets.
var sweeps = func() (gs []group) {
	for _, size := range sweepSizes {
		gs = append(gs, basic(spec{
			name: sweptSize(size), what: fmt.Sprintf("WRITE of %d bytes, post to completion", size),
			unit: "ns", floor: fmt.Sprintf("%s, %d B", shape{}.trip(), size),
		}, func(s *suite) Config {
			return Config{Metric: Latency, Op: nicless.Write, Size: size, Iters: s.counts.latency}
		}))
	}
	for _, batch := range sweepBatches {
		c := Config{Metric: Rate, Op: nicless.Write, Batch: batch, Depth: 64}
		gs = append(gs, basic(spec{
			name: sweptBatch(batch), what: fmt.Sprintf("8-byte WRITEs, 64 in flight, all signaled, a doorbell for %d", batch),
			unit: "Mops", floor: c.floorOp() + ", 8 B",
		}, func(s *suite) Config {
			c.Iters = s.counts.rate
			return c
		}))
	}
	return gs
}()
