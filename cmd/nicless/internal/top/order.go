//go:build linux && (amd64 || arm64)

package top

import (
	"cmp"
	"slices"
	"strings"
)

// sortBy orders the rows by a column: names and numbers of objects ascending, and counts with the greatest
// first; invert turns that round.
func (t *table[R]) sortBy(by int, invert bool) {
	t.by, t.invert = (by+len(t.columns))%len(t.columns), invert
	t.renew()
}

// arrange orders t.shown. Rows that are equal stay in the order of the engine.
func (t *table[R]) arrange() {
	c := &t.columns[t.by]
	sign := 1
	if c.rise == t.invert {
		sign = -1
	}
	rows := *t.rows
	slices.SortStableFunc(t.shown, func(i, j int) int { return sign * c.order(&rows[i], &rows[j]) })
}

// byNumber returns the order of a number. Unknown rates are the least.
func byNumber[R any, N cmp.Ordered](value func(*R) N) func(a, b *R) int {
	return func(a, b *R) int { return cmp.Compare(value(a), value(b)) }
}

// byText returns the order of a text.
func byText[R any](value func(*R) string) func(a, b *R) int {
	return func(a, b *R) int { return strings.Compare(value(a), value(b)) }
}
