package shm

import (
	"fmt"
	"unsafe"
)

// blockSize is the size of a Block in bytes.
const blockSize = int(unsafe.Sizeof(Block{}))

// Blocks is memory that consists of whole blocks, whose number is a power of two: a ring of WQEs,
// or one WQE. The zero Blocks has no memory; its method At must not be called.
type Blocks struct {
	first unsafe.Pointer
	mask  uint64 // number of blocks - 1
}

// BlocksOf returns b as blocks. It panics if b does not consist of blocks, does not begin on a
// 64-byte boundary, or if the number of blocks is not a power of two.
func BlocksOf(b []byte) Blocks {
	n := len(b) / blockSize
	if n == 0 || n&(n-1) != 0 || len(b)%blockSize != 0 {
		panic(fmt.Sprintf("shm: %d bytes are not a power of two of blocks", len(b)))
	}
	return Blocks{aligned(unsafe.Pointer(unsafe.SliceData(b)), uintptr(blockSize)), uint64(n - 1)}
}

// At returns the block with this index. Indices beyond the last block begin again at the first.
// There is nothing to check, so At is cheaper than BlockAt.
func (s Blocks) At(index uint64) *Block {
	return (*Block)(unsafe.Add(s.first, index&s.mask*uint64(blockSize)))
}
