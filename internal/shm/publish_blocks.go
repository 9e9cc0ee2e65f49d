package shm

import (
	"encoding/binary"
	"math/bits"
)

// PublishBlocks writes n consecutive blocks at the beginning of b, or fewer if b or the page of
// the first block ends before. It returns how many it wrote. It never writes beyond one page: if
// that page is missing and a store faults, no block has been written.
//
// The eight words of a block are 0, 0, 0, w3, w4, w5, w6 and the tail, which are stored as
// big-endian numbers. From block to block the tail grows by step. The tail of a block becomes
// visible after the rest of the block. PublishBlocks panics if b does not begin with a block: see
// BlockAt.
func PublishBlocks(b []byte, n int, w3, w4, w5, w6, tail, step uint64) int {
	first := BlockAt(b, 0)
	n = min(n, len(b)/blockSize, int(PageSize-address(b)%PageSize)/blockSize)
	if wideStores && n > 0 {
		publishBlocks(first, uint64(n), bits.ReverseBytes64(w3), bits.ReverseBytes64(w4),
			bits.ReverseBytes64(w5), bits.ReverseBytes64(w6), tail, step)
		return n
	}
	le := binary.LittleEndian
	for i := range n {
		p := BlockAt(b, uint64(i*blockSize))
		*(*[24]byte)(p[:24]) = [24]byte{}
		le.PutUint64(p[24:32], bits.ReverseBytes64(w3))
		le.PutUint64(p[32:40], bits.ReverseBytes64(w4))
		le.PutUint64(p[40:48], bits.ReverseBytes64(w5))
		le.PutUint64(p[48:56], bits.ReverseBytes64(w6))
		p.PublishTail(tail)
		tail += step
	}
	return n
}
