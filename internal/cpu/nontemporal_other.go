//go:build !amd64 || race

package cpu

// CanCopyNonTemporal reports whether CopyNonTemporal is anything else than copy.
const CanCopyNonTemporal = false

// CopyNonTemporal is copy. On amd64 it bypasses the caches, but not under the race
// detector, which cannot see stores in assembly.
func CopyNonTemporal(dst, src []byte) int { return copy(dst, src) }
