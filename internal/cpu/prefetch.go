//go:build amd64 || arm64

package cpu

// PrefetchWrite starts to bring the four cache lines at p into the cache of this core, for
// stores that follow soon, if CanPrefetchWrite. It does not wait for them, reads and changes
// nothing, and does not fault. Otherwise the processor ignores it.
//
//go:noescape
func PrefetchWrite(p *[4 * 64]byte)

// PrefetchLines starts to bring n cache lines from p on into the cache of this core, for loads that
// follow soon. n is at least 1. It does not wait for them, reads and changes nothing, and does not fault.
//
//go:noescape
func PrefetchLines(p *byte, n uint64)
