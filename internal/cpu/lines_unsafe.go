//go:build amd64 || arm64

package cpu

import "unsafe"

// LineSize is the size in bytes of the cache lines that WriteBackLines and InvalidateLines work
// on. CanFlushLines says whether this machine has such lines.
const LineSize = 64

// WriteBackLines writes the cache lines that b touches back to memory. Stores that the caller
// makes next become visible after them.
func WriteBackLines(b []byte) {
	if p, n := linesOf(b); n != 0 {
		writeBack(p, n)
	}
}

// InvalidateLines drops the cache lines that b touches, so that the caller's next loads read
// memory. A line that this machine has changed is written back first. Loads that the caller has
// made before are complete when the first line is dropped, because such a load may have said
// that the lines are worth reading.
func InvalidateLines(b []byte) {
	if p, n := linesOf(b); n != 0 {
		invalidate(p, n)
	}
}

// linesOf returns the first byte of the first line that b touches, and the number of lines.
func linesOf(b []byte) (first *byte, lines uint64) {
	if len(b) == 0 {
		return nil, 0
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	skip := uintptr(p) % LineSize
	return (*byte)(unsafe.Add(p, -int(skip))), uint64(skip+uintptr(len(b))+LineSize-1) / LineSize
}
