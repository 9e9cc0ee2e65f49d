//go:build !amd64 || race

package cpu

// CanCopyNonTemporal reports whether CopyNonTemporal differs from copy.
const CanCopyNonTemporal = false

// CopyNonTemporal is copy in this build. On amd64 without the race detector it bypasses the
// caches. Under the race detector it does not, because the detector cannot see stores in
// assembly.
func CopyNonTemporal(dst, src []byte) int { return copy(dst, src) }
