package pool

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/nic"
)

// A ring that has grown into the first page of a part does not look as if it stood still.
func TestGrowToTheFirstPage(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 2, Config{})
	e, ok := n[0].pool.share.take(56, 0)
	require.True(t, ok)
	talk(t, w, n[0], n[1])
	n[0].pool.share.give(e)
	p := n[0].ports[0]
	p.greedy = true
	w.until(2*time.Second, func() bool { return n[0].link(1).pair.growth.now.at == 0 }, "the ring grows to page 0")
	n[0].ports[0].queuePairs = 1
	p.greedy, w.quiet = false, true
	w.pass(10 * soonDead)
	require.EqualValues(t, 1, p.run, "the link was up all the time: %s", w.describe())
	require.Zero(t, n[1].link(0).faults)
}

// A node that has given rings back is not called by the session that the other node is about to end.
func TestRingsStayGivenBack(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 2, Config{})
	talk(t, w, n[0], n[1])
	w.quiet = true
	w.until(quietTime+3*lookTime, func() bool {
		n[0].loops()
		if n[0].link(1).pair != nil {
			n[1].loops()
		}
		return n[0].link(1).pair == nil
	}, "given back")
	n[0].loops() // before the other node looks
	require.Nil(t, n[0].link(1).pair, "opened again without need")
	w.pass(4 * tick)
	require.Nil(t, n[0].link(1).pair)
	require.Nil(t, n[1].link(0).pair)
}

// A queue pair that has got a path shortly before the rings would be given back keeps them.
func TestPathIsNotTakenAway(t *testing.T) {
	for _, other := range []bool{false, true} {
		w, n := needWorld(t, 1, 4<<20, 2, Config{})
		talk(t, w, n[0], n[1])
		w.quiet = true
		end := w.now.Add(quietTime + 3*lookTime)
		for w.now.Before(end) {
			path, ok := n[0].pool.Route(nic.Address{GUID: n[1].guid})
			require.True(t, ok)
			require.NotNil(t, path.Port)
			w.pass(tick)
			require.False(t, path.Port.(*port).closed, "a queue pair was about to use it")
		}
		if other {
			n[1].ports[0].queuePairs = 1
		} else {
			n[0].ports[0].queuePairs = 1
		}
		w.pass(4 * quietTime)
		require.EqualValues(t, 1, n[0].ports[0].run)
	}
}

// The heartbeat moves while a node waits for its engine to say whether rings are used.
func TestHeartbeatWhileTheEngineCounts(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 2, Config{})
	talk(t, w, n[0], n[1])
	inside := false
	n[0].pool.aside = func(f func()) { inside = true; f(); inside = false }
	asked := 0
	n[0].link(1).pair.port = &statsPort{n[0].ports[0], func() {
		asked++
		require.True(t, inside, "the engine's thread is asked in the goroutine that moves the heartbeat")
	}}
	w.pass(3 * lookTime)
	require.NotZero(t, asked)
}

type statsPort struct {
	*port
	f func()
}

func (p *statsPort) Stats() nic.PortStats { p.f(); return p.port.Stats() }

// A node that has lost bids keeps its number until it has another one.
func TestNumberIsNotChangedToOneThatIsTaken(t *testing.T) {
	w, n := needWorld(t, 1, 1<<20, 1, Config{Nodes: 3})
	b := w.mustStart(Config{Node: AnyNode})
	was := b.pool.number
	b.paused = true
	c := w.mustStart(Config{Node: was, Name: "next"}) // it takes the number of b
	b.paused = false
	last := 3 - was
	// While b bids for the last number, another engine takes it.
	begun := false
	b.pool.time = hookedTimer{worldTimer{w, b}, func() {
		if !begun {
			begun = true
			w.mustStart(Config{Node: last, Name: "last"})
		}
	}}
	w.until(4*time.Second, func() bool { return begun && b.pool.lost != "" }, "b has lost")
	w.pass(2 * soonDead)
	require.Equal(t, was, b.pool.number)
	_, _ = n, c
}

// A node that looks for another number can be closed meanwhile.
func TestCloseWhileItBids(t *testing.T) {
	w, _ := needWorld(t, 1, 1<<20, 1, Config{Nodes: 4})
	b := w.mustStart(Config{Node: AnyNode})
	was := b.pool.number
	b.paused = true
	w.mustStart(Config{Node: was, Name: "next"})
	ctx, cancel := context.WithCancel(context.Background())
	b.pool.run = ctx
	looks := 0
	// Somebody else bids for each number, again and again.
	b.pool.time = hookedTimer{worldTimer{w, b}, func() {
		for i := range 4 {
			b.pool.view.store(b.pool.header.partAt(i)+bidAt, w.rng.Uint64())
		}
		looks++
		require.LessOrEqual(t, looks, mostBids)
	}}
	b.paused = false
	for b.loops(); looks == 0; b.loops() { // it sees that another engine is node 1
	}
	require.Equal(t, mostBids, looks)
	cancel()
	looks = 0
	b.loops()
	require.Less(t, looks, 2)
	require.Equal(t, was, b.pool.number)
}

// A packet that a node reads while it stands still does not become another one, when the sender is killed,
// comes back, and sends to others.
func TestReaderStandsStillWhileTheSenderRestarts(t *testing.T) {
	for _, grown := range []bool{false, true} {
		w, n := needWorld(t, 1, 4<<20, 3, Config{})
		talk(t, w, n[0], n[1])
		r := n[0].link(1).pair
		if grown {
			n[0].ports[0].greedy = true
			w.until(2*time.Second, func() bool { return r.growth.moved != 0 && len(r.growth.old) == 0 }, "it grows")
		}
		n[1].paused = true // in the middle of a look at the ring
		reading := r.bytes()
		before := append([]byte(nil), reading...)
		w.kill(n[0])
		n[0] = w.mustStart(Config{Node: 0})
		talk(t, w, n[0], n[2])
		require.Equal(t, before, reading, "grown: %v", grown)
		n[1].paused = false
		talk(t, w, n[0], n[1])
		w.pass(4 * tick)
		require.Empty(t, n[0].pool.fences)
	}
}

// A node that writes garbage and does not let the rings go keeps no more than two of them.
func TestHostileKeepsNoMemory(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 4, Config{Nodes: 16, Slots: 8, Data: 4096, MTU: 256})
	talk(t, w, n[0], n[1])
	n[1].paused = true
	h, v := n[0].pool.header, &n[0].pool.view
	life, index := n[1].pool.part, 12
	session := n[1].pool.epoch.Load() + 100
	// It names the other node in one more pair each time, before those that it had.
	next := func() {
		index--
		session++
		at := h.pairAt(1, index)
		v.store(at+yoursAt, 0)
		v.putPlace(at, &place{peer: 0, ring: h.ring})
		v.store(at+mineAt, session)
		v.store(life+changesAt, session)
	}
	v.store(h.pairAt(1, n[1].link(0).pair.index)+peerAt, 0)
	next()
	least := n[0].pool.share.pages()
	for end := w.now.Add(fenceTime - time.Second); w.now.Before(end); {
		v.store(life+heartbeatAt, w.rng.Uint64())
		if r := n[0].link(1).pair; r != nil {
			v.store(h.pairAt(1, index)+yoursAt, r.mine)
			if n[0].link(1).up {
				r.port.(*port).cfg.Failed(context.Canceled)
				n[0].loops()
				next()
			}
		}
		w.pass(tick)
		least = min(least, n[0].pool.share.pages())
	}
	require.LessOrEqual(t, index, 9)
	ring := pagesOf(h.ring)
	require.GreaterOrEqual(t, least+(mostFences+1)*ring, h.pages())
	talk(t, w, n[0], n[2])
}

// A node dies, or leaves, while queue pairs of it use the rings. The other node, which has none, gives them
// back.
func TestRingsOfTheDeadAreGivenBack(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		w, n := needWorld(t, 1, 4<<20, 2, Config{})
		free := n[0].pool.share.pages()
		talk(t, w, n[0], n[1])
		n[1].ports[0].queuePairs = 1
		w.until(3*lookTime, func() bool { return n[0].link(1).pair.theirsUsed }, "they are used")
		if leaves {
			require.NoError(t, n[1].pool.Close())
		}
		w.kill(n[1])
		w.until(soonDead+quietTime+3*lookTime, func() bool { return n[0].link(1).pair == nil }, "given back")
		w.until(fenceTime+time.Second, func() bool { return n[0].pool.share.pages() == free }, "the memory is free")
	}
}
