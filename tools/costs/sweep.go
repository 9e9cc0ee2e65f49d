package costs

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nicless/nicless/model"
)

// A Sweep is what one trace costs on several presets while one price takes several values. On
// presets that lack the price nothing changes.
type Sweep struct {
	Title   string
	Unit    string      // Comparison.Unit
	Price   string      // name of the price
	Values  []float64   // values of the price
	Reports [][]*Report // for each preset, a report for each value

	Crossings []Crossing
}

// A Crossing is a value of the price at which two presets cost the same.
type Crossing struct {
	Presets [2]string `json:"presets"`
	At      float64   `json:"at"`      // value of the price
	NS      float64   `json:"ns"`      // what both cost there
	Certain bool      `json:"certain"` // the ranges of the two do not overlap at both ends of the sweep
	vague   bool
}

// maxPoints is the most values of a sweep.
const maxPoints = 200

// RunSweep prices a trace with each value of a price that are low, low+step, ... and at most high. At least
// one of the presets has the price.
func RunSweep(title string, presets []*Preset, t model.Trace, o Options, price string, low, high,
	step float64) (*Sweep, error) {
	points := math.Floor((high-low)/step+1e-9) + 1
	if !(step > 0 && points >= 2 && points <= maxPoints) { // also if one of them is NaN
		return nil, fmt.Errorf("sweep of price.%s: %g:%g:%g are %.0f values; 2..%d are possible, from low to high", price, low, high, step, max(points, 0), maxPoints)
	}
	s := &Sweep{Title: title, Unit: "request", Price: price, Reports: make([][]*Report, len(presets))}
	for i := range int(points) {
		s.Values = append(s.Values, round(low+float64(i)*step, 9))
	}
	if !slices.ContainsFunc(presets, func(p *Preset) bool { _, ok := p.Price[price]; return ok }) {
		return nil, fmt.Errorf("sweep of price.%s: none of the presets has it", price)
	}
	for i, p := range presets {
		_, has := p.Price[price]
		for j, v := range s.Values {
			if !has && j > 0 {
				s.Reports[i] = append(s.Reports[i], s.Reports[i][0])
				continue
			}
			at := p
			if has {
				var err error
				if at, err = p.With(nil, nil,
					map[string]string{price: strconv.FormatFloat(v, 'f', -1, 64)}); err != nil {
					return nil, err
				}
			}
			r, err := Run(at, t, o)
			if err != nil {
				return nil, err
			}
			s.Reports[i] = append(s.Reports[i], r)
		}
	}
	s.cross()
	return s, nil
}

// cross fills in the crossings. Between two values of the price, totals are taken for straight lines.
func (s *Sweep) cross() {
	for a := range s.Reports {
		for b := a + 1; b < len(s.Reports); b++ {
			for j := 1; j < len(s.Values); j++ {
				before := s.Reports[a][j-1].Latency.NS - s.Reports[b][j-1].Latency.NS
				after := s.Reports[a][j].Latency.NS - s.Reports[b][j].Latency.NS
				if before == 0 || before > 0 == (after > 0) && after != 0 {
					continue // no crossing, or one that has been seen
				}
				part := before / (before - after)
				s.Crossings = append(s.Crossings, Crossing{
					Presets: [2]string{s.Reports[a][0].Preset, s.Reports[b][0].Preset},
					At:      s.Values[j-1] + part*(s.Values[j]-s.Values[j-1]),
					NS: s.Reports[a][j-1].Latency.NS +
						part*(s.Reports[a][j].Latency.NS-s.Reports[a][j-1].Latency.NS),
					Certain: apart(s.Reports[a][0], s.Reports[b][0]) &&
						apart(last(s.Reports[a]), last(s.Reports[b])),
					vague: s.Reports[a][j].Vague || s.Reports[b][j].Vague,
				})
			}
		}
	}
}

// apart reports whether the ranges of two totals have nothing in common.
func apart(a, b *Report) bool {
	return a.Latency.High < b.Latency.Low || b.Latency.High < a.Latency.Low
}

func last(list []*Report) *Report { return list[len(list)-1] }

// String says where the two presets cross.
func (c Crossing) String() string {
	n := 3
	if c.vague {
		n = 2
	}
	text := fmt.Sprintf("%s and %s cross at %s (%s ns)", c.Presets[0], c.Presets[1], digits(c.At, n), digits(c.NS, n))
	if !c.Certain {
		text += "; their ranges overlap at an end of the sweep, so this is not certain"
	}
	return text
}

// crossings returns a line for each crossing, or one that says that there is none.
func (s *Sweep) crossings() (lines []string) {
	for _, c := range s.Crossings {
		lines = append(lines, c.String())
	}
	if len(lines) == 0 && len(s.Reports) > 1 {
		lines = []string{"no two presets cross"}
	}
	return lines
}

// rests returns a report for each preset whose range is that of the whole sweep, and which rests on the
// prices of the value with most of them.
func (s *Sweep) rests() (list []*Report) {
	for _, row := range s.Reports {
		r := *row[0]
		for _, o := range row[1:] {
			low, high := min(r.Latency.Low, o.Latency.Low), max(r.Latency.High, o.Latency.High)
			if len(o.Rests) > len(r.Rests) {
				r = *o
			}
			r.Latency.Low, r.Latency.High = low, high
		}
		list = append(list, &r)
	}
	return list
}

// Table writes a row for each value of the price and a column for each preset, where presets cross, and what
// the totals rest on. The ranges are those of the whole sweep.
func (s *Sweep) Table(w io.Writer) error {
	var g grid
	head := []string{"price." + s.Price}
	for _, row := range s.Reports {
		head = append(head, row[0].Preset)
	}
	g.head(head)
	for j, v := range s.Values {
		var cells []string
		for _, row := range s.Reports {
			cells = append(cells, digits(row[j].Latency.NS, row[j].precision()))
		}
		g.row(digits(v, 6), cells)
	}
	text := fold(s.Title+"; total in ns for each "+s.Unit, "") + "\n\n" + g.text() + "\n"
	for _, line := range s.crossings() {
		text += fold(line, "  ") + "\n"
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	return foot(w, s.rests())
}

// JSON writes the sweep as one object of JSON.
func (s *Sweep) JSON(w io.Writer) error {
	type point struct {
		At      float64 `json:"at"`
		Latency Figure  `json:"latency"`
	}
	type line struct {
		Preset  string  `json:"preset"`
		Points  []point `json:"points"`
		Trust   string  `json:"trust"`
		Vague   bool    `json:"vague"`
		RestsOn string  `json:"rests_on"`
	}
	out := struct {
		Price     string     `json:"price"`
		Crossings []Crossing `json:"crossings"`
		Presets   []line     `json:"presets"`
	}{Price: s.Price, Crossings: []Crossing{}}
	for _, c := range s.Crossings {
		n := 3
		if c.vague {
			n = 2
		}
		c.At, c.NS = round(c.At, n), round(c.NS, n)
		out.Crossings = append(out.Crossings, c)
	}
	rests := s.rests()
	for i, row := range s.Reports {
		l := line{Preset: row[0].Preset, Trust: rests[i].Trust, Vague: rests[i].Vague,
			RestsOn: rests[i].restsOn()}
		for j, r := range row {
			l.Points = append(l.Points, point{s.Values[j], r.rounded().Latency})
		}
		out.Presets = append(out.Presets, l)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(out)
}

// ParseSweep reads a sweep such as "price.link=100:800:50".
func ParseSweep(text string) (price string, low, high, step float64, err error) {
	name, values, ok := strings.Cut(text, "=")
	parts := strings.Split(values, ":")
	name = strings.TrimPrefix(name, "price.")
	if !ok || name == "" || len(parts) != 3 {
		return "", 0, 0, 0, fmt.Errorf("sweep %q is not a price and its values, such as price.link=100:800:50", text)
	}
	var n [3]float64
	for i, part := range parts {
		n[i], err = strconv.ParseFloat(part, 64)
		if err != nil || !(n[i] >= 0 && n[i] <= absurd) {
			return "", 0, 0, 0, fmt.Errorf("sweep of price.%s: %q is not a number of 0..%g", name, part, float64(absurd))
		}
	}
	return name, n[0], n[1], n[2], nil
}
