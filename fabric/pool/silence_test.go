package pool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stand lets time pass in which no node runs, as on a stopped host.
func (w *world) stand(d time.Duration) { w.now = w.now.Add(d) }

// Nodes that all stood still find each other as they were: nobody was silent while others ran.
func TestStallOfAllIsNoSilence(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	since := [2]time.Time{a.link(1).since, b.link(0).since}
	for range 5 {
		w.stand(3 * soonDead)
		w.pass(5 * tick)
	}
	require.Equal(t, since, [2]time.Time{a.link(1).since, b.link(0).since}, "the links stayed up")
	works(t, w, a, b)
}

// Silence is found while this node runs, however seldom it does: two ticks of each gap count.
func TestSilenceOnABusyHost(t *testing.T) {
	w := newWorld(t, 1)
	a, _ := couple(t, w)
	w.kill(w.nodes[1])
	a.loops() // sees the last beat
	looks := 0
	for ; a.up(1); looks++ {
		require.LessOrEqual(t, looks, int(soonDead/mostGap)+1)
		w.stand(10 * tick)
		a.loops()
	}
	require.Equal(t, int(soonDead/mostGap)+1, looks)
}

// A node that starts does not take a living node for dead because both of them stood still.
func TestStallWhileNumberIsClaimed(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	second := w.make(Config{Node: 1})
	second.pool.time = &stalling{worldTimer: worldTimer{w, second}}
	require.ErrorContains(t, second.pool.start(t.Context()), "node 1 lives already")
	works(t, w, a, b)
}

// stalling is a clock with a stall of all nodes in the first sleep.
type stalling struct {
	worldTimer
	stood bool
}

func (t *stalling) Sleep(ctx context.Context, d time.Duration) error {
	if !t.stood {
		t.stood = true
		t.w.stand(3 * soonDead)
		return nil
	}
	return t.worldTimer.Sleep(ctx, d)
}
