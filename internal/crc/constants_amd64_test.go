package crc

import (
	"hash/crc32"
	"math/bits"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// The constants of fold_amd64.s are powers of x modulo the polynomial of the CRC, the polynomial, and x^64
// divided by it, with the bits in the order of the CRC.
func TestConstants(t *testing.T) {
	power := func(n int) uint64 {
		p := uint32(1) // bit 0 is the coefficient of x^0
		for range n {
			p = p<<1 ^ p>>31*bits.Reverse32(crc32.IEEE)
		}
		return uint64(bits.Reverse32(p)) << 1
	}
	polynomial := 1<<32 | uint64(bits.Reverse32(crc32.IEEE))
	quotient, rest := uint64(0), uint64(0)
	for n := 64; n >= 0; n-- {
		rest <<= 1
		if n == 64 {
			rest |= 1
		}
		quotient <<= 1
		if rest>>32 != 0 {
			rest ^= polynomial
			quotient |= 1
		}
	}
	reversed := func(p uint64) uint64 { return bits.Reverse64(p) >> 31 } // of 33 bits
	source, err := os.ReadFile("fold_amd64.s")
	require.NoError(t, err)
	var found []uint64
	for _, m := range regexp.MustCompile(`(?m)^DATA .*\$(\w+)`).FindAllSubmatch(source, -1) {
		v, err := strconv.ParseUint(string(m[1]), 0, 64)
		require.NoError(t, err)
		found = append(found, v)
	}
	require.Equal(t, []uint64{
		power(1024 + 32), power(1024 - 32), power(128 + 32), power(128 - 32), power(64), 0,
		reversed(polynomial), reversed(quotient),
	}, found)
}
