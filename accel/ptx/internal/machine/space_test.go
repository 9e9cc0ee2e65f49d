package machine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// No memory is so large that its end has more than 64 bits, or is where functions are.
func TestSpaceBounds(t *testing.T) {
	var s Space
	for _, n := range []uint64{0, functionBase, 1<<62 + 1<<17, 1 << 63, math.MaxUint64} {
		require.ErrorIs(t, s.Add(firstAddress, n), ErrNoMemory, "%#x bytes", n)
	}
	require.ErrorIs(t, s.Add(firstAddress-1, 1), ErrNoMemory)
	require.NoError(t, s.Add(firstAddress, functionBase-firstAddress))
}

// As many blocks are resident as an H200 has room for: 64 warps and 32 blocks for each multiprocessor.
func TestResident(t *testing.T) {
	for threads, blocks := range map[int]int{1: 32, 64: 32, 65: 21, 96: 21, 256: 8, 992: 2, 1024: 2} {
		require.Equal(t, 132*blocks, Resident(threads), "%d threads", threads)
	}
}
