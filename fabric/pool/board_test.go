package pool

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/shm"
)

// announce gives a node its clients' announcements, as the engine does between two loops.
func (n *node) announce(t *testing.T, list ...board.Entry) (left int) {
	t.Helper()
	n.inside = true
	defer func() { n.inside = false }()
	left, err := n.pool.Announce(list)
	require.NoError(t, err)
	return left
}

// receives waits until a node has received exactly this from another engine.
func (n *node) receives(of *node, list ...board.Entry) {
	n.w.t.Helper()
	n.w.until(time.Second, func() bool {
		got := n.board[of.guid]
		if len(got) != len(list) {
			return false
		}
		for i := range list {
			if got[i] != list[i] {
				return false
			}
		}
		return true
	}, "announcements")
}

// Announcements reach the other nodes, whenever these come. They go with their node.
func TestAnnounce(t *testing.T) {
	for name, w := range map[string]*world{"coherent": newWorld(t, 1), "incoherent": newIncoherentWorld(t, 1)} {
		t.Run(name, func(t *testing.T) {
			a, b := couple(t, w)
			require.Empty(t, a.board, "no news from a pool of garbage")
			first, second := board.Entry{Client: 1, User: 1000, Value: "first"}, board.Entry{Client: 7, User: board.AllUsers, Value: strings.Repeat("second", 80)}
			b.announce(t, first)
			a.receives(b, first)
			told := a.told
			w.pass(10 * tick)
			require.Equal(t, told, a.told, "nothing new")
			b.announce(t, first, second)
			a.receives(b, first, second)
			require.Empty(t, b.board, "a has announced nothing")
			b.announce(t, second)
			a.receives(b, second)

			c := w.mustStart(Config{Node: 2})
			c.announce(t, first)
			c.receives(b, second)
			a.receives(c, first)
			a.announce(t, first, second)
			b.receives(a, first, second)
			c.receives(a, first, second)

			b.paused = true
			a.receives(b)
			require.False(t, a.up(1))
			b.paused = false
			a.receives(b, second)
			c.receives(b, second)

			w.kill(b)
			a.receives(b)
			a.receives(c, first)
			b = w.mustStart(Config{Node: 1})
			w.until(time.Second, func() bool { return a.up(1) && b.up(0) && b.up(2) }, "the link is up again")
			b.receives(a, first, second)
			require.NotContains(t, a.board, b.guid, "another life has announced nothing")
			b.announce(t, second)
			a.receives(b, second)

			w.kill(b)
			require.NoError(t, b.pool.Close())
			a.receives(b)
			c.receives(b)
			require.Empty(t, b.board)
			require.Empty(t, w.problems())
		})
	}
}

// Announcements from before a node joins, or while it has left the pool, are sent afterwards.
func TestAnnounceBeforeJoining(t *testing.T) {
	w := newWorld(t, 1)
	a := w.mustStart(Config{Node: 0})
	b := w.make(Config{Node: 1, Dead: soonDead})
	e := board.Entry{Client: 1, Value: "early"}
	b.announce(t, e)
	require.NoError(t, b.pool.start(t.Context()))
	w.nodes = append(w.nodes, b)
	a.receives(b, e)
	a.announce(t, e)
	b.receives(a, e)
	require.Zero(t, a.astray+b.astray, "whoever reads an announcement finds its engine")
	w.kill(a)
	b.paused = true
	a = w.mustStart(Config{Node: 0, Nodes: 3})
	b.paused = false
	w.until(2*time.Second, func() bool { return a.up(1) && b.up(0) }, "another pool")
	a.receives(b, e)
	b.receives(a)
}

// A board has room for 8000 bytes. The rest is left out, from the end.
func TestBoardIsFull(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	var list []board.Entry
	for i := range 20 {
		list = append(list, board.Entry{Client: uint32(i + 1), Value: strings.Repeat("x", 480)})
	}
	require.Equal(t, 4, b.announce(t, list...))
	a.receives(b, list[:16]...)
	for n := range 40 { // the end of a list may be anywhere in a word
		list[15].Value = strings.Repeat("y", 440+n)
		require.Zero(t, b.announce(t, list[:16]...))
		a.receives(b, list[:16]...)
	}
}

// A node whose board is wrong has no announcements. Its link stays up, and so do the others.
func TestWrongBoards(t *testing.T) {
	w := newWorld(t, 1)
	var log strings.Builder
	a := w.mustStart(Config{Node: 0, Log: slog.New(slog.NewTextHandler(&log, nil))})
	b, c := w.mustStart(Config{Node: 1}), w.mustStart(Config{Node: 2})
	const v2, user = "\x00\x00\x00\x00\x00\x00\x00\x02", "\x00\x00\x03\xe8"
	good := board.Entry{Client: 1, User: 1000, Value: "good"}
	c.announce(t, good)
	a.receives(c, good)
	for _, row := range []struct{ list, why string }{
		{v2 + "\x00\x00\x00\x01\x00", "5 bytes at the end of the announcements"},
		{v2 + "\x00\x00\x00\x02" + user + "\x00\x01x\x00\x00\x00\x01" + user + "\x00\x01x", "client 1 after that of client 2"},
		{v2 + "\x00\x00\x00\x02" + user + "\xff\xffx", "client 2 announces 65535 bytes; 1 to 480 are possible"},
		{"\x00\x00\x00\x01\x00\x01x", "announcements of another version"}, // as older engines write them
	} {
		b.announce(t, good)
		a.receives(b, good)
		log.Reset()
		b.pool.board = []byte(row.list)
		b.pool.own.Lock()
		b.pool.post()
		b.pool.own.Unlock()
		w.until(time.Second, func() bool { return strings.Contains(log.String(), row.why) }, row.why)
		a.receives(b)
		require.Contains(t, log.String(), "node=1")
	}
	mem, at := w.heap.Bytes(), b.pool.part+boardAt
	b.announce(t, good)
	a.receives(b, good)
	mem[at+boardHead]++
	shm.BE64At(mem, at).Publish(100)
	b.claimNews()
	w.pass(4 * tick)
	a.receives(b, good) // as if it were being written
	for i, n := range []uint64{board.Max + 1, 1 << 63, ^uint64(0)} {
		log.Reset()
		shm.BE64At(mem, at+8).Publish(n)
		shm.BE64At(mem, at).Publish(uint64(1000 + i))
		b.claimNews()
		w.until(time.Second, func() bool { return strings.Contains(log.String(), "8000 are possible") }, "a warning")
		a.receives(b)
	}
	require.True(t, a.up(1))
	a.receives(c, good)
	b.announce(t, good)
	a.receives(b, good)
}

// A node may write any sequence, also the one that stands for a board that was never read. Its announcements
// go nevertheless: when its board is wrong, and when it dies.
func TestBoardWithSequenceZero(t *testing.T) {
	w := newWorld(t, 1)
	a, b := couple(t, w)
	good := board.Entry{Client: 1, User: 1000, Value: "good"}
	mem, at := w.heap.Bytes(), b.pool.part+boardAt
	b.announce(t, good)
	a.receives(b, good)
	shm.BE64At(mem, at+8).Publish(board.Max + 1)
	shm.BE64At(mem, at).Publish(0)
	b.claimNews()
	a.receives(b)

	b.announce(t, good)
	a.receives(b, good)
	b.announce(t)
	a.receives(b)
	b.announce(t, good)
	shm.BE64At(mem, at).Publish(0)
	a.receives(b, good)
	w.kill(b)
	a.receives(b)
}
