package pool

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/explore"
)

// ticksIn returns how often the node's heartbeat has moved in some time.
func (n *node) ticksIn(d time.Duration) int {
	before := n.pool.life.heartbeat
	n.w.pass(d)
	return int(n.pool.life.heartbeat - before)
}

// idleWorld is a world of nodes for which nothing has happened for long.
func idleWorld(t *testing.T, nodes int) (*world, []*node) {
	w, n := needWorld(t, 1, 8<<20, nodes, Config{Dead: defaultDead, Nodes: nodes + 2})
	w.paced = true
	w.pass(briskTime + 2*idleTick)
	for _, a := range n {
		require.InDelta(t, time.Second/idleTick, a.ticksIn(time.Second), 1)
	}
	return w, n
}

// A node that starts among idle nodes is known to all of them in time, and each gets its rings.
func TestIdleNodesSeeANewOne(t *testing.T) {
	w, n := idleWorld(t, 4)
	c := w.make(Config{Node: 4, Dead: defaultDead})
	require.NoError(t, c.pool.prepareAndJoin())
	w.nodes = append(w.nodes, c)
	w.until(200*time.Millisecond, func() bool {
		for _, a := range n {
			if !a.link(4).alive || a.link(4).why != "" || !c.link(a.number).alive {
				return false
			}
		}
		return true
	}, "all know it")
	require.InDelta(t, time.Second/tick, n[0].ticksIn(time.Second), 1, "they look often for some time")
	talk(t, w, n[0], c)
	talk(t, w, c, n[1])
}

// Nodes with rings that are up are idle too. Rings are opened while nodes are idle.
func TestIdleNodesOpenRings(t *testing.T) {
	w, n := idleWorld(t, 4)
	began := w.now
	talk(t, w, n[0], n[1])
	require.LessOrEqual(t, w.now.Sub(began), 2*idleTick+5*tick)
	n[0].ports[0].queuePairs = 1
	w.pass(briskTime + 2*idleTick)
	require.True(t, n[1].up(0))
	require.InDelta(t, time.Second/idleTick, n[1].ticksIn(time.Second), 1)
	works(t, w, n[0], n[1])
}

// A death is found by idle nodes within the time that was asked for, one pause and a tick, and no node that
// lives is taken for dead.
func TestIdleNodesFindADeath(t *testing.T) {
	w, n := idleWorld(t, 4)
	w.kill(n[3])
	w.pass(defaultDead - 2*idleTick)
	require.True(t, n[0].link(3).alive)
	w.until(3*idleTick+2*tick, func() bool { return !n[0].link(3).alive && !n[1].link(3).alive }, "it is found")
	for range 100 {
		w.pass(idleTick)
		require.True(t, n[0].link(1).alive && n[1].link(2).alive && n[2].link(0).alive)
	}
}

// No node beats so slowly that another one, which takes nodes for dead sooner, takes it for dead.
func TestImpatientNode(t *testing.T) {
	w, n := idleWorld(t, 3)
	c := w.mustStart(Config{Node: 3, Dead: leastDead})
	w.pass(2 * idleTick)
	since := c.link(0).born
	for range 200 {
		w.pass(tick)
		require.True(t, c.link(0).alive && c.link(1).alive && c.link(2).alive)
	}
	require.Equal(t, since, c.link(0).born)
	require.InDelta(t, time.Second/tick, n[0].ticksIn(time.Second), 1)
	w.kill(c)
	w.pass(2*defaultDead + briskTime)
	require.InDelta(t, time.Second/idleTick, n[0].ticksIn(time.Second), 1)
}

// A node that looks for a number does not take that of an idle node, however impatient it is.
func TestNumbersOfIdleNodes(t *testing.T) {
	w, _ := idleWorld(t, 4)
	for range 2 {
		w.mustStart(Config{Node: AnyNode, Dead: defaultDead})
	}
	w.pass(briskTime + 2*idleTick)
	w.late = 2 * tick
	_, err := w.start(Config{Node: AnyNode, Dead: leastDead})
	require.ErrorContains(t, err, "all 6 numbers are taken by nodes that live")
}

// A node that starts in an idle rack is known to all within 200 ms after it has joined, wherever in their
// pauses the others are, and knows them a look at all and a slow beat later.
func TestIdleRackKnowsANewNode(t *testing.T) {
	nodes := explore.Rounds(64, 1000)
	w := newSizedWorld(t, 1, (nodes+1)<<20+4096)
	w.byNeed, w.paced = true, true
	join := func(number int) *node {
		n := w.make(Config{Node: number, Nodes: nodes + 1, Dead: defaultDead})
		require.NoError(t, n.pool.prepareAndJoin())
		w.nodes = append(w.nodes, n)
		return n
	}
	for i := range nodes {
		join(i)
	}
	w.pass(briskTime + 500*time.Millisecond)
	old := slices.Clone(w.nodes)
	for _, n := range old {
		require.Equal(t, idleTick, n.pool.pace.pause)
		n.ran = w.now.Add(-time.Duration(w.rng.IntN(int(idleTick/tick))) * tick)
	}
	began := w.now
	c := join(nodes)
	lives := func(n *node, to int) bool { return n.pool.links[to] != nil && n.link(to).alive }
	w.until(200*time.Millisecond, func() bool {
		return !slices.ContainsFunc(old, func(n *node) bool { return !lives(n, c.number) })
	}, "all know it")
	t.Logf("%d idle nodes know a new one after %v", nodes, w.now.Sub(began))
	turns := time.Duration(nodes/lookAt + 1)
	w.until(turns*tick+idleTick+2*tick, func() bool {
		return !slices.ContainsFunc(old, func(n *node) bool { return !lives(c, n.number) })
	}, "it knows all")
	t.Logf("it knows them after %v", w.now.Sub(began))
}
