package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A look reads what all nodes have written in each tick, 1,023 of them: no memory is taken for what has not
// changed.
func TestLooksTakeNoMemory(t *testing.T) {
	w := newWorld(t, 1)
	p := w.mustStart(Config{Nodes: 4}).pool
	require.NoError(t, p.putSummary("something"))
	_, sequence, err := p.readSummary(p.part, 0)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _, _ = p.readSummary(p.part, sequence) }))
}

// A number is another engine's now. The figures of that one are not those of the engine before.
func TestSummaryOfAnotherEngine(t *testing.T) {
	w := newWorld(t, 1)
	w.byNeed = true
	a, b := w.mustStart(Config{Nodes: 4}), w.mustStart(Config{Node: 1, Nodes: 4})
	w.pass(10 * tick)
	require.NoError(t, b.pool.putSummary("of b"))
	look := seenSummary{guid: b.guid, part: b.pool.part, missing: true}
	require.NoError(t, b.pool.Close())
	w.kill(b)
	c := w.make(Config{Node: 1, Nodes: 4, Dead: soonDead})
	c.guid = 77
	require.NoError(t, c.pool.start(t.Context()))
	require.NoError(t, c.pool.putSummary("of c"))
	all := make(map[uint64]string)
	a.pool.take(all, &look)
	require.Empty(t, all)
}
