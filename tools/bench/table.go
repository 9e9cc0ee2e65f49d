//go:build linux && (amd64 || arm64)

package bench

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless/tools/quantile"
)

// A Table is rows of figures, each beside its floor and its target.
type Table struct {
	Machine   Machine `json:"machine"`
	ClientCPU int     `json:"client_cpu"`
	EngineCPU int     `json:"engine_cpu"`

	// Siblings reports whether the siblings of the cores were quiet. It is nil if no row was
	// measured for which that matters, and in tables of earlier versions.
	Siblings *Siblings `json:"siblings,omitempty"`

	Rows []Row `json:"rows"`
}

// Siblings reports how many of the reported runs were beside a busy sibling: another program,
// possibly one that this machine cannot see, used the other hyperthread of a measured core.
type Siblings struct {
	Runs  int     `json:"runs"`
	Busy  int     `json:"busy"`
	Worst float64 `json:"worst"` // most times as long that additions took as beside a quiet sibling

	// Quiet is how many additions the cores make in a cycle beside a quiet sibling, by the
	// best of all probes. The client's core is first.
	Quiet []float64 `json:"quiet_adds_per_cycle"`
}

// A Row is one figure: the median of its samples, and their least and greatest.
type Row struct {
	Name   string `json:"name"`
	What   string `json:"what"`
	Unit   string `json:"unit"`
	Values Spread `json:"values"`

	// Floor is the name of the floor that the figure is compared with; it is empty if
	// there is none. Floors has the floor's samples, each taken just before a value. Ratios
	// has value / floor for each run. Both are nil if there is no floor.
	Floor  string  `json:"floor,omitempty"`
	Floors *Spread `json:"floors,omitempty"`
	Ratios *Spread `json:"ratios,omitempty"`

	// Tail has percentiles of single operations. It is nil except in rows of latency.
	Tail *Tail `json:"tail,omitempty"`

	Target string `json:"target"`
	Holds  bool   `json:"holds"`

	// Retaken counts runs that were repeated because other programs used the cores or their
	// siblings. Disturbed counts runs that are reported although other programs used them.
	Retaken   int `json:"retaken"`
	Disturbed int `json:"disturbed"`

	// Slowdowns has, for each run, how many times as long additions took as beside a quiet
	// sibling. It is nil if that was not measured.
	Slowdowns *Spread `json:"slowdowns,omitempty"`
}

// A Spread has samples, in the order in which they were taken.
type Spread struct {
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples"`
}

func newSpread(samples []float64) *Spread {
	s := slices.Sorted(slices.Values(samples))
	return &Spread{Median: quantile.Rank(s, 0.5), Min: s[0], Max: s[len(s)-1], Samples: samples}
}

// A spec is a row without its figures. The target is the field most or the field least; at most
// one of these fields is set.
type spec struct {
	name, what, unit string
	floor            string // empty: there is none, and the value is compared
	most, least      float64
	absolute         bool // the target is for the value although there is a floor
}

// ratio reports whether the target is for the ratio to the floor.
func (r spec) ratio() bool { return r.floor != "" && !r.absolute }

func (r spec) target() string {
	if r.most == 0 && r.least == 0 {
		return noTarget
	}
	sign, limit := "<=", r.most
	if r.least != 0 {
		sign, limit = ">=", r.least
	}
	if r.ratio() {
		return fmt.Sprintf("%s %g x floor", sign, limit)
	}
	return fmt.Sprintf("%s %g %s", sign, limit, r.unit)
}

// noTarget is the target of a row without one.
const noTarget = "-"

// holds reports whether v meets the target of the row.
func (r spec) holds(v float64) bool {
	switch {
	case r.least != 0:
		return v >= r.least
	case r.most != 0:
		return v <= r.most
	}
	return true
}

func newRow(r spec, samples []pairOf, retaken int) Row {
	row := Row{Name: r.name, What: r.what, Unit: r.unit, Floor: r.floor, Target: r.target(), Retaken: retaken}
	var values, floors, ratios, slowdowns []float64
	for _, s := range samples {
		values = append(values, s.device.value)
		floors = append(floors, s.floor.value)
		ratios = append(ratios, s.device.value/s.floor.value)
		if s.lost() > tooMuch {
			row.Disturbed++
		}
		if s.slowdown > 0 {
			slowdowns = append(slowdowns, s.slowdown)
		}
	}
	row.Tail = newTail(samples)
	if slowdowns != nil {
		row.Slowdowns = newSpread(slowdowns)
	}
	row.Values = *newSpread(values)
	row.Holds = r.holds(row.Values.Median)
	if r.floor != "" {
		row.Floors, row.Ratios = newSpread(floors), newSpread(ratios)
	}
	if r.ratio() {
		row.Holds = r.holds(row.Ratios.Median)
	}
	return row
}
