package pool

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/shm"
)

// places returns the offset of each word that two nodes rely on: the header, what nodes say of
// themselves and of each other, and the beginning of the rings between them.
func places(nodes []*node) (at []uint64) {
	add := func(from, n uint64) {
		for i := uint64(0); i < n; i += 8 {
			at = append(at, from+i)
		}
	}
	add(0, headerSize)
	for node := range 2 {
		n := nodes[node]
		add(n.pool.part+lifeAt, line)
		add(n.pool.part+describeAt, headSize+addressSize)
		add(n.pool.part+boardAt, boardHead+32)
		pair := n.link(1 - node).pair
		add(pair.at, 40)
		add(pair.at+countAt, 16)
		for slot := range uint64(3) { // without the packets themselves, which only their sender can check
			add(uint64(n.ringAt(1-node))+128*slot, 16)
		}
	}
	return at
}

// One wrong word, wherever it is, ends a link for a moment at most. After that both nodes are in the
// pool, packets travel and announcements are known, without help from outside.
func TestOneWrongWord(t *testing.T) {
	list := []board.Entry{{Client: 1, Value: "an announcement"}}
	said := func(w *world) []*node {
		a := w.mustStart(Config{Node: 0, Nodes: 2, Slots: 8, Data: 4096, MTU: 256, Size: 512 << 10})
		b := w.mustStart(Config{Node: 1, Size: 512 << 10})
		for _, n := range []*node{a, b} {
			_, err := n.pool.Announce(list)
			require.NoError(t, err)
		}
		w.until(time.Second, func() bool { return a.up(1) && b.up(0) }, "both ends are up")
		return []*node{a, b}
	}
	for i, at := range places(said(newWorld(t, 1))) {
		for name, wrong := range map[string]func(was uint64) uint64{
			"zero":     func(uint64) uint64 { return 0 },
			"one more": func(was uint64) uint64 { return was + 1 },
			"an epoch": func(uint64) uint64 { return 0x1234567800000000 },
			"noise":    func(was uint64) uint64 { return ^was * 0x9e3779b97f4a7c15 },
		} {
			w := newWorld(t, uint64(i))
			nodes := said(w)
			word := shm.BE64At(w.heap.Bytes(), at)
			word.Publish(wrong(word.Observe()))
			w.pass(2 * ownPeriod)
			well := func() bool {
				for _, n := range nodes {
					l := n.link(1 - n.number)
					if l == nil || !l.up || len(n.board[nodes[1-n.number].guid]) != len(list) {
						return false
					}
				}
				return true
			}
			w.until(2*firstRest+2*soonDead, well, fmt.Sprintf("offset %d, %s: all is well again: %s", at, name, w.describe()))
			for _, n := range nodes {
				for _, p := range n.ports {
					p.problems = nil // of the port that was given up
				}
			}
			works(t, w, nodes[0], nodes[1])
		}
	}
}

// A node into whose ring another writes wrong words again and again rests longer each time, so the
// work and the log are bounded. Links with other nodes do not notice, and when it stops, the link
// comes up by itself.
func TestWrongWordsAgainAndAgain(t *testing.T) {
	w := newWorld(t, 1)
	var out strings.Builder
	a := w.mustStart(Config{Node: 0, Nodes: 3, Slots: 8, Data: 4096, MTU: 256, Size: 512 << 10, Log: slog.New(slog.NewTextHandler(&out, nil))})
	hostile := w.mustStart(Config{Node: 1, Size: 512 << 10})
	c := w.mustStart(Config{Node: 2, Size: 512 << 10})
	w.until(time.Second, func() bool { return a.up(1) && a.up(2) && c.up(0) && hostile.up(0) }, "all are up")
	bystander := a.link(2).pair.port.(*port)

	at, size := hostile.ringAt(0), hostile.pool.header.ring.RingSize()
	spoil := func() {
		if r := hostile.link(0).pair; r != nil {
			at = hostile.ringAt(0)
		}
		ring := w.heap.Bytes()[at:][:size]
		garbage(w.rng, ring)
		for _, p := range a.ports {
			if p != bystander && !p.closed && w.rng.IntN(2) == 0 {
				next := p.cfg.Receive.Received() // a slot that is taken for the next one
				be.PutUint64(ring[next%8*128:], uint64(uint32(next+1))<<32|255<<16)
			}
		}
	}
	const long = 10 * time.Minute
	for end := w.now.Add(long); w.now.Before(end); w.pass(tick) {
		spoil()
	}
	faults := int(a.link(1).faults)
	// Rests of 1, 2, 4, 8, 16 and 32 s, then of a minute each.
	assert.LessOrEqual(t, faults, 6+int(long/mostRest)+1)
	assert.GreaterOrEqual(t, faults, 6)
	assert.LessOrEqual(t, len(a.ports), faults+2, "a port for each link, and one more each time")
	peers := a.pool.Peers()
	assert.EqualValues(t, faults, peers[0].Faults)
	assert.Zero(t, peers[1].Faults)
	assert.LessOrEqual(t, strings.Count(out.String(), "\n"), int(long/time.Minute)*fabric.LinesPerMinute)
	assert.False(t, bystander.closed)
	assert.EqualValues(t, 1, bystander.run, "the link with another node was never interrupted")
	assert.Empty(t, bystander.problems)

	w.until(2*mostRest, func() bool { return a.up(1) && hostile.up(0) }, "the link is up again by itself")
	w.pass(mostRest + tick)
	w.until(time.Second, func() bool { spoil(); return !a.up(1) }, "the garbage is found")
	w.until(2*firstRest, func() bool { return a.up(1) && hostile.up(0) }, "after a good time the rest is short again")
}

// A node whose block another writes all the time stays in the pool as far as it can, and says so in a
// bounded number of lines.
func TestOwnBlockIsOverwritten(t *testing.T) {
	w := newWorld(t, 1)
	var out strings.Builder
	a, b := couple(t, w)
	b.pool.cfg.Log = fabric.LimitLog(slog.New(slog.NewTextHandler(&out, nil)))
	for range 10 * int(time.Second/tick) {
		garbage(w.rng, w.heap.Bytes()[b.pool.part:][:line])
		w.pass(tick)
		require.Empty(t, b.pool.lost)
	}
	w.until(2*soonDead, func() bool { return a.up(1) && b.up(0) }, "the link is up")
	works(t, w, a, b)
	require.Contains(t, out.String(), "somebody has overwritten the part of this node")
	require.LessOrEqual(t, strings.Count(out.String(), "\n"), fabric.LinesPerMinute)
}

// A node that changes its epoch all the time does not have a port made each time.
func TestEpochsAgainAndAgain(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	before := len(a.ports)
	b.paused = true
	const long = 10 * time.Second
	for end := w.now.Add(long); w.now.Before(end); w.pass(tick) {
		shm.BE64At(w.heap.Bytes(), b.pool.part+epochAt).Publish(w.rng.Uint64() &^ (1<<32 - 1))
		at := b.pool.part + heartbeatAt
		shm.BE64At(w.heap.Bytes(), at).Publish(shm.BE64At(w.heap.Bytes(), at).Observe() + 1)
	}
	require.LessOrEqual(t, len(a.ports)-before, int(long/firstRest))
	b.paused = false
	w.until(2*firstRest, func() bool { return a.up(1) && b.up(0) }, "the link is up again")
	works(t, w, a, b)
}

// A node whose number another engine has taken comes back when that engine has ended, whether it
// says so or not.
func TestNumberIsFreeAgain(t *testing.T) {
	for _, farewell := range []bool{true, false} {
		w := newWorld(t, 1)
		a, b := couple(t, w)
		b.paused = true
		c := w.mustStart(Config{Node: 1, Name: "next"})
		b.paused = false
		w.until(time.Second, func() bool { return b.pool.lost != "" && a.up(1) }, "the old node leaves")
		w.pass(10 * time.Second)
		require.True(t, c.up(0), "as long as the new one lives")
		works(t, w, a, c)
		w.kill(c)
		if farewell {
			require.NoError(t, c.pool.Close())
		}
		w.until(2*mostRest, func() bool { return a.up(1) && b.pool.lost == "" && b.up(0) }, "the old one is back")
		works(t, w, a, b)
	}
}
