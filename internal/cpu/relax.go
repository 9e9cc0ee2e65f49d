//go:build amd64 || arm64

package cpu

// Relax tells the core n times that it is in a spin loop (PAUSE on amd64, YIELD on arm64).
// That saves power. It also delays the next poll, so that the writer can have the polled
// line in the meantime. n is at least 1.
//
//go:noescape
func Relax(n uint32)
