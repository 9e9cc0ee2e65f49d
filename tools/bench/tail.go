//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nicless/nicless/internal/clock"
)

// percentiles are those of single operations, in percent.
var percentiles = [...]struct {
	name string
	p    float64
}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}}

// enough is how many operations must lie beyond a percentile, at least. With fewer, some interrupts more
// or less would decide its value. So p99.99 takes 100,000 operations: one run of 30,000 has only three beyond
// it, and five runs have fifteen.
const enough = 10

// A Tail has percentiles of the times of single operations, over all runs of a row together.
type Tail struct {
	Operations int64 `json:"operations"`

	// Clock is how long a reading of the clock takes, in ns. Each time includes one. Step is the least
	// difference of two readings that differ.
	Clock float64 `json:"clock_ns"`
	Step  float64 `json:"clock_step_ns"`

	// Percentiles are in ns, by their names, exact to 0.1 % and a step of the clock. A percentile is
	// missing if fewer than ten operations lie beyond it.
	Percentiles map[string]float64 `json:"percentiles_ns"`
	Max         float64            `json:"max_ns"`
}

// newTimes returns an empty histogram of nanoseconds, exact to 0.1 %.
func newTimes() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 3) }

// newTail merges the times of the runs. It returns nil if no run has any.
func newTail(runs []pairOf) *Tail {
	all := newTimes()
	for _, p := range runs {
		if p.times != nil {
			all.Merge(p.times)
		}
	}
	t := &Tail{Operations: all.TotalCount(), Percentiles: map[string]float64{}}
	if t.Operations == 0 {
		return nil
	}
	for _, p := range percentiles {
		if float64(t.Operations)*(1-p.p/100) >= enough-1e-6 {
			t.Percentiles[p.name] = float64(all.ValueAtPercentile(p.p))
		}
	}
	t.Max = float64(all.Max())
	t.Clock, t.Step = clockCost()
	return t
}

// cells returns the columns of a tail: operations, percentiles and the longest time.
func (t *Tail) cells() []string {
	cells := []string{fmt.Sprint(t.Operations)}
	for _, p := range percentiles {
		v, ok := t.Percentiles[p.name]
		if !ok {
			cells = append(cells, "-")
			continue
		}
		cells = append(cells, fmt.Sprintf("%.0f", v))
	}
	return append(cells, fmt.Sprintf("%.0f", t.Max))
}

// tailHeads returns the heads of the columns of cells, after that of the row's name.
func tailHeads() []string {
	heads := []string{"row", "operations"}
	for _, p := range percentiles {
		heads = append(heads, p.name)
	}
	return append(heads, "longest")
}

// remark says what the table of tails is.
func (t *Tail) remark() string {
	return fmt.Sprintf("single operations of all runs, in ns, each with one reading of the clock (%.1f ns, in steps of %.1f ns); -: fewer than %d operations are beyond it",
		t.Clock, t.Step, enough)
}

// String returns the percentiles in one line.
func (t *Tail) String() string {
	heads := tailHeads()[1:]
	cells := t.cells()
	var b strings.Builder
	for i := range cells {
		fmt.Fprintf(&b, " %s %s", heads[i], cells[i])
	}
	return b.String()[1:]
}

// clockCost measures once, in ns, how long a reading of the clock takes, as the least mean of some batches,
// and the least difference of two readings that differ.
var clockCost = sync.OnceValues(func() (cost, step float64) {
	const batches, readings = 64, 1000
	least, finest := ^uint64(0), ^uint64(0)
	for range batches {
		start := clock.Now()
		last := start
		for range readings {
			now := clock.Now()
			if now != last {
				finest = min(finest, now-last)
			}
			last = now
		}
		least = min(least, last-start)
	}
	cycle := float64(time.Second) / float64(clock.Hz())
	return float64(least) / readings * cycle, float64(finest) * cycle
})
