// Package ring is the arithmetic of ring buffers: counts that never end, in rings
// that do.
//
// Terms: a count numbers blocks, entries or completions since a queue was made
// and is 64 bits wide, so that it never wraps; its slot is the count modulo the
// queue's size, a power of two. On the wire only the low 16 bits of a count
// travel (WQE index, doorbell record, wqe_counter), or 24 (consumer index).
package ring

import (
	"fmt"
	"math/bits"
)

// Mask24 cuts a count to the 24 bits that a consumer index has on the wire.
const Mask24 = 1<<24 - 1

// Extend returns the first count at or after prev whose low 16 bits are lo. It
// is right as long as the true count is less than 1<<16 ahead of prev, which
// rings of at most 1<<15 blocks ensure.
func Extend(prev uint64, lo uint16) uint64 { return prev + uint64(lo-uint16(prev)) }

// Extend24 is Extend for the low 24 bits; those of lo above are ignored.
func Extend24(prev uint64, lo uint32) uint64 {
	return prev + uint64((lo-uint32(prev))&Mask24)
}

// Slot returns where count lies in a queue of size entries, a power of two.
func Slot(count uint64, size uint64) uint64 { return count & (size - 1) }

// Log2 returns the binary logarithm of n, which must be a power of two from
// 1 to limit. what names n in the error, as in "hostpath: send ring of blocks".
func Log2(what string, n, limit uint64) (uint, error) {
	if n == 0 || n > limit || n&(n-1) != 0 {
		return 0, fmt.Errorf("%s: %d; a power of two up to %d is possible", what, n, limit)
	}
	return uint(bits.TrailingZeros64(n)), nil
}
