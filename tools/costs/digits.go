package costs

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/nicless/nicless/internal/paragraph"
	"github.com/nicless/nicless/tools/internal/svg"
)

// precision returns how many digits the numbers of r deserve.
func (r *Report) precision() int {
	if r.Vague {
		return 2
	}
	return 3
}

// span returns the range of the total, such as "780..2000".
func (r *Report) span() string {
	return digits(r.Latency.Low, r.precision()) + ".." + digits(r.Latency.High, r.precision())
}

// restsOn says in a sentence what the total rests on: the weakest prices, and the range.
func (r *Report) restsOn() string {
	s := r.Preset + " rests on "
	var weakest []string
	for _, b := range r.Rests {
		if b.Trust == r.Rests[0].Trust {
			weakest = append(weakest, b.Price)
		}
	}
	number := "number"
	if len(weakest) != 1 {
		number = "numbers"
	}
	trust, _, _ := strings.Cut(r.Trust, " ") // not "measured here numbers"
	s += fmt.Sprintf("%d %s %s", len(weakest), trust, number)
	if len(weakest) > 0 {
		s += " (" + strings.Join(weakest, ", ") + ")"
	}
	if more := len(r.Rests) - len(weakest); more > 0 {
		s += fmt.Sprintf(" and %d better", more)
	}
	return s + fmt.Sprintf("; weakest: %s; range %s ns", r.Trust, r.span())
}

// rounded returns a copy of r whose numbers have the digits that they deserve.
func (r *Report) rounded() *Report {
	c, n := *r, r.precision()
	c.Latency = Figure{round(r.Latency.NS, n), round(r.Latency.Low, n), round(r.Latency.High, n)}
	c.Steps = []Step{}
	for _, s := range r.Steps {
		c.Steps = append(c.Steps, Step{s.Name, round(s.NS, n), roundAll(s.Parts, n)})
	}
	c.Bounds = []Bound{}
	for _, b := range r.Bounds {
		c.Bounds = append(c.Bounds, Bound{b.Name, round(b.NS, n), round(b.Mops, n)})
	}
	c.Messages = roundAll(r.Messages, 3)
	c.Rests = []Basis{}
	for _, b := range r.Rests {
		n := precisionOf(b.Trust)
		b.Value, b.Low, b.High = round(b.Value, n), round(b.Low, n), round(b.High, n)
		c.Rests = append(c.Rests, b)
	}
	return &c
}

// precisionOf returns how many digits a price of a trust, given by its letter, deserves.
func precisionOf(letter string) int {
	if t := strings.Index(trustLetters, letter); t >= 0 && !Trust(t).Vague() {
		return 3
	}
	return 2
}

func roundAll(m map[string]float64, n int) map[string]float64 {
	c := make(map[string]float64, len(m))
	for name, v := range m {
		c[name] = round(v, n)
	}
	return c
}

// round returns v with n significant digits. A value far below a picosecond is an error of addition.
func round(v float64, n int) float64 {
	if math.Abs(v) < 1e-6 {
		return 0
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64)
	return v
}

// digits returns v as text with n significant digits, without an exponent.
func digits(v float64, n int) string { return strconv.FormatFloat(round(v, n), 'f', -1, 64) }

// width is the most columns of text that is not a table.
const width = 100

// fold breaks text at spaces into lines of at most width columns. Further lines begin with indent, the
// first with the spaces that text begins with.
func fold(text, indent string) string {
	head := text[:len(text)-len(strings.TrimLeft(text, " "))]
	return head + paragraph.Fold(text, len(head), width, indent)
}

// scale returns the unit in which numbers up to most ns are shown, and its length in ns.
func scale(most float64) (unit string, ns float64) {
	if most >= 10_000 {
		return "us", 1000
	}
	return "ns", 1
}

// restsBelow writes below a picture what each of its reports rests on.
func restsBelow(d *svg.Drawing, reports []*Report) {
	d.Height += 8
	for _, r := range reports {
		d.Small(r.restsOn())
	}
	d.Height += 15
}
