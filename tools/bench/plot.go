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

	"github.com/wcharczuk/go-chart/v2"
	"github.com/wcharczuk/go-chart/v2/drawing"
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
	ticks       []chart.Tick // ticks of the x axis
	own, peers  []curve
	remark      []string
}

// PlotLatency writes a plot of latency by size as SVG. t is a table of sweeps.
func (t *Table) PlotLatency(w io.Writer) error {
	p, err := readPeers()
	if err != nil {
		return err
	}
	values, floors := t.curves("nicless WRITE, post to completion", sweepSizes, sweptSize)
	g := plot{title: "Latency by size", x: "bytes", y: "ns", own: []curve{values, floors}, peers: p.Latency, remark: t.origin(p)}
	for _, size := range sweepSizes {
		g.ticks = append(g.ticks, chart.Tick{Value: math.Log2(float64(size)), Label: sizeName(size)})
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
		g.ticks = append(g.ticks, chart.Tick{Value: math.Log2(float64(batch)), Label: fmt.Sprint(batch)})
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
	ownColors  = []drawing.Color{drawing.ColorFromHex("0b5394"), drawing.ColorFromHex("6aa84f")}
	peerColors = []drawing.Color{
		drawing.ColorFromHex("cc0000"), drawing.ColorFromHex("e69138"), drawing.ColorFromHex("674ea7"),
		drawing.ColorFromHex("a64d79"), drawing.ColorFromHex("666666"),
	}
)

// Positions in a plot of plotWidth x plotHeight. The key and the remark are below the axes.
const (
	plotWidth, plotHeight = 900, 640
	keyTop, keyLine       = 545, 18
	keyColumn             = 430
)

func (p *plot) write(w io.Writer) error {
	if len(p.own[0].Points) < 2 {
		return fmt.Errorf("bench: %s: %d rows; a line needs 2", p.title, len(p.own[0].Points))
	}
	c := chart.Chart{
		Width: plotWidth, Height: plotHeight,
		Background: chart.Style{Padding: chart.Box{Top: 50, Left: 20, Right: 30, Bottom: plotHeight - keyTop + 30}},
		XAxis:      chart.XAxis{Name: p.x, Ticks: p.ticks, Range: &chart.ContinuousRange{Min: p.ticks[0].Value, Max: p.ticks[len(p.ticks)-1].Value}},
		YAxis:      chart.YAxis{Name: p.y}, YAxisSecondary: chart.YAxis{Style: chart.Hidden()},
	}
	least, most := math.Inf(1), math.Inf(-1)
	for i, v := range slices.Concat(p.own, p.peers) {
		line := chart.ContinuousSeries{Name: v.Name, Style: p.style(i)}
		for _, point := range v.Points {
			y := math.Log10(point[1])
			line.XValues, line.YValues = append(line.XValues, math.Log2(point[0])), append(line.YValues, y)
			least, most = min(least, y), max(most, y)
		}
		c.Series = append(c.Series, line)
	}
	least, most = math.Floor(least), math.Ceil(most)
	c.YAxis.Range = &chart.ContinuousRange{Min: least, Max: most}
	for e := int(least); e <= int(most); e++ {
		c.YAxis.Ticks = append(c.YAxis.Ticks, chart.Tick{Value: float64(e), Label: power(e)})
	}
	c.Elements = []chart.Renderable{p.key}
	if err := c.Render(chart.SVG, w); err != nil {
		return fmt.Errorf("bench: %s: %w", p.title, err)
	}
	return nil
}

// power returns 10 to the power e as text.
func power(e int) string { return strconv.FormatFloat(math.Pow10(e), 'f', -1, 64) }

// style returns how curve i is drawn. The curves of nicless come first, then those of peers.
func (p *plot) style(i int) chart.Style {
	if i < len(p.own) {
		color := ownColors[i%len(ownColors)]
		return chart.Style{StrokeColor: color, StrokeWidth: 3, DotColor: color, DotWidth: 4}
	}
	color := peerColors[(i-len(p.own))%len(peerColors)]
	return chart.Style{StrokeColor: color, StrokeWidth: 1, StrokeDashArray: []float64{5, 4}, DotColor: color, DotWidth: 3}
}

// key writes the title, the names of the curves and the remark. It resets the rotation of text
// that drawing the axes has set.
func (p *plot) key(r chart.Renderer, _ chart.Box, defaults chart.Style) {
	text := chart.Style{FontColor: drawing.ColorFromHex("333333"), FontSize: 9, Font: defaults.Font}
	r.ClearTextRotation()
	title := text
	title.FontSize = 14
	chart.Draw.Text(r, p.title, 20, 28, title)
	for i, v := range slices.Concat(p.own, p.peers) {
		x, y := 20+i%2*keyColumn, keyTop+i/2*keyLine
		s := p.style(i)
		s.WriteToRenderer(r)
		r.MoveTo(x, y-4)
		r.LineTo(x+30, y-4)
		r.Stroke()
		chart.Draw.Text(r, v.Name, x+38, y, text)
	}
	text.FontSize = 8
	for i, line := range p.remark {
		chart.Draw.Text(r, line, 20, plotHeight-8-14*(len(p.remark)-1-i), text)
	}
}
