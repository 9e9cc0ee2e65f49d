//go:build linux && (amd64 || arm64)

package bench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nicless/nicless/tools/internal/svg"
)

// peers are figures of other programs, measured at another time or place. A plot says where.
type peers struct {
	Source  string  `json:"source"`
	Machine string  `json:"machine"`
	Latency []curve `json:"latency"`
	Rate    []curve `json:"rate"`
}

// A curve is points of x and y.
type curve struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
}

//go:embed peers.json
var peersText []byte

func readPeers() (p peers, err error) {
	if err = json.Unmarshal(peersText, &p); err != nil {
		err = fmt.Errorf("bench: peers.json: %w", err)
	}
	return p, err
}

// A plot is curves that share one x axis. Both axes are logarithmic.
type plot struct {
	title, x, y string
	ticks       []tick // ticks of the x axis
	own, peers  []curve
	remark      []string
}

// A tick is a value of the x axis, and how the axis names it.
type tick struct {
	value float64
	label string
}

// PlotLatency writes a plot of latency by size as SVG. t is a table of sweeps.
func (t *Table) PlotLatency(w io.Writer) error {
	p, err := readPeers()
	if err != nil {
		return err
	}
	values, floors := t.curves("nicless WRITE, post to completion", sweepSizes, sweptSize)
	g := plot{title: "Latency by size", x: "bytes", y: "ns", own: []curve{values, floors}, peers: p.Latency,
		remark: t.origin(p)}
	for _, size := range sweepSizes {
		g.ticks = append(g.ticks, tick{float64(size), sizeName(size)})
	}
	return g.write(w)
}

// PlotRate writes a plot of the rate by operations for each doorbell as SVG. t is a table of
// sweeps.
func (t *Table) PlotRate(w io.Writer) error {
	p, err := readPeers()
	if err != nil {
		return err
	}
	values, floors := t.curves("nicless 8-byte WRITEs, 64 in flight", sweepBatches, sweptBatch)
	g := plot{title: "Rate by doorbell batch", x: "operations for each doorbell", y: "million operations a second",
		own: []curve{values, floors}, peers: p.Rate, remark: t.origin(p)}
	for _, batch := range sweepBatches {
		g.ticks = append(g.ticks, tick{float64(batch), fmt.Sprint(batch)})
	}
	return g.write(w)
}

// curves returns the medians of the rows of a sweep, and of their floors.
func (t *Table) curves(name string, at []int, rowName func(int) string) (values, floors curve) {
	values.Name, floors.Name = name, "floor of the same two cores"
	for _, x := range at {
		for i := range t.Rows {
			if r := &t.Rows[i]; r.Name == rowName(x) {
				values.Points = append(values.Points, [2]float64{float64(x), r.Values.Median})
				floors.Points = append(floors.Points, [2]float64{float64(x), r.Floors.Median})
			}
		}
	}
	return values, floors
}

// origin returns where the figures are from.
func (t *Table) origin(p peers) []string {
	return []string{
		fmt.Sprintf("Lines: measured on %v, cores %d and %d.", t.Machine, t.ClientCPU, t.EngineCPU),
		fmt.Sprintf("Dashed, of another day: %s.", p.Machine),
	}
}

var (
	ownColors  = []string{"#2f6fb5", "#3d8f54"}
	peerColors = []string{"#c43d3d", "#d9772b", "#8a5fc1", "#b0567f", "#808080"}
)

// color returns the color of curve i. The curves of nicless come first, then those of peers.
func (p *plot) color(i int) string {
	if i < len(p.own) {
		return ownColors[i%len(ownColors)]
	}
	return peerColors[(i-len(p.own))%len(peerColors)]
}

func (p *plot) write(w io.Writer) error {
	if len(p.own[0].Points) < 2 {
		return fmt.Errorf("bench: %s: %d rows; a line needs 2", p.title, len(p.own[0].Points))
	}
	all := slices.Concat(p.own, p.peers)
	least, most := math.Inf(1), math.Inf(-1)
	for _, c := range all {
		for _, point := range c.Points {
			least, most = min(least, point[1]), max(most, point[1])
		}
	}
	least, most = math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	if most == least {
		most++
	}

	var d svg.Drawing
	d.Title(p.title)
	const left, right, tall = 80.0, svg.Width - 40, 420.0
	top := d.Height + 26
	bottom := top + tall
	from, to := math.Log2(p.ticks[0].value), math.Log2(p.ticks[len(p.ticks)-1].value)
	x := func(v float64) float64 { return left + (math.Log2(v)-from)/(to-from)*(right-left) }
	y := func(v float64) float64 { return bottom - (math.Log10(v)-least)/(most-least)*tall }

	d.Text(20, top-8, "small", "start", p.y)
	for e := least; e <= most; e++ {
		v := math.Pow10(int(e))
		d.Line("grid", left, y(v), right, y(v))
		d.Text(left-8, y(v)+4, "small", "end", strconv.FormatFloat(v, 'f', -1, 64))
	}
	for _, t := range p.ticks {
		d.Line("grid", x(t.value), top, x(t.value), bottom)
		d.Text(x(t.value), bottom+17, "small", "middle", t.label)
	}
	d.Text((left+right)/2, bottom+36, "axis", "middle", p.x)
	for i, c := range all {
		width, radius, dashes := 2.5, 3.5, "none"
		if i >= len(p.own) {
			width, radius, dashes = 1, 2.5, "5 4" // of another day
		}
		var points []string
		for _, point := range c.Points {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(point[0]), y(point[1])))
			d.Add(`<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s"/>`, x(point[0]), y(point[1]), radius, p.color(i))
		}
		d.Add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%.1f" stroke-dasharray="%s"/>`, strings.Join(points, " "), p.color(i), width, dashes)
	}
	d.Line("ink", left, bottom, right, bottom)
	d.Line("ink", left, top, left, bottom)
	d.Height = bottom + 50

	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	d.Legend(names, p.color)
	d.Height += 8
	for _, line := range p.remark {
		d.Small(line)
	}
	d.Height += 15
	if err := d.Write(w, p.title); err != nil {
		return fmt.Errorf("bench: %s: %w", p.title, err)
	}
	return nil
}
