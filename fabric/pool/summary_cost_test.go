package pool

import (
	"fmt"
	"testing"
	"time"

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

// Between hosts whose caches are not coherent, looks and summaries are written back and read anew.
func TestSummariesWithoutCoherence(t *testing.T) {
	w := newIncoherentWorld(t, 1)
	a, b := w.mustStart(Config{}), w.mustStart(Config{Node: 1})
	w.pass(10 * tick)
	for i := range 20 {
		before := b.pool.looked.Load()
		require.False(t, before)
		_, sequence, _ := a.pool.readSummary(b.pool.part, 0)
		require.NoError(t, a.pool.countLook())
		seen := false
		w.until(time.Second, func() bool {
			select {
			case <-b.pool.summarize:
				seen = true
			default:
			}
			return seen
		}, "the look is seen")
		want := fmt.Sprint("summary ", i)
		require.NoError(t, b.pool.putSummary(want))
		s, _, err := a.pool.readSummary(b.pool.part, sequence)
		require.NoError(t, err)
		require.Equal(t, want, s)
		require.Equal(t, b.guid, a.pool.engineAt(b.pool.part))
	}
	require.Empty(t, w.problems())
}
