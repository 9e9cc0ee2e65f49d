package shm

import (
	"sync/atomic"
	"unsafe"
)

// Targets of RDMA atomics are words of payload memory in host order, which
// programs change by their own atomic instructions at the same time. These
// functions use such instructions too.

// maxTries bounds how long a word that somebody else keeps changing can hold
// its caller up.
const maxTries = 64

// Aligned reports whether b begins at an address that its length, 4 or 8, divides.
func Aligned(b []byte) bool { return address(b)&uint64(len(b)-1) == 0 }

// Update replaces the word in b, 4 or 8 bytes that are Aligned, by f of it in
// one atomic step, and returns what it was. False: others changed it so often
// meanwhile that it was given up; nothing was changed.
//
// f is called once per try and must not keep anything.
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

// Add adds v to the 8 bytes at b, which are Aligned, and returns what they were.
func Add(b []byte, v uint64) (old uint64) {
	return atomic.AddUint64((*uint64)(aligned(unsafe.Pointer((*[8]byte)(b)), 8)), v) - v
}

// CompareAndSwap replaces the 8 bytes at b, which are Aligned, by swap if they are
// compare, in one atomic step, and returns what they were. False as for Update.
func CompareAndSwap(b []byte, compare, swap uint64) (old uint64, ok bool) {
	p := (*uint64)(aligned(unsafe.Pointer((*[8]byte)(b)), 8))
	for range maxTries {
		if old = atomic.LoadUint64(p); old != compare || atomic.CompareAndSwapUint64(p, compare, swap) {
			return old, true
		}
	}
	return 0, false
}
