package latency

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// kept is how many latencies a History has: those of 16 whole samples.
const kept = 16 * MostCompletions

// Times beyond these are counted as these.
const (
	least = 1
	most  = int64(100 * time.Second)
)

// A History is the distribution of the latest latencies of a queue pair. The zero value has none. Not safe
// for concurrent use.
type History struct {
	recent []time.Duration // a ring once it is full
	next   int
	hist   *hdrhistogram.Histogram
}

// Add adds a sample. The oldest latencies give way.
func (h *History) Add(s Sample) {
	for _, d := range s.Latencies {
		d = min(max(d, least), time.Duration(most))
		if len(h.recent) < kept {
			h.recent = append(h.recent, d)
			continue
		}
		h.recent[h.next] = d
		h.next = (h.next + 1) % kept
	}
	h.hist = nil
}

// Count returns how many latencies there are.
func (h *History) Count() int { return len(h.recent) }

// Quantile returns the latency that a share q, from 0 to 1, of the completions does not exceed, with an error
// of at most 1 %; 0 if there are none.
func (h *History) Quantile(q float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.histogram().ValueAtQuantile(q * 100))
}

// A Bucket is how many latencies are from From on, and less than To.
type Bucket struct {
	From, To time.Duration
	Count    int64
}

// Buckets returns the distribution in steps of 1, 2 and 5, from the fastest to the slowest completion. A
// latency is in the bucket of its value to 1 %.
func (h *History) Buckets() []Bucket {
	if h.Count() == 0 {
		return nil
	}
	var all []Bucket
	for from, step := time.Duration(least), 0; int64(from) <= most; step++ {
		to := from * [...]time.Duration{20, 25, 20}[step%3] / 10 // 1, 2, 5, 10
		all, from = append(all, Bucket{From: from, To: to}), to
	}
	i, first := 0, len(all)
	for _, bar := range h.histogram().Distribution() {
		if bar.Count == 0 {
			continue
		}
		for i < len(all)-1 && bar.From >= int64(all[i].To) {
			i++
		}
		all[i].Count += bar.Count
		first = min(first, i)
	}
	return all[first : i+1]
}

func (h *History) histogram() *hdrhistogram.Histogram {
	if h.hist == nil {
		h.hist = hdrhistogram.New(least, most, 2)
		for _, d := range h.recent {
			_ = h.hist.RecordValue(int64(d)) // Add has bounded it
		}
	}
	return h.hist
}
