package shm

import (
	"sync/atomic"
	"unsafe"
)

// Targets of RDMA atomics are words of payload memory in host order. Programs may change them
// at the same time by atomic instructions, so these functions use such instructions too.

// maxTries is after how many changes by others an operation gives up. It bounds how long
// they can hold up the caller.
const maxTries = 64

// Aligned reports whether b begins at an address that its length, 4 or 8, divides.
func Aligned(b []byte) bool { return address(b)&uint64(len(b)-1) == 0 }

// Update replaces the word in b, 4 or 8 bytes that are Aligned, by f(word) in one atomic step,
// and returns the old word. If others have changed the word too often meanwhile, it returns
// false and has changed nothing.
//
// f is called once for each try and must have no side effects.
func Update(b []byte, f func(old uint64) uint64) (old uint64, ok bool) {
	if len(b) == 4 {
		p := (*uint32)(aligned(unsafe.Pointer((*[4]byte)(b)), 4))
		for range maxTries {
			was := atomic.LoadUint32(p)
			if now := uint32(f(uint64(was))); atomic.CompareAndSwapUint32(p, was, now) {
				return uint64(was), true
			}
		}
		return 0, false
	}
	p := (*uint64)(aligned(unsafe.Pointer((*[8]byte)(b)), 8))
	for range maxTries {
		was := atomic.LoadUint64(p)
		if atomic.CompareAndSwapUint64(p, was, f(was)) {
			return was, true
		}
	}
	return 0, false
}

// Add adds v to the 8 bytes at b, which are Aligned, and returns their old value.
func Add(b []byte, v uint64) (old uint64) {
	return atomic.AddUint64((*uint64)(aligned(unsafe.Pointer((*[8]byte)(b)), 8)), v) - v
}

// CompareAndSwap replaces the 8 bytes at b, which are Aligned, by swap if they equal compare,
// in one atomic step, and returns their old value. It returns false as Update does.
func CompareAndSwap(b []byte, compare, swap uint64) (old uint64, ok bool) {
	p := (*uint64)(aligned(unsafe.Pointer((*[8]byte)(b)), 8))
	for range maxTries {
		if old = atomic.LoadUint64(p); old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old, true
		}
	}
	return 0, false
}
