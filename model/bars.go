package model

import (
	"fmt"
	"io"
	"strings"
)

// Sizes of the bars in pixels.
const (
	barHeight = 30.0
	barGap    = 18.0
)

// hues are the colors of the steps of each agent: blue for the host, green for the peer, orange
// and red for the device.
var hues = map[string][]string{
	"host": {"#2f6fb5", "#6ba3dc", "#1d4a80", "#93bfe8", "#4a5fc1", "#8a96de"},
	"peer": {"#3d8f54", "#7cbf8c", "#266338", "#a3d4ae", "#5d9e2f", "#9ac96f"},
	"dev":  {"#d9772b", "#f0a868", "#a94f14", "#c43d3d", "#e58080", "#8f2626", "#d4a72c", "#ebcd7a", "#97721a", "#b0567f"},
}

// colors returns a color for each step.
func colors(steps []string) map[string]string {
	used := map[string]int{}
	all := map[string]string{}
	for _, s := range steps {
		who, _, _ := strings.Cut(s, " ")
		list := hues[who]
		all[s] = list[used[who]%len(list)]
		used[who]++
	}
	return all
}

// SVG writes the comparison as a picture: a bar for each preset, divided into the steps of the critical path,
// with whiskers from the least to the most that the total may be.
func (c *Comparison) SVG(w io.Writer) error {
	steps := c.steps()
	color := colors(steps)
	most, left := 0.0, 120.0
	for _, r := range c.Reports {
		most = max(most, r.Latency.High)
		left = max(left, textWidth(r.Preset))
	}
	if most == 0 {
		return fmt.Errorf("%s: all steps take no time; there is nothing to draw", c.Title)
	}
	unit, one := scale(most)
	left += 36
	right := pictureWidth - 60
	x := func(ns float64) float64 { return left + ns/most*(right-left) }

	var d drawing
	d.title(c.Title)
	top := d.height + 14
	bottom := top + float64(len(c.Reports))*(barHeight+barGap) + barGap/2
	for _, t := range ticks(0, most/one) {
		d.line("grid", x(t*one), top, x(t*one), bottom)
		d.text(x(t*one), bottom+17, "small", "middle", digits(t, 4))
	}
	d.text(right+14, bottom+17, "small", "start", unit)
	for i, r := range c.Reports {
		y := top + barGap + float64(i)*(barHeight+barGap)
		n := r.precision()
		total := Figure{r.Latency.NS / one, r.Latency.Low / one, r.Latency.High / one}
		d.text(left-12, y+12, "name", "end", r.Preset)
		d.text(left-12, y+barHeight-2, "small", "end", digits(total.NS, n)+" ("+digits(total.Low, n)+".."+digits(total.High, n)+") "+unit)
		at := 0.0
		for _, name := range steps {
			ns, _ := r.step(name)
			if ns <= 0 {
				continue
			}
			d.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" fill="%s"><title>%s: %s %s</title></rect>`,
				x(at), y, x(at+ns)-x(at), barHeight, color[name], name, digits(ns/one, n), unit)
			at += ns
		}
		middle := y + barHeight/2
		d.line("ink", x(r.Latency.Low), middle, x(r.Latency.High), middle)
		d.line("ink", x(r.Latency.Low), middle-6, x(r.Latency.Low), middle+6)
		d.line("ink", x(r.Latency.High), middle-6, x(r.Latency.High), middle+6)
	}
	d.line("ink", left, top, left, bottom)
	d.height = bottom + 28

	const column, line = 215.0, 20.0
	for i, name := range steps {
		kx, ky := 20+float64(i%4)*column, d.height+float64(i/4)*line
		d.add(`<rect x="%.1f" y="%.1f" width="14" height="14" fill="%s"/>`, kx, ky, color[name])
		d.text(kx+21, ky+12, "key", "start", name)
	}
	d.height += float64((len(steps)+3)/4) * line
	d.foot(c.Reports)
	return d.write(w, c.Title)
}
