package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A jumpy clock is ahead of that of the world, or behind it.
type jumpyClock struct {
	worldTimer
	off time.Duration
}

func (c *jumpyClock) Now() time.Time { return c.worldTimer.Now().Add(c.off) }

// The clock of a node jumps, forwards and back, as that of a virtual machine can that is moved to another
// host. Its links stay up, and another node that dies and comes back is found as soon as before.
func TestClockOfANodeJumps(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 3, Config{})
	c := &jumpyClock{worldTimer: worldTimer{w, n[1]}}
	n[1].pool.time = c
	talk(t, w, n[0], n[1])
	for _, jump := range []time.Duration{
		time.Second, -time.Second, 10 * time.Hour, -20 * time.Hour, -time.Minute, 30 * time.Hour,
	} {
		talk(t, w, n[1], n[2])
		c.off += jump
		w.pass(5 * tick)
		w.kill(n[2])
		w.until(2*soonDead, func() bool { return !n[1].link(2).alive }, "the death is found")
		n[2] = w.mustStart(Config{Node: 2})
		w.until(2*firstRest, func() bool { return n[1].link(2).alive }, "the other node is back")
		w.pass(2 * firstRest)
		same(t, w, n[0], n[1])
	}
	talk(t, w, n[1], n[2])
}

// A pool has as many nodes as it can have. One more is refused, with words, and none of the others notices.
// It gets the number of one that leaves. Of most nodes only the heartbeats run here.
func TestOneNodeTooMany(t *testing.T) {
	cfg := Config{Nodes: MaxNodes, Slots: 8, Data: 4096, MTU: 256, Dead: defaultDead}
	w := newSizedWorld(t, 1, MaxNodes*(160<<10)+1<<12)
	w.byNeed = true
	all := make([]*node, MaxNodes)
	for i := range all {
		cfg.Node = i
		all[i] = w.make(cfg)
		require.NoError(t, all[i].pool.prepareAndJoin())
	}
	w.nodes = []*node{all[0], all[MaxNodes-1]}
	next := func() (*node, error) {
		n := w.make(Config{Node: AnyNode})
		n.pool.time = hookedTimer{worldTimer{w, n}, func() {
			for _, o := range all {
				o.pool.tick()
			}
		}}
		return n, n.pool.start(t.Context())
	}
	talk(t, w, all[0], all[MaxNodes-1])
	_, err := next()
	require.EqualError(t, err, "all 1024 numbers are taken by nodes that live; end some of these engines, or format a pool for more (nodes=, at most 1024)")
	same(t, w, all[0], all[MaxNodes-1])
	for _, n := range all {
		require.Zero(t, n.pool.repairs, "nobody has written where it writes")
	}
	require.NoError(t, all[7].pool.Close())
	one, err := next()
	require.NoError(t, err)
	require.Equal(t, 7, one.pool.number)
}
