package pool

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/board"
	"github.com/nicless/nicless/internal/nic"
)

// everything is what three nodes do with each other: they connect, exchange packets, stop, restart,
// change their addresses and leave, and node 0 formats the pool anew. It returns an error if
// something does not come about in its time.
func everything(w *world) (err error) {
	defer func() { // a ring that a node cannot trust
		if r := recover(); r != nil && err == nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	until := func(what string, f func() bool) {
		for end := w.now.Add(1500 * time.Millisecond); err == nil && !f(); w.pass(tick) {
			if !w.now.Before(end) {
				err = fmt.Errorf("%s: it does not happen: %s", what, w.describe())
			}
		}
		if problems := w.problems(); err == nil && len(problems) > 0 {
			err = fmt.Errorf("%s: %q", what, problems)
		}
	}
	start := func(cfg Config) *node {
		n, e := w.start(cfg)
		if e != nil && err == nil {
			err = fmt.Errorf("start of node %d: %w", cfg.Node, e)
		}
		return n
	}
	linked := func(what string, a, b *node) {
		until(what, func() bool { return a.up(b.number) && b.up(a.number) })
		if err != nil {
			return
		}
		port := func(n, to *node) *port { return n.link(to.number).pair.port.(*port) }
		pa, pb := port(a, b), port(b, a)
		ga, gb := pa.got, pb.got
		until(what+", packets", func() bool { return pa.got > ga+20 && pb.got > gb+20 })
	}
	a := start(Config{Node: 0, Wait: time.Second})
	if err != nil {
		return err
	}
	b := start(Config{Node: 1, Wait: time.Second})
	if err != nil {
		return err
	}
	linked("first meeting", a, b)
	b.inside = true
	e := b.pool.SetAddresses([]Address{{LID: 7}})
	b.inside = false
	if e != nil {
		return e
	}
	until("new address", func() bool { _, ok := a.pool.Route(nic.Address{LID: 7}); return ok })
	for _, value := range []string{"hello", strings.Repeat("long", 100), "short"} {
		b.inside = true
		_, e := b.pool.Announce([]board.Entry{{Client: 1, Value: value}, {Client: 2, Value: value}})
		b.inside = false
		if e != nil {
			return e
		}
		until("announcement", func() bool {
			list := a.board[b.guid]
			return len(list) == 2 && list[1].Value == value
		})
	}
	b.paused = true
	until("node 1 stands still", func() bool { return !a.up(1) })
	b.paused = false
	linked("node 1 goes on", a, b)
	if err != nil {
		return err
	}
	if _, e := w.start(Config{Node: 1}); e == nil {
		return fmt.Errorf("two nodes have one number")
	}
	w.kill(b)
	until("the announcements of node 1 have gone with it", func() bool { return len(a.board) == 0 })
	b = start(Config{Node: 1, Wait: time.Second})
	if err != nil {
		return err
	}

	// Another program writes which nodes the table of a node names, before the other has found itself.
	a.paused = true
	until("node 1 offers a session", func() bool {
		a.pool.guarded(a.pool.tick)
		r := b.link(0).pair
		return r != nil && r.mine != 0
	})
	w.mem.Write(int(b.pool.part+namesAt), make([]byte, namesSize))
	a.paused = false
	linked("node 1 has restarted", a, b)

	// Garbage in a ring: the link rests for a second, which the other node sees.
	b.paused = true
	b.link(0).pair.follow()
	sent, slots := b.link(0).pair.send.Sent(), b.link(0).pair.growth.ring.Slots
	var garbage [8]byte
	be.PutUint64(garbage[:], uint64(uint32(sent+1))<<32|255<<16)
	w.mem.Write(b.ringAt(0)+int(sent)%slots*128, garbage[:])
	for range 10 {
		w.pass(tick)
	}
	if !a.link(1).restUntil.After(w.now) {
		return fmt.Errorf("garbage is not found")
	}
	for _, p := range a.ports {
		p.problems = nil
	}
	b.paused = false
	w.pass(4 * tick)
	if err == nil && (b.up(0) || a.up(1)) {
		return fmt.Errorf("a link that rests is up")
	}
	linked("the link has rested", a, b)

	// Another program writes a node's line about another node.
	for range 10 {
		w.mem.Write(int(b.link(0).pair.at+mineAt), garbage[:])
		w.pass(tick)
	}
	linked("the line is written again", a, b)

	// Another program writes the board of a node.
	at := int(b.pool.part+boardAt) + 8
	w.mem.Write(at, garbage[:])
	until("the board is written again", func() bool {
		var now [8]byte
		w.mem.Read(at, now[:])
		return now != garbage
	})

	c := start(Config{Node: 2, Wait: time.Second})
	if err != nil {
		return err
	}
	linked("a third node", c, b)
	w.kill(c)
	if e := c.pool.Close(); e != nil {
		return e
	}
	until("node 2 leaves", func() bool { return a.link(2).why == "node 2 has left the pool" })
	w.kill(a)
	b.paused = true
	a = start(Config{Node: 0, Nodes: 2, Slots: 8, Data: 8192, MTU: 512})
	b.paused = false
	if err != nil {
		return err
	}
	w.mem.Reassign() // the rings are elsewhere
	linked("another pool", a, b)

	// An engine that stood still for long while another took its number.
	b.paused = true
	d := start(Config{Node: 1, Wait: time.Second})
	b.paused = false
	if err != nil {
		return err
	}
	until("the old node 1 leaves", func() bool { return b.pool.lost != "" })
	linked("the new node 1", a, d)
	return err
}

// Everything works without coherence, whenever caches drop lines, and whatever other nodes do
// in the middle.
func TestIncoherent(t *testing.T) {
	for seed := range uint64(12) {
		w := newIncoherentWorld(t, seed)
		w.interleave = seed%3 == 1
		w.evict = seed%3 == 2
		require.NoError(t, everything(w), "seed %d", seed)
	}
}

// Without any one of the calls that write back or invalidate, something does not work. Package
// packetring has such a test for its own calls.
func TestEveryFlushIsNeeded(t *testing.T) {
	run := func(skip func(string) bool) (*world, error) {
		w := newIncoherentWorld(t, 1)
		w.skip = skip
		return w, everything(w)
	}
	w, err := run(nil)
	require.NoError(t, err)
	sites := w.mem.Sites()
	require.Greater(t, len(sites), 12)
	elsewhere := []string{
		"producer.go", "consumer.go", "standing.go", "move.go", // of package packetring
		"join.go", // blankTable: it matters in garbage that looks like a pair, TestGarbageLooksLikeAPair
		"pair.go", // pairs that end: without it they end when the other node has not been called for long
	}
	for _, site := range sites {
		if slices.ContainsFunc(elsewhere, func(file string) bool { return strings.Contains(site, file) }) {
			continue
		}
		_, err := run(func(s string) bool { return s == site })
		assert.Error(t, err, "without: %s", site)
		if err != nil {
			t.Logf("without %s: %v", site, err)
		}
	}
}
