//go:build !race

package shm

import "golang.org/x/sys/cpu"

// CanCopyPast reports whether CopyPast is anything else than copy.
var CanCopyPast = cpu.X86.HasAVX

// pastLine and pastStep are what copyPast takes: a target on a multiple of the
// one, so many bytes of the other.
const (
	pastLine = 64
	pastStep = 128
)

// CopyPast is copy by stores that go past the caches: nothing is read that is
// written over, and what others have in the caches stays there. When it returns,
// everything is stored, before whatever is published next.
func CopyPast(dst, src []byte) int {
	n := min(len(dst), len(src))
	head := int(-address(dst) % pastLine)
	if !CanCopyPast || n < head+pastStep {
		return copy(dst, src)
	}
	end := head + (n-head)&^(pastStep-1)
	copy(dst[:head], src)
	copyPast(&dst[head], &src[head], uint64(end-head))
	copy(dst[end:n], src[end:n])
	return n
}

// copyPast copies n bytes, at least one step.
//
//go:noescape
func copyPast(dst, src *byte, n uint64)
