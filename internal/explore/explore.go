// Package explore marks tests that search: random programs on two devices that have to agree, every
// row of a benchmark, all outputs that documents show. They take long and rarely find something
// that a shorter test does not, so they run only with the flag -explore, which CI sets. A package
// has the flag if its tests import this package.
//
// Only tests import this package.
package explore

import (
	"flag"
	"testing"
)

var on = flag.Bool("explore", false, "run the tests that search, too, which takes minutes")

// Only skips the test unless the flag -explore is set.
func Only(t testing.TB) {
	t.Helper()
	if !*on {
		t.Skip("a search: runs with -explore")
	}
}

// Rounds returns how often a search repeats: few without the flag -explore, many with it.
func Rounds(few, many int) int {
	if *on {
		return many
	}
	return few
}
