//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// ReadTable reads what PrintJSON has written.
func ReadTable(r io.Reader) (*Table, error) {
	t := new(Table)
	if err := json.NewDecoder(r).Decode(t); err != nil {
		return nil, fmt.Errorf("bench: not a table of bench all --json: %w", err)
	}
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("bench: the table has no rows")
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if r.Name == "" || len(r.Values.Samples) == 0 || (r.Ratios != nil && len(r.Ratios.Samples) == 0) {
			return nil, fmt.Errorf("bench: row %d of %d (%q) has no samples", i+1, len(t.Rows), r.Name)
		}
	}
	return t, nil
}

// A Change is one row of two tables.
type Change struct {
	Name     string
	Old, New *Spread // ratios to the floor, or values if there is no floor; nil: not measured
	Of       string  // what Old and New count: "x floor", or the unit of the values
	less     bool    // less is better
}

// Compare pairs the rows of this table with those of an earlier table, in the order of this
// table. Rows that only the earlier table has come last. A row whose unit or floor has changed
// counts as a new row.
func (t *Table) Compare(old *Table) (changes []Change) {
	before := make(map[string]*Row)
	for i := range old.Rows {
		before[old.Rows[i].Name] = &old.Rows[i]
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		c := r.change()
		c.New = r.compared(r.Ratios != nil)
		if o := before[r.Name]; o != nil && (o.Ratios != nil) == (r.Ratios != nil) && o.Unit == r.Unit &&
			o.Floor == r.Floor {
			c.Old = o.compared(r.Ratios != nil)
			delete(before, r.Name)
		}
		changes = append(changes, c)
	}
	for i := range old.Rows {
		if o := &old.Rows[i]; before[o.Name] != nil {
			c := o.change()
			c.Old = o.compared(o.Ratios != nil)
			changes = append(changes, c)
		}
	}
	return changes
}

func (r *Row) change() Change {
	c := Change{Name: r.Name, Of: r.Unit, less: !lessIsWorse[r.Unit] && !strings.HasPrefix(r.Target, ">=")}
	if r.Ratios != nil {
		c.Of = "x floor"
	}
	return c
}

// lessIsWorse has the units of which more is better.
var lessIsWorse = map[string]bool{"Mops": true, "MB/s": true}

// compared returns the ratios to the floor if ratios is true and the row has them, otherwise the
// values. Ratios allow for how fast the machine was at the time.
func (r *Row) compared(ratios bool) *Spread {
	if ratios {
		return r.Ratios
	}
	return &r.Values
}

// Percent returns by how much the median has grown.
func (c *Change) Percent() float64 { return 100 * (c.New.Median/c.Old.Median - 1) }

// Beyond reports whether the two spreads are disjoint. If they overlap, the change may be
// noise.
func (c *Change) Beyond() bool { return c.New.Min > c.Old.Max || c.New.Max < c.Old.Min }

// Verdict returns the change in words.
func (c *Change) Verdict() string {
	switch {
	case c.Old == nil:
		return "new"
	case c.New == nil:
		return "not measured"
	case len(c.Old.Samples) == 1 || len(c.New.Samples) == 1:
		return "one sample"
	case !c.Beyond():
		return "within the spread"
	case (c.New.Median < c.Old.Median) == c.less:
		return "better"
	}
	return "worse"
}

// PrintChanges writes how the table differs from an earlier one.
func (t *Table) PrintChanges(w io.Writer, old *Table) error {
	for _, line := range t.remarks() {
		fmt.Fprintln(w, "#", line)
	}
	fmt.Fprintf(w, "# before: %v; cores %d and %d\n", old.Machine, old.ClientCPU, old.EngineCPU)
	if old.Machine.String() != t.Machine.String() || old.ClientCPU != t.ClientCPU ||
		old.EngineCPU != t.EngineCPU {
		fmt.Fprintln(w, "# another machine, or other cores: not even ratios are comparable")
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "row\tof\tbefore\tnow\tchange\tverdict")
	for _, c := range t.Compare(old) {
		change := "-"
		if c.Old != nil && c.New != nil {
			change = fmt.Sprintf("%+.1f%%", c.Percent())
		}
		fmt.Fprintf(tw, "%s\t%s\t%v\t%v\t%s\t%s\n", c.Name, c.Of, c.Old, c.New, change, c.Verdict())
	}
	return tw.Flush()
}
