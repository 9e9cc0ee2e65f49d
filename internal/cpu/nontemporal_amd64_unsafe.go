//go:build amd64 && !race

package cpu

import (
	"unsafe"

	features "golang.org/x/sys/cpu"
)

// CanCopyNonTemporal reports whether CopyNonTemporal differs from copy.
var CanCopyNonTemporal = features.X86.HasAVX

// copyNonTemporal needs a destination on a multiple of lineSize and copies a multiple of
// copyStep bytes.
const (
	lineSize = 64
	copyStep = 128
)

// CopyNonTemporal is copy with stores that bypass the caches. The processor does not read the
// destination's lines first, and other lines stay in the caches. When CopyNonTemporal returns,
// all its stores are ordered before those that the caller makes next.
func CopyNonTemporal(dst, src []byte) int {
	n := min(len(dst), len(src))
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(dst))) % lineSize)
	if !CanCopyNonTemporal || n < head+copyStep {
		return copy(dst, src)
	}
	end := head + (n-head)&^(copyStep-1)
	copy(dst[:head], src)
	copyNonTemporal(&dst[head], &src[head], uint64(end-head))
	copy(dst[end:n], src[end:n])
	return n
}

// copyNonTemporal copies n bytes, at least copyStep.
//
//go:noescape
func copyNonTemporal(dst, src *byte, n uint64)
