//go:build amd64 || arm64

package cpu

// PrefetchWrite starts to bring the four cache lines at p into the cache of this core, for
// stores that follow soon, if CanPrefetchWrite. It does not wait for them, reads and changes
// nothing, and does not fault. Otherwise the processor ignores it.
//
//go:noescape
func PrefetchWrite(p *[4 * 64]byte)
