package costs

import (
	"fmt"
	"io"
	"strings"

	"github.com/nicless/nicless/tools/internal/svg"
)

// Sizes of the bars in pixels.
const (
	barHeight = 30.0
	barGap    = 18.0
	nameLine  = 16.0
)

// hues are the colors of the steps of each agent: blue for the host, green for the peer, orange
// and red for the device.
var hues = map[string][]string{
	"host": {"#2f6fb5", "#6ba3dc", "#1d4a80", "#93bfe8", "#4a5fc1", "#8a96de"},
	"peer": {"#3d8f54", "#7cbf8c", "#266338", "#a3d4ae", "#5d9e2f", "#9ac96f"},
	"dev": {"#d9772b", "#f0a868", "#a94f14", "#c43d3d", "#e58080", "#8f2626", "#d4a72c", "#ebcd7a",
		"#97721a", "#b0567f"},
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
		for _, line := range nameLines(r.Preset) {
			left = max(left, svg.TextWidth(line))
		}
	}
	if most == 0 {
		return fmt.Errorf("%s: all steps take no time; there is nothing to draw", c.Title)
	}
	unit, one := scale(most)
	left += 36
	right := svg.Width - 60
	x := func(ns float64) float64 { return left + ns/most*(right-left) }

	var d svg.Drawing
	d.Title(c.Title)
	top := d.Height + 14
	bottom := top + barGap
	for _, r := range c.Reports {
		bottom += rowHeight(r.Preset)
	}
	for _, t := range svg.Ticks(0, most/one) {
		d.Line("grid", x(t*one), top, x(t*one), bottom)
		d.Text(x(t*one), bottom+17, "small", "middle", digits(t, 4))
	}
	d.Text(right+14, bottom+17, "small", "start", unit)
	y := top + barGap
	for _, r := range c.Reports {
		n := r.precision()
		total := Figure{r.Latency.NS / one, r.Latency.Low / one, r.Latency.High / one}
		lines := nameLines(r.Preset)
		for j, line := range lines {
			d.Text(left-12, y+12+float64(j)*nameLine, "name", "end", line)
		}
		d.Text(left-12, y+12+float64(len(lines))*nameLine, "small", "end",
			digits(total.NS, n)+" ("+digits(total.Low, n)+".."+digits(total.High, n)+") "+unit)
		at := 0.0
		for _, name := range steps {
			ns, _ := r.step(name)
			if ns <= 0 {
				continue
			}
			d.Add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" fill="%s"><title>%s: %s %s</title></rect>`,
				x(at), y, x(at+ns)-x(at), barHeight, color[name], name, digits(ns/one, n), unit)
			at += ns
		}
		middle := y + barHeight/2
		d.Line("ink", x(r.Latency.Low), middle, x(r.Latency.High), middle)
		d.Line("ink", x(r.Latency.Low), middle-6, x(r.Latency.Low), middle+6)
		d.Line("ink", x(r.Latency.High), middle-6, x(r.Latency.High), middle+6)
		y += rowHeight(r.Preset)
	}
	d.Line("ink", left, top, left, bottom)
	d.Height = bottom + 28

	d.Legend(steps, func(i int) string { return color[steps[i]] })
	restsBelow(&d, c.Reports)
	return d.Write(w, c.Title)
}

// nameLines breaks the name of a preset with many changes, such as "cxl2-fpga+cq=dev+rq=dev", into lines.
func nameLines(name string) (lines []string) {
	const most = 24 // characters
	for i, part := range strings.Split(name, "+") {
		if i > 0 {
			part = "+" + part
		}
		if i > 0 && len(lines[len(lines)-1])+len(part) <= most {
			lines[len(lines)-1] += part
		} else {
			lines = append(lines, part)
		}
	}
	return lines
}

// rowHeight is the height of a bar with its name beside it and the gap below it.
func rowHeight(name string) float64 {
	return max(barHeight, float64(len(nameLines(name)))*nameLine+14) + barGap
}
