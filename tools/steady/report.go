//go:build linux

package steady

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/tools/quantile"
)

// A Report is the runs and all failures.
type Report struct {
	Suites   []SuiteReport
	Failures []Failure
}

// A SuiteReport counts the whole runs of a suite.
type SuiteReport struct {
	Name    string
	Runs    int
	Failed  int // runs in which a test failed
	Ran     int // tests in all runs, without those that skipped
	Skipped int
	Times   []time.Duration
}

// Nothing returns an error if a suite has no whole run, or neither a test nor a failure in its runs: then the
// report says nothing of that suite.
func (r *Report) Nothing() error {
	for _, s := range r.Suites {
		switch {
		case s.Runs == 0:
			return fmt.Errorf("suite %s has no whole run", s.Name)
		case s.Ran == 0 && s.Failed == 0:
			return fmt.Errorf("no test of suite %s ran (%d skipped)", s.Name, s.Skipped)
		}
	}
	return nil
}

// Print writes a line for each suite, and for each test that failed: how often, with which seeds,
// and how to repeat it.
func (r *Report) Print(w io.Writer) {
	_, _ = fmt.Fprintf(w, "\n%-10s %6s %7s %8s %10s %10s\n", "suite", "runs", "failed", "skipped", "median", "longest")
	for _, s := range r.Suites {
		times := slices.Sorted(slices.Values(s.Times))
		median, longest := "-", "-"
		if n := len(times); n > 0 {
			median, longest = quantile.Rank(times, 0.5).Round(time.Second).String(),
				times[n-1].Round(time.Second).String()
		}
		_, _ = fmt.Fprintf(w, "%-10s %6d %7d %8d %10s %10s\n", s.Name, s.Runs, s.Failed, s.Skipped, median, longest)
	}
	for _, group := range r.groups() {
		f := group[0]
		name := cmp.Or(f.Test, "(outside tests)")
		_, _ = fmt.Fprintf(w, "\n%s %s %s: failed %s\n", f.Suite, f.Package, name, times(len(group)))
		for _, f := range group {
			how := fmt.Sprintf("-shuffle=%d", f.Seed)
			if f.Seed == 0 {
				how, _, _ = strings.Cut(f.Output, "\n")
			}
			_, _ = fmt.Fprintf(w, "  run %d, GOMAXPROCS=%d, %s\n", f.Run, f.Procs, how)
		}
		_, _ = fmt.Fprintf(w, "  alone: %s\n", f.Repeat)
	}
	if len(r.Failures) > 0 {
		_, _ = fmt.Fprintln(w, "\nFor the same order of tests, add the -shuffle of a line and leave -run out.")
	}
}

// groups returns the failures of each test, that which failed most often first.
func (r *Report) groups() (groups [][]Failure) {
	at := make(map[[3]string]int)
	for _, f := range r.Failures {
		key := [3]string{f.Suite, f.Package, f.Test}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	slices.SortStableFunc(groups, func(a, b []Failure) int { return len(b) - len(a) })
	return groups
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
