package costs

import (
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/nicless/nicless/model/rack"
)

// A RackTable is what a rack costs on several presets.
type RackTable struct {
	Load    RackLoad
	Reports []*RackReport
}

// CompareRacks prices a rack on several presets.
func CompareRacks(presets []*Preset, l RackLoad) (*RackTable, error) {
	t := &RackTable{Load: l}
	for _, p := range presets {
		r, err := PriceRack(p, l)
		if err != nil {
			return nil, err
		}
		t.Reports = append(t.Reports, r)
	}
	return t, nil
}

// idleParts and briskParts are what a node does whose engine naps.
func (t *RackTable) idleParts() (idle, brisk []rack.Part) {
	naps := float64(second) / float64(rack.Nap.Nanoseconds())
	idle = t.Load.Rack.Second(rack.State{Looks: naps})
	return idle, t.Load.Rack.Second(rack.State{Brisk: true, Looks: naps})
}

// stageTitles say what the nodes of a stage do.
var stageTitles = map[string]string{
	Idle:    "idle: nothing happens, engines nap",
	Brisk:   "brisk: nodes come and go, engines nap",
	Polling: "polling: engines look at their rings without a pause",
	Packets: "packets: as many as --rate says, and no other looks",
}

// Table writes the lines of a node, then a column for each preset.
func (t *RackTable) Table(w io.Writer) error {
	r := &t.Load.Rack
	devices := "1 device"
	if t.Load.Devices > 1 {
		devices = fmt.Sprintf("%d devices", t.Load.Devices)
	}
	title := fmt.Sprintf("%d nodes of a pool of %s; each has rings of %d slots to %d others, and sends them %g packets a second of %d bytes", r.Nodes, devices, r.Slots, r.Talks, t.Load.Rate, t.Load.Traffic.Payload)
	brisk, idle := r.Seen()
	note := fmt.Sprintf("Every node has looked at every other one after %v, if nothing happens after %v.", brisk, idle)
	_, err := fmt.Fprintf(w, "%s\n\n%s\n%s\n\n%s\n", fold(title, ""), t.lines(), fold(note, ""), t.prices())
	if err != nil {
		return err
	}
	for _, r := range t.Reports {
		if _, err := fmt.Fprintln(w, fold(r.restsOn(), "  ")); err != nil {
			return err
		}
	}
	return nil
}

// lines returns the table of what one node reads and writes.
func (t *RackTable) lines() string {
	var g grid
	g.head([]string{"lines of a node, a second", "idle: read", "written", "brisk: read", "written"})
	idle, brisk := t.idleParts()
	row := func(name string, a, b rack.Lines) {
		var cells []string
		for _, n := range []float64{a.Read, a.Write, b.Read, b.Write} {
			cells = append(cells, fmt.Sprintf("%.0f", n))
		}
		g.row(name, cells)
	}
	for i := range idle {
		row(idle[i].Name, idle[i].Lines, brisk[i].Lines)
	}
	row("total", rack.Sum(idle), rack.Sum(brisk))
	return g.text()
}

// prices returns the table of what all nodes cost.
func (t *RackTable) prices() string {
	var g grid
	head := []string{""}
	for _, r := range t.Reports {
		head = append(head, r.Preset)
	}
	g.head(head)
	for i, s := range t.Reports[0].Stages {
		g.section(stageTitles[s.Name])
		row := func(name string, f func(*Stage) string) {
			var cells []string
			for _, r := range t.Reports {
				cells = append(cells, f(&r.Stages[i]))
			}
			g.row(name, cells)
		}
		row("lines of a node, thousand a second", func(s *Stage) string { return digits(s.Lines.All()/1e3, 3) })
		row("all nodes, GB/s", func(s *Stage) string { return digits(s.GBs, 3) })
		row("use of each device, %", func(s *Stage) string { return digits(100*s.Pool, 2) })
		row("use of a host's link, %", func(s *Stage) string { return digits(100*s.Link, 2) })
		row("load of a line, ns", (*Stage).loadText)
		if s.Name == Polling {
			g.row("look at each ring once in, ns", t.cells(func(r *RackReport) string { return digits(r.Round.NS, 2) }))
			continue // such an engine takes a core
		}
		row("time of a core, %", (*Stage).coreText)
	}
	if t.Load.Rack.Talks > 0 {
		g.section("most packets of a node")
		g.row("thousand a second", t.cells(func(r *RackReport) string { return digits(r.Most/1e3, 2) }))
		g.row("GB/s of payload", t.cells(func(r *RackReport) string {
			return digits(r.Most*float64(t.Load.Traffic.Payload)/second, 2)
		}))
		g.row("what is full then", t.cells(func(r *RackReport) string { return r.Limit }))
	}
	return g.text()
}

func (t *RackTable) cells(f func(*RackReport) string) (cells []string) {
	for _, r := range t.Reports {
		cells = append(cells, f(r))
	}
	return cells
}

func (s *Stage) loadText() string {
	if s.Load.NS == 0 {
		return "too much"
	}
	return fmt.Sprintf("%s (%s..%s)", digits(s.Load.NS, 2), digits(s.Load.Low, 2), digits(s.Load.High, 2))
}

func (s *Stage) coreText() string {
	switch {
	case s.Load.NS == 0:
		return "too much"
	case s.Core > 1:
		return digits(math.Ceil(100*s.Core), 2) + " (too much)"
	}
	return digits(100*s.Core, 2)
}

// restsOn says in a sentence what the report rests on.
func (r *RackReport) restsOn() string {
	load := r.Stages[0].Load
	as := Report{Preset: r.Preset, Trust: r.Trust, Vague: r.Vague, Rests: r.Rests, Latency: load}
	return as.restsOn() + " for a load"
}

// JSON writes an object of JSON: the rack, the parts of what a node does, and the reports.
func (t *RackTable) JSON(w io.Writer) error {
	idle, brisk := t.idleParts()
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(struct {
		Nodes   int           `json:"nodes"`
		Talks   int           `json:"talks"`
		Devices int           `json:"devices"`
		Payload int           `json:"payload"`
		Rate    float64       `json:"rate"`
		Idle    []rack.Part   `json:"idle"`  // lines of a node in a second
		Brisk   []rack.Part   `json:"brisk"` // likewise
		Reports []*RackReport `json:"reports"`
	}{t.Load.Rack.Nodes, t.Load.Rack.Talks, t.Load.Devices, t.Load.Traffic.Payload, t.Load.Rate, idle, brisk,
		t.Reports})
}
