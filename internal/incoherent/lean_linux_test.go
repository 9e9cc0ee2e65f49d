package incoherent

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A lean side sees what others have written back when it invalidates, and poison when it looks again after
// Poison. Its own lines stay, and eviction loses nothing of them.
func TestLean(t *testing.T) {
	m := New(8*line, 1)
	a, err := m.Lean("a")
	require.NoError(t, err)
	defer a.Close()
	b, err := m.Lean("b")
	require.NoError(t, err)
	defer b.Close()
	a.Bytes()[3] = 7
	a.WriteBack(a.Bytes()[3:4])
	b.Invalidate(b.Bytes()[:8])
	require.EqualValues(t, 7, b.Bytes()[3])
	b.Poison()
	require.Equal(t, bytes.Repeat([]byte{poison}, line), b.Bytes()[:line])
	b.Invalidate(b.Bytes()[:8])
	require.EqualValues(t, 7, b.Bytes()[3], "read again")

	a.Invalidate(a.Bytes()[:8])
	a.Poison()
	require.EqualValues(t, 7, a.Bytes()[3], "its own line")
	a.Invalidate(a.Bytes()[2*line:][:8]) // nobody's line
	a.Bytes()[2*line] = 9
	a.Evict = rand.New(rand.NewPCG(1, 1))
	for range 50 {
		a.Bytes()[3]++
		a.WriteBack(a.Bytes()[:1])
	}
	require.EqualValues(t, 57, a.Bytes()[3])
	require.EqualValues(t, 9, a.Bytes()[2*line])
	b.WriteBack(b.Bytes()[:1])
	require.Equal(t, []string{"line 0x0 is written by a and by b"}, m.Faults())
}
