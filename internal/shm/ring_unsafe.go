package shm

import (
	"fmt"
	"unsafe"

	"github.com/nicless/nicless/internal/cpu"
)

// blockSize is the size of a Block in bytes.
const blockSize = int(unsafe.Sizeof(Block{}))

// A Ring is memory that consists of whole blocks, whose number is a power of two: a ring of WQEs,
// or one WQE. The zero Ring has no memory; its method At must not be called.
type Ring struct {
	first unsafe.Pointer
	mask  uint64 // number of blocks - 1
}

// RingOf returns b as blocks. It panics if b does not consist of blocks, does not begin on a
// 64-byte boundary, or if the number of blocks is not a power of two.
func RingOf(b []byte) Ring {
	n := len(b) / blockSize
	if n == 0 || n&(n-1) != 0 || len(b)%blockSize != 0 {
		panic(fmt.Sprintf("shm: %d bytes are not a power of two of blocks", len(b)))
	}
	return Ring{aligned(unsafe.Pointer(unsafe.SliceData(b)), uintptr(blockSize)), uint64(n - 1)}
}

// At returns the block with this index. Indices beyond the last block begin again at the first.
// There is nothing to check, so At is cheaper than BlockAt.
func (r Ring) At(index uint64) *Block {
	return (*Block)(unsafe.Add(r.first, index&r.mask*uint64(blockSize)))
}

// Copy copies the n blocks from index on to another ring, where they get the same indices. n is at most the
// number of blocks of either ring.
func (r Ring) Copy(to Ring, index, n uint64) {
	for n > 0 {
		k := min(n, r.mask+1-index&r.mask, to.mask+1-index&to.mask)
		size := k * uint64(blockSize)
		copy(unsafe.Slice(&to.At(index)[0], size), unsafe.Slice(&r.At(index)[0], size))
		index, n = index+k, n-k
	}
}

// Prefetch starts to bring n blocks from index on into the cache of this core, for loads that follow
// soon. It reads and changes nothing.
func (r Ring) Prefetch(index, n uint64) {
	for n > 0 {
		k := min(n, r.mask+1-index&r.mask)
		cpu.PrefetchLines((*byte)(unsafe.Pointer(r.At(index))), k)
		index, n = index+k, n-k
	}
}
