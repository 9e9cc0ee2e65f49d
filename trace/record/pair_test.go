package record

import (
	"math"
	"testing"

	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// Two queue pairs are connected, reset and connected again, one of them before the other is reset. Later
// another process has the number of one of them.
func TestPairsLives(t *testing.T) {
	process := func(first, last uint64) *process {
		return &process{reader: &rawReader{mono: first}, last: last}
	}
	here, later := process(0, 100), process(200, 300)
	a, b := &object{number: 1, process: here}, &object{number: 2, process: here}
	c := &object{number: 2, process: later}
	life := func(o *object, dest uint32, from, to uint64) *queue {
		return &queue{object: o, transport: trace.RC, dest: dest, from: from, to: to}
	}
	a1, a2 := life(a, 2, 0, 10), life(a, 2, 10, math.MaxUint64)
	b1, b2 := life(b, 1, 1, 13), life(b, 1, 13, math.MaxUint64)
	other := life(c, 1, 200, math.MaxUint64)
	never := life(a, 0, 0, 5)
	g := &gatherer{queues: []*queue{never, a1, a2, b1, b2, other}}
	g.pair(map[uint32][]*queue{1: {never, a1, a2}, 2: {other, b2, b1}})
	require.Same(t, b1, a1.peer)
	require.Same(t, a1, b1.peer)
	require.Same(t, b2, a2.peer)
	require.Same(t, a2, b2.peer)
	require.Nil(t, other.peer)
	require.Nil(t, never.peer)
}
