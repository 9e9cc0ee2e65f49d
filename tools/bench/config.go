//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless"
)

// A Metric is what is measured.
type Metric string

// The metrics, with the names that their values have in reports.
const (
	Latency   Metric = "lat_ns"
	Rate      Metric = "rate_Mops"
	Bandwidth Metric = "bw_MBps"
)

// Config configures a measurement. Metric and Op must be set.
type Config struct {
	Metric Metric
	Op     nicless.Op // Write, Read or Send; or FetchAdd, for Latency and 8 bytes only

	// Size is the number of bytes of an operation, 1 to 1<<30. Zero means 1 MiB for
	// Bandwidth and 8 otherwise.
	Size int

	// Iters is the number of operations in a run. Zero means as many as take some tens
	// of milliseconds. The number is rounded to a multiple of Batch.
	Iters int

	// Runs is how many samples are taken, 1 to 1000. Zero means 9.
	Runs int

	// Depth is the number of operations in flight, 1 to 4096. Zero means 16 for Bandwidth
	// and 64 for Rate. Latency is measured with one operation at a time.
	Depth int

	// Batch is the number of operations posted with one doorbell, 1 to Depth. Zero means
	// 1 for Bandwidth and 16 for Rate.
	Batch int

	// Signal says that only every Signal-th operation is signaled. It is a power of two that
	// divides Batch. Zero means 1.
	Signal int

	// Inline puts the payload into the WQE. It is possible for at most 828 bytes, and not
	// for Read.
	Inline bool

	// BlueFlame writes WQEs to a BlueFlame register too. It takes Latency, Inline, and payloads of at
	// most 24 bytes: a WQE of one line. The floor then has two lines in turn, without a doorbell.
	BlueFlame bool

	// OneCore measures on one core: the poster runs the engine's steps itself (nicless.Config.PostersStep).
	// There is no floor, because no lines move between cores. EngineCPU becomes ClientCPU.
	OneCore bool

	// Socket is the socket of the engine's process. Empty means an engine in this process.
	Socket string

	// Watched says that everything is watched meanwhile. Nobody reads what is recorded, because that would
	// need a third core. It needs an engine's process, in which the watcher is another client.
	Watched bool

	// ClientCPU is the core that posts and polls. EngineCPU is the core of the engine, and
	// of the device of the floor. Negative means that the kernel decides.
	ClientCPU, EngineCPU int

	// Progress, unless nil, is called before each run.
	Progress func(run, runs int)
}

const (
	maxSize   = 1 << 30
	maxIters  = 1 << 30
	maxRuns   = 1000
	maxDepth  = 4096
	maxInline = 828
)

// Complete replaces zero fields by their defaults. If a value cannot be measured, it returns
// an error that names the value and the limit. Run calls Complete too.
func (c *Config) Complete() error {
	bw := c.Metric == Bandwidth
	def := func(v *int, small, large int) {
		if *v == 0 && bw {
			*v = large
		} else if *v == 0 {
			*v = small
		}
	}
	def(&c.Size, 8, 1<<20)
	def(&c.Runs, 9, 9)
	def(&c.Signal, 1, 1)
	switch c.Metric {
	case Latency:
		c.Depth, c.Batch, c.Signal = 1, 1, 1
	case Rate, Bandwidth:
		def(&c.Depth, 64, 16)
		def(&c.Batch, min(16, c.Depth), 1)
	default:
		return fmt.Errorf("bench: metric %q; one of %s, %s, %s", c.Metric, Latency, Rate, Bandwidth)
	}
	if c.Iters == 0 && c.Size >= 1 {
		c.Iters = c.defaultIters()
	}
	for _, v := range []struct {
		name     string
		v, most  int
		whatElse string
	}{
		{"size", c.Size, maxSize, ""},
		{"iters", c.Iters, maxIters, ""},
		{"runs", c.Runs, maxRuns, ""},
		{"depth", c.Depth, maxDepth, ""},
		{"batch", c.Batch, c.Depth, " (the depth)"},
	} {
		if v.v < 1 || v.v > v.most {
			return fmt.Errorf("bench: %s %d; 1 to %d%s are possible", v.name, v.v, v.most, v.whatElse)
		}
	}
	if c.Signal < 1 || c.Signal&(c.Signal-1) != 0 || c.Batch%c.Signal != 0 {
		return fmt.Errorf("bench: signal %d; powers of two that divide %d (the batch) are possible", c.Signal, c.Batch)
	}
	atomic := c.Op == nicless.FetchAdd && c.Metric == Latency && c.Size == 8
	if !atomic && !slices.Contains([]nicless.Op{nicless.Write, nicless.Read, nicless.Send}, c.Op) {
		return fmt.Errorf("bench: operation %v; WRITE, READ and SEND are measured, and the latency of 8-byte FETCH_ADD", c.Op)
	}
	if c.Inline && (c.Op == nicless.Read || c.Size > maxInline) {
		return fmt.Errorf("bench: inline %v of %d bytes; WRITE and SEND of at most %d can be inline", c.Op, c.Size, maxInline)
	}
	if c.BlueFlame && (c.Metric != Latency || !c.Inline || c.Size > polledMost) {
		return fmt.Errorf("bench: BlueFlame, %s of %d bytes, inline %v; the latency of at most %d bytes inline is measured",
			c.Metric, c.Size, c.Inline, polledMost)
	}
	if c.OneCore && (c.Socket != "" || c.Watched) {
		return fmt.Errorf("bench: one core with the engine at %q; the engine must be in this process", c.Socket)
	}
	if c.OneCore {
		c.EngineCPU = c.ClientCPU
	}
	if total := c.slots() * c.Size; total > 1<<32 {
		return fmt.Errorf("bench: %d payloads of %d bytes; together at most %d are possible", c.slots(), c.Size, 1<<32)
	}
	c.Iters = roundUp(c.Iters, c.Batch)
	return nil
}

// defaultIters returns a number of operations that take some tens of milliseconds.
func (c *Config) defaultIters() int {
	const bytes = 256 << 20 // bytes that are moved in some tens of milliseconds
	most := map[Metric]int{Latency: 50_000, Rate: 500_000, Bandwidth: 200_000}[c.Metric]
	return max(16, min(most, bytes/c.Size))
}

// streamSlots is the number of payload slots for a stream of small operations.
const streamSlots = 64

// slots returns the number of payload slots, a power of two. Operation i uses slot i modulo
// that number.
func (c *Config) slots() int {
	switch c.Metric {
	case Rate:
		return streamSlots
	case Bandwidth:
		n := 1
		for n*c.Size < pieces {
			n *= 2
		}
		return n
	}
	return 1
}

// floorOp returns the name of the metric's floor.
func (c *Config) floorOp() string {
	if c.Metric != Latency {
		return c.streaming().name()
	}
	return c.shape().trip()
}

// shape is the shape of the floor: the same lines as the operation, in the same order. A fetch-and-add has
// what it adds inside the WQE.
func (c *Config) shape() shape {
	return shape{inline: c.Inline || c.Op == nicless.FetchAdd, named: c.Op == nicless.Read,
		receives: c.Op == nicless.Send, polled: c.BlueFlame}
}

// streaming is the floor of Rate and Bandwidth.
func (c *Config) streaming() streaming {
	return streaming{shape: c.shape(), depth: c.Depth, batch: c.Batch, each: max(c.Signal, 1)}
}
