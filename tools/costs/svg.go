package costs

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// A drawing is the text of a picture in SVG. Its colors are readable on a light and on a dark
// background; the background follows the reader's choice. It has no scripts and names no other file.
type drawing struct {
	strings.Builder
	height float64
}

// pictureWidth is the width of all pictures. The height depends on what is in them.
const pictureWidth = 900.0

// style has the colors that depend on the background.
const style = `<style>
text{font-family:sans-serif;font-size:13px;fill:#222}
.title{font-size:17px;font-weight:bold}
.small{font-size:11px;fill:#555}
.back{fill:#fff}
.ink{stroke:#222;fill:none}
.grid{stroke:#ddd}
@media (prefers-color-scheme:dark){
text{fill:#ddd}
.small{fill:#aaa}
.back{fill:#16181d}
.ink{stroke:#ddd}
.grid{stroke:#3a3d45}
}
</style>
`

// add writes one element. Strings among the arguments are escaped.
func (d *drawing) add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			var b strings.Builder
			_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
			args[i] = b.String()
		}
	}
	fmt.Fprintf(d, format+"\n", args...)
}

// text writes text that begins, has its middle or ends at x.
func (d *drawing) text(x, y float64, class, anchor, s string) {
	d.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, s)
}

// line writes a straight line.
func (d *drawing) line(class string, x1, y1, x2, y2 float64) {
	d.add(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// title writes the title on as many lines as it needs.
func (d *drawing) title(s string) {
	d.height = 12
	for line := range strings.Lines(foldAt(90, s, "")) {
		d.height += 22
		d.text(20, d.height, "title", "start", strings.TrimSuffix(line, "\n"))
	}
}

// foot writes what each report rests on.
func (d *drawing) foot(reports []*Report) {
	d.height += 8
	for _, r := range reports {
		for line := range strings.Lines(foldAt(140, r.restsOn(), "  ")) {
			d.height += 15
			x := 20.0
			if strings.HasPrefix(line, " ") {
				x += 12
			}
			d.text(x, d.height, "small", "start", strings.TrimSpace(line))
		}
	}
	d.height += 15
}

// legend writes names, each behind a sample of its color, in as many columns as fit.
func (d *drawing) legend(names []string, color func(i int) string) {
	column := 0.0
	for _, name := range names {
		column = max(column, textWidth(name)+45)
	}
	columns := max(int((pictureWidth-40)/column), 1)
	for i, name := range names {
		x, y := 20+float64(i%columns)*column, d.height+float64(i/columns)*20
		d.add(`<rect x="%.1f" y="%.1f" width="14" height="14" fill="%s"/>`, x, y, color(i))
		d.text(x+21, y+12, "key", "start", name)
	}
	d.height += float64((len(names)+columns-1)/columns) * 20
}

// write writes the picture.
func (d *drawing) write(w io.Writer, title string) error {
	var name strings.Builder
	_ = xml.EscapeText(&name, []byte(title))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img">
<title>%s</title>
%s<rect class="back" width="100%%" height="100%%"/>
%s</svg>
`, pictureWidth, d.height, pictureWidth, d.height, name.String(), style, d.Builder.String())
	return err
}

// textWidth is about how wide text of 13 pixels is.
func textWidth(s string) float64 { return 7.6 * float64(utf8.RuneCountInString(s)) }

// ticks returns round numbers that divide low..high into four to ten parts.
func ticks(low, high float64) (list []float64) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, k := range []float64{5, 2} {
		if (high-low)/(step*k) >= 4 {
			step *= k
			break
		}
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high*(1+1e-9); i++ {
		list = append(list, round(i*step, 6))
	}
	return list
}

// scale returns the unit in which numbers up to most ns are shown, and its length in ns.
func scale(most float64) (unit string, ns float64) {
	if most >= 10_000 {
		return "us", 1000
	}
	return "ns", 1
}
