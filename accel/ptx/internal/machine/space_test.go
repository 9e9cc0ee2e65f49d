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

// A multiprocessor has room for 64 warps, 32 blocks and 228 KiB of shared memory.
func TestResident(t *testing.T) {
	r := newRig(t, `.shared .b8 own[1024]; .entry k() { ret; } .entry few() .maxntid 64 { ret; }`)
	k, err := r.prog.Kernel("k")
	require.NoError(t, err)
	for threads, blocks := range map[int]int{
		-1: 0, 0: 0, 1: 32, 64: 32, 65: 21, 96: 21, 256: 8, 992: 2, 1024: 2, 1025: 0,
	} {
		require.Equal(t, blocks, k.Resident(threads, 0), "%d threads", threads)
	}
	for shared, blocks := range map[uint64]int{
		0: 32, 1: 32, 7 << 10: 25, 112 << 10: 2, 113 << 10: 1,
		226 << 10: 1, 226<<10 + 1: 0, math.MaxUint64: 0,
	} {
		require.Equal(t, blocks, k.Resident(32, shared), "%d bytes", shared)
	}
	few, err := r.prog.Kernel("few")
	require.NoError(t, err)
	require.Equal(t, []int{32, 0}, []int{few.Resident(64, 0), few.Resident(65, 0)})
}
