package ring

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExtend(t *testing.T) {
	for _, c := range []struct {
		name string
		prev uint64
		lo   uint16
		want uint64
	}{
		{"nothing happened", 7, 7, 7},
		{"one further", 7, 8, 8},
		{"over the 16-bit end", 0xfffe, 1, 0x10001},
		{"at a later lap", 0x5_fffe, 0, 0x6_0000},
		{"as far as can be told", 5, 4, 0x10004},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, Extend(c.prev, c.lo)) })
	}
	require.Equal(t, uint64(0x100_0001), Extend24(0xff_fffe, 1))
	require.Equal(t, uint64(0x100_0001), Extend24(0xff_fffe, 0xab00_0001), "high bits do not count")
}

// Extend restores a count from its low bits, on any lap.
func TestExtendRestores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prev := rapid.Uint64Max(1<<63).Draw(t, "prev")
		ahead := rapid.Uint64Max(1<<16-1).Draw(t, "ahead")
		require.Equal(t, prev+ahead, Extend(prev, uint16(prev+ahead)))
		ahead = rapid.Uint64Max(Mask24).Draw(t, "ahead24")
		require.Equal(t, prev+ahead, Extend24(prev, uint32(prev+ahead)))
	})
}

func TestSlot(t *testing.T) {
	require.Equal(t, uint64(0), Slot(1<<20, 1))
	require.Equal(t, uint64(3), Slot(1<<20+3, 16))
	require.Equal(t, uint64(15), Slot(1<<20-1, 16))
}

func TestLog2(t *testing.T) {
	for n, want := range map[uint64]uint{1: 0, 2: 1, 64: 6, 1 << 15: 15} {
		got, err := Log2("x", n, 1<<15)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, n := range []uint64{0, 3, 1 << 16, 1<<15 + 1} {
		_, err := Log2("hostpath: ring of blocks", n, 1<<15)
		require.ErrorContains(t, err, "hostpath: ring of blocks")
		require.ErrorContains(t, err, "32768")
	}
}
