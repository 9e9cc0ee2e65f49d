//go:build amd64 || arm64

package cpu

// Relax tells the core n times that it is in a spin loop (PAUSE on amd64, YIELD on arm64).
// That saves power, and for a moment it leaves the polled line to its writer. n is at least
// 1.
//
//go:noescape
func Relax(n uint32)
