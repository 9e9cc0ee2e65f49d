// Package quantile has the quantiles of measured values.
package quantile

import "math"

// Rank returns one of the sorted values, below which the part q (0..1) of them lies. Rank(s, 0.5) is the
// median, of an even number of values the upper one. There is a value at least.
func Rank[T any](sorted []T, q float64) T {
	at := int(q*float64(len(sorted)) + 1e-9) // the product of a number such as 0.07 may be a little too small
	return sorted[min(at, len(sorted)-1)]
}

// Between returns the value below which the part q (0..1) of the sorted values lies, between two of them if
// no value is there. It is for few values. There is a value at least.
func Between(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[i]
	}
	part := at - math.Floor(at)
	return sorted[i]*(1-part) + sorted[i+1]*part
}
