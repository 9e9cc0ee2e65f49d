//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nicless/nicless/tools/quantile"
)

// A Report is the result of a measurement.
type Report struct {
	Machine  Machine  `json:"machine"`
	Settings Settings `json:"settings"`

	// Retaken counts runs that were repeated because other programs used their cores or the
	// siblings. Disturbed counts runs that are reported although other programs used them.
	Retaken   int       `json:"retaken"`
	Disturbed int       `json:"disturbed"`
	Siblings  *Siblings `json:"siblings,omitempty"` // nil: was not measured
	Results   []Result  `json:"results"`

	// Tail has the percentiles of all runs together. It is nil unless latency was measured. The
	// percentiles in Results are the medians of those of single runs.
	Tail *Tail `json:"tail,omitempty"`
}

// Settings are those of a Config, with defaults in place of zeros.
type Settings struct {
	Iters     int    `json:"iters"`
	Depth     int    `json:"depth"`
	Batch     int    `json:"batch"`
	Signal    int    `json:"signal"` // every n-th operation is signaled
	Inline    bool   `json:"inline"`
	Engine    string `json:"engine"`     // "embedded", or its socket
	ClientCPU int    `json:"client_cpu"` // negative: not pinned
	EngineCPU int    `json:"engine_cpu"`
}

// A Result is one figure: the median, the least and the greatest of the samples.
type Result struct {
	Peer    string    `json:"peer"` // "nicless", or "floor"
	Op      string    `json:"op"`
	Bytes   int       `json:"bytes"`
	Metric  string    `json:"metric"`
	Value   float64   `json:"value"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Runs    int       `json:"runs"`
	Samples []float64 `json:"samples"` // in the order in which they were taken
}

func newResult(peer, op string, size int, metric string, samples []float64) Result {
	s := slices.Sorted(slices.Values(samples))
	return Result{Peer: peer, Op: op, Bytes: size, Metric: metric,
		Value: quantile.Rank(s, 0.5), Min: s[0], Max: s[len(s)-1], Runs: len(s), Samples: samples}
}

func (m *measurement) report(machine Machine) *Report {
	r := &Report{Machine: machine, Settings: Settings{
		Iters: m.Iters, Depth: m.Depth, Batch: m.Batch, Signal: m.Signal, Inline: m.Inline,
		Engine:    "embedded",
		ClientCPU: m.ClientCPU, EngineCPU: m.EngineCPU,
	}}
	if m.Socket != "" {
		r.Settings.Engine, r.Settings.EngineCPU = m.Socket, -1
	}
	r.Retaken = m.retaken
	var floors, values, ratios, slowdowns []float64
	for _, s := range m.samples {
		values = append(values, s.device.value)
		if s.floor.value > 0 {
			floors = append(floors, s.floor.value)
			ratios = append(ratios, s.device.value/s.floor.value)
		}
		if s.floor.value > 0 && s.lost() > tooMuch {
			r.Disturbed++
		}
		if s.slowdown > 0 {
			slowdowns = append(slowdowns, s.slowdown)
		}
	}
	r.Siblings = m.watch.state(slowdowns)
	r.Tail = newTail(m.samples)
	op := strings.ToLower(m.Op.String())
	add := func(peer, op, metric string, samples []float64) {
		r.Results = append(r.Results, newResult(peer, op, m.Size, metric, samples))
	}
	if len(floors) > 0 {
		add("floor", m.floorOp(), string(m.Metric), floors)
	}
	add("nicless", op, string(m.Metric), values)
	if m.Metric == Latency {
		for i := range percentiles {
			var v []float64
			for _, s := range m.samples {
				v = append(v, float64(s.times.ValueAtPercentile(percentiles[i].p)))
			}
			add("nicless", op, "lat_"+percentiles[i].name+"_ns", v)
		}
	}
	if len(ratios) > 0 {
		add("nicless", op, "ratio", ratios)
	}
	return r
}

// String returns the line of one figure.
func (r Result) String() string {
	return fmt.Sprintf("peer=%s op=%s bytes=%d metric=%s value=%.2f min=%.2f max=%.2f runs=%d",
		r.Peer, r.Op, r.Bytes, r.Metric, r.Value, r.Min, r.Max, r.Runs)
}

// Print writes remarks, which are lines that start with "#", and then a line for every figure. Two
// remarks with the percentiles of all runs follow if latency was measured.
func (r *Report) Print(w io.Writer) error {
	s := r.Settings
	var b strings.Builder
	fmt.Fprintf(&b, "# machine: %v\n", r.Machine)
	fmt.Fprintf(&b, "# cores: client %s, engine %s (%s)\n", core(s.ClientCPU), core(s.EngineCPU), s.Engine)
	fmt.Fprintf(&b, "# runs of %d operations, %d in flight, %d for each doorbell%s%s; moved bytes were compared\n",
		s.Iters, s.Depth, s.Batch, some(s.Signal), map[bool]string{true: ", inline"}[s.Inline])
	if len(r.Results) > 0 && r.Results[0].Peer == "floor" {
		b.WriteString("# measured; each run after one of the floor, ratio = nicless / floor run by run\n")
	} else {
		b.WriteString("# measured; no floor: it takes two cores, one for each side\n")
	}
	if r.Siblings != nil {
		fmt.Fprintln(&b, "#", r.Siblings)
	}
	if r.Retaken > 0 || r.Disturbed > 0 {
		fmt.Fprintf(&b, "# disturbed by other programs, over %.0f%% of the time, by a floor that moved by %.0f%%, or by a busy sibling: %d runs were repeated; %d of the runs below\n",
			100*tooMuch, 100*(unsteady-1), r.Retaken, r.Disturbed)
	}
	for _, f := range r.Results {
		fmt.Fprintln(&b, f)
	}
	if r.Tail != nil {
		fmt.Fprintf(&b, "# %s\n# %v\n", r.Tail.remark(), r.Tail)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// some says how many operations are signaled, unless all are.
func some(signal int) string {
	if signal <= 1 {
		return ""
	}
	return fmt.Sprintf(", one of %d signaled", signal)
}

func core(cpu int) string {
	if cpu < 0 {
		return "any"
	}
	return fmt.Sprint(cpu)
}

// PrintJSON writes the report as one object.
func (r *Report) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
