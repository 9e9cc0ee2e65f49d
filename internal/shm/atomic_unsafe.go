package shm

import (
	"sync/atomic"
	"unsafe"
)

// Targets of RDMA atomics are words of payload memory in host order. Programs may change them
// at the same time with atomic instructions, so the functions here use such instructions too.

// maxTries is how often an operation tries while others change the word. It limits the time
// for which others can delay the caller.
const maxTries = 64

// Aligned reports whether b begins at an address that its length, 4 or 8, divides.
func Aligned(b []byte) bool { return address(b)&uint64(len(b)-1) == 0 }

// Update replaces the word in b by f(word) in one atomic step, and returns the old word. b is
// 4 or 8 bytes that are Aligned. If others have changed the word during all maxTries tries,
// Update changes nothing and returns false.
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

// CompareAndSwap compares the 8 bytes at b, which are Aligned, with the value compare. If they
// are equal, it replaces them by the value swap. It does so in one atomic step and returns the
// old value of the bytes. Like Update it returns false if others have changed the bytes too
// often.
func CompareAndSwap(b []byte, compare, swap uint64) (old uint64, ok bool) {
	p := (*uint64)(aligned(unsafe.Pointer((*[8]byte)(b)), 8))
	for range maxTries {
		if old = atomic.LoadUint64(p); old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old, true
		}
	}
	return 0, false
}
