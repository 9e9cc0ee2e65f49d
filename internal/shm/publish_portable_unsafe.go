//go:build race || !(amd64 || arm64)

package shm

import (
	"sync/atomic"
	"unsafe"
)

// Release stores here are those of the atomic package. This file is for other processors, and
// for the race detector, which cannot see assembly.

func storeRel32(p *uint32, v uint32) { atomic.StoreUint32(p, v) }

func storeRel64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func storeFirst64(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

func publishBlock(dst, src *[64]byte) {
	*(*[56]byte)(dst[:56]) = *(*[56]byte)(src[:56])
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&dst[56])), *(*uint64)(unsafe.Pointer(&src[56])))
}

func publishHead(dst, src *[64]byte) {
	word := func(b *[64]byte, i int) *uint64 { return (*uint64)(unsafe.Pointer(&b[i])) }
	atomic.StoreUint64(word(dst, 0), 0)
	for i := 8; i < len(dst); i += 8 {
		atomic.StoreUint64(word(dst, i), *word(src, i))
	}
	atomic.StoreUint64(word(dst, 0), *word(src, 0))
}
