package shm

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
)

// An area has the bytes of its slice at the same offsets, and Copy moves as many as it is given, also if both
// overlap.
func TestArea(t *testing.T) {
	b := make([]byte, 64)
	for i := range b {
		b[i] = byte(i)
	}
	want := append([]byte(nil), b...)
	a := AreaOf(b)
	require.Equal(t, binary.NativeEndian.Uint64(want[5:]), a.From(3).Load(2))
	a.From(1).Store(10, a.Load(40))
	copy(want[11:19], want[40:48])
	require.Equal(t, want, b)
	for _, n := range []uint64{0, 1, 7, 20} {
		a.From(30).Copy(a.From(25), n)
		copy(want[30:], want[25:25+n])
		require.Equal(t, want, b)
	}
	block := new(Block)
	block.Area().From(56).Store(0, 7)
	require.Equal(t, byte(7), block[56]+block[63])
}
