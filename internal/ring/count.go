// Package ring is the arithmetic of ring buffers, with counts that never wrap.
//
// Terms: a count is the number of blocks, entries or completions since a queue was made. It is
// 64 bits wide, so that it never wraps. The slot of a count is the count modulo the queue's
// size, a power of two. The formats hold only the low bits of a count: 16 bits in a WQE index,
// a doorbell record and wqe_counter, 24 bits in a consumer index.
package ring

import (
	"fmt"
	"math/bits"
)

// Mask24 cuts a count to 24 bits, the width of a consumer index.
const Mask24 = 1<<24 - 1

// Extend returns the first count at or after prev whose low 16 bits are lo. This is the true
// count if the true count is less than 1<<16 ahead of prev. In rings it is, because they have at
// most 1<<15 blocks.
func Extend(prev uint64, lo uint16) uint64 { return prev + uint64(lo-uint16(prev)) }

// Extend24 is Extend for the low 24 bits. It ignores the bits of lo above them.
func Extend24(prev uint64, lo uint32) uint64 {
	return prev + uint64((lo-uint32(prev))&Mask24)
}

// Slot returns the slot of count in a queue of size entries; size is a power of two.
func Slot(count uint64, size uint64) uint64 { return count & (size - 1) }

// Log2 returns the binary logarithm of n. If n is not a power of two from 1 to limit, Log2
// returns an error. The argument what is the text before n in that error, for example
// "hostpath: send ring of blocks" in "hostpath: send ring of blocks: 3; a power of two up to
// 32768 is possible".
func Log2(what string, n, limit uint64) (uint, error) {
	if n == 0 || n > limit || n&(n-1) != 0 {
		return 0, fmt.Errorf("%s: %d; a power of two up to %d is possible", what, n, limit)
	}
	return uint(bits.TrailingZeros64(n)), nil
}
