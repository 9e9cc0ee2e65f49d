// Package svg draws pictures of measurements: titles, axes, legends and whatever their callers add.
package svg

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/nicless/nicless/internal/paragraph"
)

// A Drawing is the text of a picture in SVG. Its colors are readable on a light and on a dark
// background; the background follows the reader's choice. It has no scripts and names no other file.
type Drawing struct {
	// Height is how much of the picture is used, from its top. Title, Legend and Small go on below it.
	Height float64

	b strings.Builder
}

// Width is the width of all pictures. The height depends on what is in them.
const Width = 900.0

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

// Add writes one element. Strings among the arguments are escaped.
func (d *Drawing) Add(format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = escaped(s)
		}
	}
	fmt.Fprintf(&d.b, format+"\n", args...)
}

func escaped(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return b.String()
}

// Text writes text that begins, has its middle or ends at x.
func (d *Drawing) Text(x, y float64, class, anchor, s string) {
	d.Add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, s)
}

// Line writes a straight line.
func (d *Drawing) Line(class string, x1, y1, x2, y2 float64) {
	d.Add(`<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, class, x1, y1, x2, y2)
}

// Title writes the title on as many lines as it needs.
func (d *Drawing) Title(s string) {
	d.Height = 12
	for line := range strings.Lines(paragraph.Fold(s, 0, 90, "")) {
		d.Height += 22
		d.Text(20, d.Height, "title", "start", strings.TrimSuffix(line, "\n"))
	}
}

// Small writes small text on as many lines as it needs.
func (d *Drawing) Small(s string) {
	for line := range strings.Lines(paragraph.Fold(s, 0, 140, "  ")) {
		d.Height += 15
		x := 20.0
		if strings.HasPrefix(line, " ") {
			x += 12
		}
		d.Text(x, d.Height, "small", "start", strings.TrimSpace(line))
	}
}

// Legend writes names, each behind a sample of its color, in as many columns as fit.
func (d *Drawing) Legend(names []string, color func(i int) string) {
	column := 0.0
	for _, name := range names {
		column = max(column, TextWidth(name)+45)
	}
	columns := max(int((Width-40)/column), 1)
	for i, name := range names {
		x, y := 20+float64(i%columns)*column, d.Height+float64(i/columns)*20
		d.Add(`<rect x="%.1f" y="%.1f" width="14" height="14" fill="%s"/>`, x, y, color(i))
		d.Text(x+21, y+12, "key", "start", name)
	}
	d.Height += float64((len(names)+columns-1)/columns) * 20
}

// Write writes the picture.
func (d *Drawing) Write(w io.Writer, title string) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %g %g" role="img">
<title>%s</title>
%s<rect class="back" width="100%%" height="100%%"/>
%s</svg>
`, Width, d.Height, Width, d.Height, escaped(title), style, d.b.String())
	return err
}

// TextWidth is about how wide text of 13 pixels is.
func TextWidth(s string) float64 { return 7.6 * float64(utf8.RuneCountInString(s)) }

// Ticks returns round numbers that divide low..high into four to ten parts.
func Ticks(low, high float64) (list []float64) {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, k := range []float64{5, 2} {
		if (high-low)/(step*k) >= 4 {
			step *= k
			break
		}
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high*(1+1e-9); i++ {
		list = append(list, i*step)
	}
	return list
}
