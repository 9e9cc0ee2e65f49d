package costs

import (
	"fmt"
	"io"
	"strings"

	"github.com/nicless/nicless/tools/internal/svg"
)

// lineColors are the colors of presets in a sweep.
var lineColors = []string{"#2f6fb5", "#d9772b", "#3d8f54", "#c43d3d", "#8a5fc1", "#97721a", "#1f9aa0",
	"#b0567f"}

// SVG writes the sweep as a picture: a line for each preset in a band from the least to the most that its
// total may be. Rings mark where two presets cross.
func (s *Sweep) SVG(w io.Writer) error {
	most := 0.0
	for _, row := range s.Reports {
		for _, r := range row {
			most = max(most, r.Latency.High)
		}
	}
	if most == 0 {
		return fmt.Errorf("%s: all steps take no time; there is nothing to draw", s.Title)
	}
	unit, one := scale(most)
	var d svg.Drawing
	d.Title(s.Title)
	const left, right, tall = 80.0, svg.Width - 40, 340.0
	top := d.Height + 26
	bottom := top + tall
	from, to := s.Values[0], s.Values[len(s.Values)-1]
	x := func(v float64) float64 { return left + (v-from)/(to-from)*(right-left) }
	y := func(ns float64) float64 { return bottom - ns/most*tall }

	d.Text(left, top-8, "small", "middle", unit)
	for _, t := range svg.Ticks(0, most/one) {
		d.Line("grid", left, y(t*one), right, y(t*one))
		d.Text(left-8, y(t*one)+4, "small", "end", digits(t, 4))
	}
	for _, t := range svg.Ticks(from, to) {
		d.Line("grid", x(t), top, x(t), bottom)
		d.Text(x(t), bottom+17, "small", "middle", digits(t, 6))
	}
	d.Text((left+right)/2, bottom+36, "axis", "middle", "price."+s.Price)
	for i, row := range s.Reports {
		var upper, lower, middle []string
		for j, r := range row {
			at := func(ns float64) string { return fmt.Sprintf("%.1f,%.1f", x(s.Values[j]), y(ns)) }
			upper = append(upper, at(r.Latency.High))
			lower = append([]string{at(r.Latency.Low)}, lower...)
			middle = append(middle, at(r.Latency.NS))
		}
		color := lineColors[i%len(lineColors)]
		d.Add(`<polygon points="%s %s" fill="%s" fill-opacity="0.13"/>`, strings.Join(upper, " "), strings.Join(lower, " "), color)
		d.Add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5"/>`, strings.Join(middle, " "), color)
	}
	for _, c := range s.Crossings {
		d.Add(`<circle class="ink" cx="%.1f" cy="%.1f" r="6"/>`, x(c.At), y(c.NS))
	}
	d.Line("ink", left, bottom, right, bottom)
	d.Line("ink", left, top, left, bottom)
	d.Height = bottom + 50

	var names []string
	for _, row := range s.Reports {
		names = append(names, row[0].Preset)
	}
	d.Legend(names, func(i int) string { return lineColors[i%len(lineColors)] })
	for _, text := range s.crossings() {
		for line := range strings.Lines(fold(text, "")) {
			d.Height += 17
			d.Text(20, d.Height, "crossing", "start", strings.TrimSuffix(line, "\n"))
		}
	}
	restsBelow(&d, s.rests())
	return d.Write(w, s.Title)
}
