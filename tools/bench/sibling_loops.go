//go:build linux && (amd64 || arm64)

package bench

// Amounts of work in one call of the two loops below, for each round.
const (
	addsInRound       = 64
	multipliesInRound = 32
)

// adds makes independent additions (half of them without a carry), so it is as fast as the core
// can issue them. A sibling that is busy takes its share of that. Additions and XORs alternate
// because the compiler makes one instruction of two additions.
//
//go:noinline
func adds(rounds int, k, m uint64) uint64 {
	a, b, c, d, e, f, g, h := k, k+1, k+2, k+3, k+4, k+5, k+6, k+7
	for range rounds {
		a, b, c, d, e, f, g, h = a+k, b+k, c+k, d+k, e+k, f+k, g+k, h+k
		a, b, c, d, e, f, g, h = a^m, b^m, c^m, d^m, e^m, f^m, g^m, h^m
		a, b, c, d, e, f, g, h = a+k, b+k, c+k, d+k, e+k, f+k, g+k, h+k
		a, b, c, d, e, f, g, h = a^m, b^m, c^m, d^m, e^m, f^m, g^m, h^m
		a, b, c, d, e, f, g, h = a+k, b+k, c+k, d+k, e+k, f+k, g+k, h+k
		a, b, c, d, e, f, g, h = a^m, b^m, c^m, d^m, e^m, f^m, g^m, h^m
		a, b, c, d, e, f, g, h = a+k, b+k, c+k, d+k, e+k, f+k, g+k, h+k
		a, b, c, d, e, f, g, h = a^m, b^m, c^m, d^m, e^m, f^m, g^m, h^m
	}
	return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h
}

// multiplies makes multiplications, each of which needs the result of the one before. A sibling
// hardly slows them, because the core waits for results most of the time. So their time shows
// the frequency of the core.
//
//go:noinline
func multiplies(rounds int, k uint64) uint64 {
	a := k
	for range rounds {
		a = a * k * k * k * k * k * k * k * k
		a = a * k * k * k * k * k * k * k * k
		a = a * k * k * k * k * k * k * k * k
		a = a * k * k * k * k * k * k * k * k
	}
	return a
}
