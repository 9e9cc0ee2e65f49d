//go:build !amd64 || race

package shm

// CanCopyPast reports whether CopyPast is anything else than copy.
const CanCopyPast = false

// CopyPast is copy. On amd64 it goes past the caches; the race detector cannot see
// that.
func CopyPast(dst, src []byte) int { return copy(dst, src) }
