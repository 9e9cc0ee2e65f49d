package incoherent

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = 4096

func lean(t *testing.T, m *Memory, name string, own ...Span) *Side {
	s, err := m.Lean(name, own...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// twoLean returns the first page of a memory's, and the two after it.
func twoLean(t *testing.T) (m *Memory, a, b *Side) {
	m = New(4*page, 1)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m, lean(t, m, "a", Span{0, page}), lean(t, m, "b", Span{page, page}, Span{2 * page, page})
}

// A lean side sees what others have written back when it invalidates, and poison when it reads again after it
// has left. Its own lines stay, and eviction loses nothing of them.
func TestLean(t *testing.T) {
	m, a, b := twoLean(t)
	a.Enter()
	a.Bytes()[3] = 7
	a.WriteBack(a.Bytes()[3:4])
	a.Leave()
	b.Enter()
	b.Invalidate(b.Bytes()[:8])
	require.EqualValues(t, 7, b.Bytes()[3])
	b.Leave()
	require.Equal(t, bytes.Repeat([]byte{poison}, line), b.Bytes()[:line])
	b.Enter()
	b.Invalidate(b.Bytes()[:8])
	require.EqualValues(t, 7, b.Bytes()[3], "read again")
	b.Leave()

	a.Enter()
	a.Invalidate(a.Bytes()[:8])
	a.Leave()
	require.EqualValues(t, 7, a.Bytes()[3], "its own line")
	a.Enter()
	a.Invalidate(a.Bytes()[2*line:][:8])
	a.Bytes()[2*line] = 9 // and does not write it back
	a.Evict = rand.New(rand.NewPCG(1, 1))
	for range 50 {
		a.Bytes()[3]++
		a.WriteBack(a.Bytes()[:1])
	}
	require.EqualValues(t, 57, a.Bytes()[3])
	require.EqualValues(t, 9, a.Bytes()[2*line])
	a.Leave()
	b.Bytes()[2*page+5] = 5
	b.WriteBack(b.Bytes()[2*page:][:line])
	require.Empty(t, m.Faults())
	b.WriteBack(b.Bytes()[:1])
	require.Equal(t, []string{"line 0x0 is written by a and by b"}, m.Faults())
}

// A side that works in the middle of another one's work sees no line that the other has invalidated, and the
// other has its lines again, old as they are.
func TestLeanWithinLean(t *testing.T) {
	m, a, b := twoLean(t)
	c := lean(t, m, "c", Span{3 * page, page})
	write := func(v byte) {
		a.Bytes()[3] = v
		a.WriteBack(a.Bytes()[3:4])
	}
	write(7)
	b.Enter()
	b.Invalidate(b.Bytes()[:8])
	c.Enter()
	require.EqualValues(t, poison, c.Bytes()[3])
	write(8)
	c.Invalidate(c.Bytes()[:8])
	require.EqualValues(t, 8, c.Bytes()[3])
	c.Leave()
	require.EqualValues(t, 7, b.Bytes()[3], "as b has read it")
	b.Invalidate(b.Bytes()[:8])
	require.EqualValues(t, 8, b.Bytes()[3])
	b.Leave()
	require.EqualValues(t, poison, b.Bytes()[3])
}

// A lean side that restarts has nothing in its caches, and may write the same lines.
func TestLeanRestart(t *testing.T) {
	m, a, _ := twoLean(t)
	a.Bytes()[3] = 7
	a.WriteBack(a.Bytes()[3:4])
	require.NoError(t, a.Restart())
	require.Zero(t, a.Bytes()[3])
	a.Invalidate(a.Bytes()[3:4])
	require.EqualValues(t, 7, a.Bytes()[3])
	a.WriteBack(a.Bytes()[3:4])
	require.Empty(t, m.Faults())
}
