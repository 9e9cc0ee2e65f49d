//go:build linux && (amd64 || arm64)

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Verdict returns "holds" or "misses", or "-" if the row has no target.
func (r *Row) Verdict() string {
	switch {
	case r.Target == noTarget:
		return noTarget
	case r.Holds:
		return "holds"
	}
	return "misses"
}

// figure returns a number with three or more significant digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func (s *Spread) String() string {
	if s == nil {
		return "-"
	}
	if len(s.Samples) == 1 {
		return figure(s.Median)
	}
	return fmt.Sprintf("%s (%s..%s)", figure(s.Median), figure(s.Min), figure(s.Max))
}

// String returns the state of the siblings in one line.
func (s *Siblings) String() string {
	if s.Busy == 0 {
		return "siblings: quiet"
	}
	return fmt.Sprintf("siblings: %d of %d runs beside a busy sibling (additions took up to %.2f times as long as beside a quiet one)", s.Busy, s.Runs, s.Worst)
}

// cells returns the columns of a row.
func (r *Row) cells() []string {
	return []string{r.Name, r.Unit, r.Values.String(), r.Floors.String(), r.Ratios.String(), r.Target,
		r.Verdict()}
}

var heads = []string{"row", "unit", "nicless", "floor", "ratio", "target", "verdict"}

// remarks returns the lines that describe the figures.
func (t *Table) remarks() (lines []string) {
	runs, retaken, disturbed := 0, 0, 0
	for _, r := range t.Rows {
		runs = max(runs, len(r.Values.Samples))
		retaken = max(retaken, r.Retaken)
		disturbed += r.Disturbed
	}
	lines = append(lines,
		fmt.Sprintf("machine: %v", t.Machine),
		fmt.Sprintf("cores: client %d, engine %d; up to %d runs, median (least..greatest)", t.ClientCPU, t.EngineCPU, runs),
		"measured; each run after one of its floor, ratio = nicless / floor run by run")
	if t.Siblings != nil {
		lines = append(lines, t.Siblings.String())
	}
	if retaken > 0 || disturbed > 0 {
		lines = append(lines, fmt.Sprintf("disturbed by other programs, over %.0f%% of the time, by a floor that moved by %.0f%%, or by a busy sibling: up to %d runs of a row were repeated; %d of the runs below",
			100*tooMuch, 100*(unsteady-1), retaken, disturbed))
	}
	return lines
}

// Print writes remarks, which are lines that start with "#", and then a line for every row. A
// table of percentiles follows if rows of latency were measured.
func (t *Table) Print(w io.Writer) error {
	for _, line := range t.remarks() {
		if _, err := fmt.Fprintln(w, "#", line); err != nil {
			return err
		}
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(heads, "\t"))
	for i := range t.Rows {
		fmt.Fprintln(tw, strings.Join(t.Rows[i].cells(), "\t"))
	}
	if tails := t.tails(); len(tails) > 0 {
		fmt.Fprintf(tw, "\n# %s\n%s\n", tails[0].Tail.remark(), strings.Join(tailHeads(), "\t"))
		for _, r := range tails {
			fmt.Fprintf(tw, "%s\t%s\n", r.Name, strings.Join(r.Tail.cells(), "\t"))
		}
	}
	return tw.Flush()
}

// tails returns the rows that have percentiles of single operations.
func (t *Table) tails() []Row {
	return slices.DeleteFunc(slices.Clone(t.Rows), func(r Row) bool { return r.Tail == nil })
}

// PrintMarkdown writes the tables in Markdown, then a description of each row.
func (t *Table) PrintMarkdown(w io.Writer) error {
	var b strings.Builder
	for _, line := range t.remarks() {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n| " + strings.Join(heads, " | ") + " |\n" + strings.Repeat("|---", len(heads)) + "|\n")
	for i := range t.Rows {
		b.WriteString("| " + strings.Join(t.Rows[i].cells(), " | ") + " |\n")
	}
	if tails := t.tails(); len(tails) > 0 {
		heads := tailHeads()
		fmt.Fprintf(&b, "\n%s\n\n| %s |\n%s|\n", tails[0].Tail.remark(), strings.Join(heads, " | "),
			strings.Repeat("|---", len(heads)))
		for _, r := range tails {
			fmt.Fprintf(&b, "| %s | %s |\n", r.Name, strings.Join(r.Tail.cells(), " | "))
		}
	}
	b.WriteString("\n| row | what | floor |\n|---|---|---|\n")
	for _, r := range t.Rows {
		floor := r.Floor
		if floor == "" {
			floor = "-"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Name, r.What, floor)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintJSON writes the table as one object, with every sample.
func (t *Table) PrintJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // targets are comparisons
	return e.Encode(t)
}
