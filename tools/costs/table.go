package costs

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/nicless/nicless/model"
)

// A Comparison is what one trace costs on several presets.
type Comparison struct {
	Title   string // what was done, such as "write of 64 bytes"
	Unit    string // what the trace counts as a request: "request", or "doorbell" if these bring several
	Reports []*Report
}

// Compare prices a trace on several presets.
func Compare(title string, presets []*Preset, t model.Trace, o Options) (*Comparison, error) {
	c := &Comparison{Title: title, Unit: "request"}
	for _, p := range presets {
		r, err := Run(p, t, o)
		if err != nil {
			return nil, err
		}
		c.Reports = append(c.Reports, r)
	}
	return c, nil
}

// JSON writes the reports as an array of JSON. Numbers are rounded as in the table. After the fields
// of a Report each has "rests_on", the sentence at the end of the table.
func (c *Comparison) JSON(w io.Writer) error {
	type withFoot struct {
		*Report
		RestsOn string `json:"rests_on"`
	}
	list := make([]withFoot, len(c.Reports))
	for i, r := range c.Reports {
		list[i] = withFoot{r.rounded(), r.restsOn()}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(list)
}

// Table writes the comparison as text: a column for each preset, a row for each step of the critical
// path, the total and its range, messages, bounds, and what each total rests on.
func (c *Comparison) Table(w io.Writer) error {
	var g grid
	head := []string{"ns for each " + c.Unit}
	for _, r := range c.Reports {
		head = append(head, r.Preset)
	}
	g.head(head)
	for _, name := range c.steps() {
		g.row(name, c.texts(func(r *Report) string {
			ns, ok := r.step(name)
			if !ok {
				return "-"
			}
			return digits(math.Round(10*ns)/10, r.precision()) // 0.1 is fine enough for a mean
		}))
	}
	g.row("total", c.cells(func(r *Report) (float64, bool) { return r.Latency.NS, true }))
	g.row("range of the total", c.texts(func(r *Report) string { return r.span() }))

	g.section("messages on the link, for each " + c.Unit)
	for _, name := range c.messages() {
		g.row(name, c.texts(func(r *Report) string {
			if n := r.Messages[name]; n > 0 {
				return digits(n, 3)
			}
			return "-"
		}))
	}
	g.section("most " + c.Unit + "s, million a second")
	for _, name := range c.bounds() {
		g.row(name, c.cells(func(r *Report) (float64, bool) {
			i := slices.IndexFunc(r.Bounds, func(b Bound) bool { return b.Name == name })
			if i < 0 {
				return 0, false
			}
			return r.Bounds[i].Mops, true
		}))
	}
	if _, err := fmt.Fprintf(w, "%s\n\n%s\n", fold(c.Title, ""), g.text()); err != nil {
		return err
	}
	return foot(w, c.Reports)
}

// foot writes what each report rests on.
func foot(w io.Writer, reports []*Report) error {
	for _, r := range reports {
		if _, err := fmt.Fprintln(w, fold(r.restsOn(), "  ")); err != nil {
			return err
		}
	}
	return nil
}

// steps returns the names of the steps that take time on any preset, in the order of the paths.
func (c *Comparison) steps() []string {
	var all []string
	for _, r := range c.Reports {
		var names []string
		for _, s := range r.Steps {
			if s.NS > 0 {
				names = append(names, s.Name)
			}
		}
		all = mergeOrder(all, names)
	}
	return all
}

// mergeOrder adds the names of more that all does not have, each behind the one that it follows in more.
func mergeOrder(all, more []string) []string {
	at := 0
	for _, name := range more {
		i := slices.Index(all, name)
		if i < 0 {
			all = slices.Insert(all, at, name)
			i = at
		}
		at = max(at, i+1) // a name may come twice
	}
	return all
}

// messages returns the names of all messages that were sent, sorted.
func (c *Comparison) messages() []string {
	var names []string
	for _, r := range c.Reports {
		for name, n := range r.Messages {
			if n > 0 && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// bounds returns the names of all bounds, the least first.
func (c *Comparison) bounds() []string {
	var all []Bound
	for _, r := range c.Reports {
		all = append(all, r.Bounds...)
	}
	slices.SortStableFunc(all, func(a, b Bound) int {
		if a.Mops == b.Mops {
			return strings.Compare(a.Name, b.Name)
		}
		return int(math.Copysign(1, a.Mops-b.Mops))
	})
	var names []string
	for _, b := range all {
		if !slices.Contains(names, b.Name) {
			names = append(names, b.Name)
		}
	}
	return names
}

// cells returns a cell for each report: a number with the digits that it deserves, or "-".
func (c *Comparison) cells(value func(*Report) (float64, bool)) []string {
	return c.texts(func(r *Report) string {
		v, ok := value(r)
		if !ok {
			return "-"
		}
		return digits(v, r.precision())
	})
}

func (c *Comparison) texts(text func(*Report) string) (list []string) {
	for _, r := range c.Reports {
		list = append(list, text(r))
	}
	return list
}

// step returns the time of a step, and whether the path has it.
func (r *Report) step(name string) (ns float64, ok bool) {
	for _, s := range r.Steps {
		if s.Name == name {
			return s.NS, true
		}
	}
	return 0, false
}
