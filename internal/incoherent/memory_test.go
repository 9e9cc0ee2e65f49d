package incoherent

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A store of a side reaches another side if the one writes the line back and the other invalidates it
// after that.
func TestSidesSeeWhatWasWrittenBack(t *testing.T) {
	m := New(4*line, 1)
	a, b := m.Side("a", 2), m.Side("b", 3)
	old := b.Bytes()[70]
	a.Bytes()[70] = old + 1
	b.Invalidate(b.Bytes()[70:71])
	require.NotEqual(t, old+1, b.Bytes()[70], "not written back")
	a.WriteBack(a.Bytes()[60:71])
	require.NotEqual(t, old+1, b.Bytes()[70], "not invalidated")
	b.Invalidate(b.Bytes()[70:71])
	require.Equal(t, old+1, b.Bytes()[70])
	require.Equal(t, a.Bytes()[64:128], b.Bytes()[64:128], "lines are copied whole")
	require.NotEqual(t, a.Bytes()[:64], b.Bytes()[:64])
	require.Empty(t, m.Faults())
	require.Len(t, m.Sites(), 3)
	require.Regexp(t, `^invalidate memory_test.go:\d+$`, m.Sites()[0])
}

func TestFaults(t *testing.T) {
	m := New(4*line, 1)
	a, b := m.Side("a", 2), m.Side("b", 3)
	a.WriteBack(a.Bytes()[:1])
	b.WriteBack(b.Bytes()[:1])
	require.Equal(t, []string{"line 0x0 is written by a and by b"}, m.Faults())

	m = New(4*line, 1)
	a = m.Side("a", 2)
	a.Invalidate(a.Bytes())
	a.Bytes()[200]++
	a.Invalidate(a.Bytes())
	require.Equal(t, []string{"a invalidates line 0xc0, which has changes that were not written back"}, m.Faults())
	a.WriteBack(make([]byte, 1))
	require.Contains(t, m.Faults()[1], "bytes that are not in its memory")
}

// A host that restarts keeps its lines, but not what was in its caches.
func TestRestart(t *testing.T) {
	m := New(4*line, 1)
	a := m.Side("a", 2)
	a.WriteBack(a.Bytes()[:1])
	again := m.Side("a", 3)
	require.NotEqual(t, a.Bytes(), again.Bytes())
	again.WriteBack(again.Bytes()[:1])
	require.Empty(t, m.Faults())
}

// A cache may write changes back before the program does, and fetch lines anew.
func TestEvict(t *testing.T) {
	m := New(4*line, 1)
	a := m.Side("a", 2)
	a.Evict = rand.New(rand.NewPCG(1, 1))
	a.Bytes()[130] = ^a.Bytes()[130]
	want := a.Bytes()[130]
	for range 100 {
		a.Invalidate(a.Bytes()[:1])
	}
	var b [1]byte
	m.Read(130, b[:])
	require.Equal(t, want, b[0])
	require.Empty(t, m.Faults())
}
