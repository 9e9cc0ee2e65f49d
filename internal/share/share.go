// Package share is for tests of many cases that take too long for each commit: all programs in all modes
// and places, each access of each operation. With the flag -share I/N a run takes each N-th case, from the
// I-th on. CI counts I up with the commits, so that N commits run all of them. A package has the flag if its
// tests import this package. Without it a run takes everything.
//
// Only tests import this package.
package share

import (
	"flag"
	"fmt"
	"testing"
)

// A part is the cases whose number leaves part when it is divided by of.
type part struct{ part, of int }

var run = part{0, 1}

func init() {
	flag.Var(&run, "share", "`I/N`: of all combinations, only each N-th from the I-th on, counted from 0")
}

// Has reports whether this run takes the case with these indices, of which each counts from 0. Their sum
// decides, so that a share of a matrix has some of each row.
func Has(indices ...int) bool { return run.has(indices...) }

// Only skips the test unless this run takes the case with these indices.
func Only(t testing.TB, indices ...int) {
	t.Helper()
	if !Has(indices...) {
		t.Skip("of another share")
	}
}

// Of returns the cases of a list that this run takes.
func Of[T any](list []T) []T {
	var taken []T
	for i, c := range list {
		if Has(i) {
			taken = append(taken, c)
		}
	}
	return taken
}

// Flag returns the flag of this run, for a test binary that this one starts.
func Flag() string { return "-share=" + run.String() }

func (p part) has(indices ...int) bool {
	sum := 0
	for _, i := range indices {
		sum += i
	}
	return sum%p.of == p.part
}

func (p *part) String() string { return fmt.Sprintf("%d/%d", p.part, p.of) }

func (p *part) Set(text string) error {
	var n part
	if _, err := fmt.Sscanf(text, "%d/%d", &n.part, &n.of); err != nil || n.String() != text {
		return fmt.Errorf("two numbers are needed, such as 0/2")
	}
	if n.of < 1 || n.part < 0 || n.part >= n.of {
		return fmt.Errorf("part %d of %d; 0 to %d are possible", n.part, n.of, n.of-1)
	}
	*p = n
	return nil
}
