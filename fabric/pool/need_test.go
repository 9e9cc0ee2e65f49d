package pool

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/nic"
)

// needWorld is a world in which rings are opened only when a test asks for a path.
func needWorld(t *testing.T, seed uint64, size int, nodes int, cfg Config) (*world, []*node) {
	w := newSizedWorld(t, seed, size)
	w.byNeed, w.checked = true, true
	var all []*node
	for i := range nodes {
		c := cfg
		c.Node, c.Nodes = i, max(cfg.Nodes, nodes)
		all = append(all, w.mustStart(c))
	}
	w.pass(2 * tick)
	return w, all
}

// talk asks for a path until it is up, and checks that packets travel.
func talk(t *testing.T, w *world, a, b *node) {
	t.Helper()
	w.until(time.Second, func() bool {
		_, ok := a.pool.Route(nic.Address{GUID: b.guid})
		return ok && a.link(b.number).up && b.link(a.number).up
	}, fmt.Sprintf("nodes %d and %d: %s", a.number, b.number, w.describe()))
	pa, pb := a.link(b.number).pair.port.(*port), b.link(a.number).pair.port.(*port)
	ga, gb := pa.got, pb.got
	w.until(time.Second, func() bool { return pa.got > ga+10 && pb.got > gb+10 }, "packets arrive")
	require.Empty(t, w.problems())
}

// Nodes know each other without rings, and have them as soon as one needs a path to the other.
func TestRingsByNeed(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 4, Config{})
	for _, a := range n {
		require.Len(t, a.pool.Peers(), 3)
		for _, p := range a.pool.Peers() {
			require.True(t, p.Up, p.Why)
		}
		require.Empty(t, a.ports)
		require.Len(t, a.pool.Ports(), 3, "their InfiniBand ports are known")
	}
	path, ok := n[0].pool.Route(nic.Address{LID: 102})
	require.True(t, ok)
	require.Nil(t, path.Port, "the rings are being opened")
	require.Equal(t, n[0].pool.mtu(), path.MTU)
	talk(t, w, n[0], n[2])
	path, ok = n[0].pool.Route(nic.Address{LID: 102})
	require.True(t, ok)
	require.Equal(t, n[0].ports[0], path.Port)
	require.Len(t, n[2].ports, 1)
	require.Empty(t, n[1].ports)
	require.Empty(t, n[3].ports)
}

// Rings that nobody has used for some time are given back, and opened again by need. Queue pairs keep them,
// those of the other node too.
func TestRingsAreGivenBack(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 3, Config{})
	free := n[0].pool.share.pages()
	talk(t, w, n[0], n[1])
	w.quiet = true
	n[1].ports[0].queuePairs = 1
	w.pass(2*quietTime + 2*lookTime)
	require.True(t, n[0].up(1), "a queue pair of the other node uses them")
	n[1].ports[0].queuePairs = 0
	w.until(quietTime+3*lookTime, func() bool { return n[0].link(1).pair == nil && n[1].link(0).pair == nil }, "they are given back")
	w.pass(2 * tick)
	require.Equal(t, free, n[0].pool.share.pages(), "all memory is free again")
	require.Equal(t, free, n[1].pool.share.pages())
	require.Empty(t, n[0].open())
	require.True(t, n[0].pool.Peers()[0].Up)
	w.quiet = false
	talk(t, w, n[0], n[1])
	w.pass(quietTime + 2*lookTime)
	require.True(t, n[0].up(1), "packets travel")
}

// Rings are given back within a bound, wherever between two looks at their use the last packet came: the next
// look sees that packet up to quietTime later, and quietTime without packets begins there.
func TestRingsAreGivenBackInTime(t *testing.T) {
	const pauses = 10
	for i := range time.Duration(pauses) {
		w, n := needWorld(t, 1, 1<<20, 3, Config{})
		talk(t, w, n[0], n[1])
		w.quiet = true
		n[1].ports[0].queuePairs = 1
		w.pass(2*quietTime + i*quietTime/pauses)
		w.quiet = false
		talk(t, w, n[0], n[1])
		w.quiet = true
		n[1].ports[0].queuePairs = 0
		w.until(2*quietTime+lookTime+10*tick, func() bool { return n[0].link(1).pair == nil && n[1].link(0).pair == nil },
			"they are given back")
	}
}

// A node without room for a further ring says so, as do the others, and its running links do not notice. A
// node that only answers keeps one ring for its own queue pairs.
func TestNoRoom(t *testing.T) {
	const nodes = 8
	const part = 16384 + 3*8192 // a node's own pages, and three rings
	w, n := needWorld(t, 1, partsAt+nodes*part, nodes, Config{Slots: 8, Data: 4096, MTU: 256})
	room := n[0].pool.header.room()
	require.Equal(t, 3, room)
	for i := 1; i < room; i++ {
		talk(t, w, n[i], n[0])
	}
	last := n[room]
	_, ok := last.pool.Route(nic.Address{GUID: n[0].guid})
	require.True(t, ok)
	w.pass(10 * tick)
	require.Contains(t, last.pool.Why(nic.Address{GUID: n[0].guid}), "node 0 has not begun the link")
	require.Contains(t, n[0].link(room).why, "this node's part of the pool has no room for a further ring: each part has")
	require.Nil(t, n[0].link(room).pair)

	w.pass(quietTime)
	talk(t, w, n[0], n[nodes-1])
	require.Zero(t, n[0].pool.share.room(pagesOf(n[0].pool.header.ring)))
	_, ok = n[0].pool.Route(nic.Address{GUID: n[5].guid})
	require.True(t, ok)
	_, ok = n[6].pool.Route(nic.Address{GUID: n[0].guid})
	require.True(t, ok)
	w.pass(10 * tick)
	require.Contains(t, n[0].pool.Why(nic.Address{GUID: n[5].guid}), "has no room for a further ring")
	require.Contains(t, n[6].pool.Why(nic.Address{GUID: n[0].guid}), "node 0 has no room for a further ring in its part of the pool; a larger pool (size=)")
	require.True(t, n[0].up(1))
	require.EqualValues(t, 1, n[0].link(1).pair.port.(*port).run, "running links do not notice")
	require.Empty(t, w.problems())
}

// A ring that is full grows, while packets travel and a node is killed and comes back.
func TestRingsGrow(t *testing.T) {
	w, n := needWorld(t, 1, 8<<20, 2, Config{Slots: 8, Data: 4096, MTU: 1024})
	talk(t, w, n[0], n[1])
	for _, a := range n {
		a.ports[0].greedy = true
	}
	w.until(2*time.Second, func() bool {
		a, b := n[0].link(1).pair, n[1].link(0).pair
		return a.growth.ring.Data == mostData && b.growth.ring.Data == mostData && len(a.growth.old)+len(b.growth.old) == 0
	}, "both rings have grown")
	talk(t, w, n[0], n[1])
	require.EqualValues(t, 1, n[0].ports[0].run, "the link was up all the time")
	pages := n[0].pool.header.pages()
	require.Equal(t, pages-pagesOf(n[0].link(1).pair.growth.ring), n[0].pool.share.pages(), "the smaller rings are free again")

	n[1].paused = true
	w.until(time.Second, func() bool { return !n[0].up(1) }, "it is down")
	n[1].paused = false
	talk(t, w, n[0], n[1])
	w.kill(n[1])
	n[1] = w.mustStart(Config{Node: 1})
	talk(t, w, n[0], n[1])
}

// Nodes that are given no number take free ones, each its own, however many start at one time. The first one
// formats the pool.
func TestNumbersAreTaken(t *testing.T) {
	for seed := range uint64(5) {
		w := newSizedWorld(t, seed, 2<<20)
		w.byNeed = true
		const count = 12
		all := make([]*node, count)
		for i := range all {
			all[i] = w.make(Config{Node: AnyNode, Nodes: 16, Slots: 8, Data: 4096, MTU: 256, Dead: soonDead})
			all[i].guid = uint64(0xabc0 + i)
		}
		// Each of them starts while the one before is in the middle of its start.
		var start func(i int) error
		start = func(i int) error {
			begun := false
			all[i].pool.time = hookedTimer{worldTimer{w, all[i]}, func() {
				if !begun && i+1 < count {
					begun = true
					require.NoError(t, start(i+1))
				}
			}}
			err := all[i].pool.start(context.Background())
			all[i].number = all[i].pool.number
			w.nodes = append(w.nodes, all[i])
			return err
		}
		require.NoError(t, start(0), "seed %d", seed)
		w.pass(10 * tick)
		taken := map[int]bool{}
		for _, n := range all {
			require.False(t, taken[n.pool.number], "seed %d: number %d twice", seed, n.pool.number)
			taken[n.pool.number] = true
			require.Empty(t, n.pool.lost)
			require.Len(t, n.pool.Peers(), count-1)
		}
		talk(t, w, all[0], all[count-1])
	}
}

// If all numbers are taken, those of dead nodes are taken again, and none of a node that lives.
func TestNumbersOfDeadNodes(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 3, Config{})
	_, err := w.start(Config{Node: AnyNode})
	require.EqualError(t, err, "all 3 numbers are taken by nodes that live; end some of these engines, or format a pool for more (nodes=, at most 1024)")
	w.kill(n[1])
	b := w.mustStart(Config{Node: AnyNode})
	require.Equal(t, 1, b.pool.number)
	require.NoError(t, n[2].pool.Close())
	w.kill(n[2])
	c := w.mustStart(Config{Node: AnyNode})
	require.Equal(t, 2, c.pool.number)
	b.number, c.number = 1, 2
	talk(t, w, b, c)
}

// A node whose number was taken while it stood still takes another one, if it was given none.
func TestNumberIsChanged(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 1, Config{Nodes: 4})
	b := w.mustStart(Config{Node: AnyNode})
	was := b.pool.number
	b.paused = true
	c := w.mustStart(Config{Node: was, Name: "next"})
	b.paused = false
	w.until(2*time.Second, func() bool { return b.pool.lost == "" && b.pool.number != was }, "another number")
	b.number = b.pool.number
	w.pass(4 * tick)
	talk(t, w, n[0], c)
	talk(t, w, n[0], b)
}

// Nodes on two hosts use no rings unless somebody has said what the caches do.
func TestTwoHosts(t *testing.T) {
	for _, row := range []struct {
		cfg Config
		ok  bool
	}{{Config{}, false}, {Config{Coherent: true}, true}, {Config{Incoherent: true}, true}} {
		w := newSizedWorld(t, 1, 1<<20)
		w.byNeed = true
		row.cfg.Nodes = 2
		var n [2]*node
		for i := range n {
			row.cfg.Node = i
			n[i] = w.make(row.cfg)
			n[i].pool.host = uint64(i + 1)
			n[i].pool.view.cache = nothing{}
			require.NoError(t, n[i].pool.start(context.Background()))
			w.nodes = append(w.nodes, n[i])
		}
		w.pass(4 * tick)
		if row.ok {
			talk(t, w, n[0], n[1])
			continue
		}
		_, ok := n[0].pool.Route(nic.Address{GUID: n[1].guid})
		require.False(t, ok)
		require.Equal(t, "node 1 is on another host, and nothing says that caches of different hosts are coherent: format the pool with coherence=none, or with coherence=full if the hardware keeps them coherent", n[0].pool.Why(nic.Address{GUID: n[1].guid}))
	}
}

// nothing is the cache of coherent memory.
type nothing struct{}

func (nothing) WriteBack([]byte)  {}
func (nothing) Invalidate([]byte) {}

// Memory that is not blank may contain what looks like pairs of a node. They are taken out before the node
// joins.
func TestGarbageLooksLikeAPair(t *testing.T) {
	w := newIncoherentWorld(t, 1)
	a := w.mustStart(Config{Node: 0})
	h := a.pool.header
	var word [8]byte
	be.PutUint64(word[:], 1<<48|3<<40) // node 0
	for i := range h.pairs() {
		w.mem.Write(int(h.pairAt(1, i)+peerAt), word[:])
	}
	b := w.mustStart(Config{Node: 1})
	w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "they meet")
	works(t, w, a, b)
}
