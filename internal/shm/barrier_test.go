package shm

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each side stores its word and then loads the other side's word. Only one side has a barrier
// between the store and the load. It never happens that both sides load the old value.
func TestBarrier(t *testing.T) {
	if !CanBarrier() {
		t.Skip("no membarrier here")
	}
	require.NoError(t, JoinBarrier())
	const rounds = 20_000
	mine, theirs := twoViews(t, PageSize)
	var round, answered atomic.Uint64
	var saw uint64
	var done sync.WaitGroup
	done.Go(func() {
		for n := uint64(1); n <= rounds; n++ {
			waitFor(func() bool { return round.Load() == n })
			Word64At(theirs, 0).Publish(n)
			saw = Word64At(theirs, 64).Observe()
			answered.Store(n)
		}
	})
	missed := 0
	for n := uint64(1); n <= rounds; n++ {
		round.Store(n)
		Word64At(mine, 64).Publish(n)
		require.NoError(t, Barrier())
		looked := Word64At(mine, 0).Observe()
		waitFor(func() bool { return answered.Load() == n })
		if looked != n && saw != n {
			missed++
		}
	}
	done.Wait()
	require.Zero(t, missed, "of %d rounds", rounds)
}
