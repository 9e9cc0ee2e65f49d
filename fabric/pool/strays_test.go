package pool

import (
	"testing"

	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// stray writes a pair into a node's table, which names another node and offers what nobody does.
func (n *node) stray(index int, named *node) {
	at := n.pool.header.pairAt(n.number, index)
	mem := n.w.heap.Bytes()
	be.PutUint64(mem[at+mineAt:], 1<<40|7)
	be.PutUint64(mem[at+peerAt:], uint64(named.number+1)<<48|3<<40)
	be.PutUint64(mem[at+sizeAt:], 4096)
}

// A pair that others have written before the real one does not keep the link down.
func TestStrayPairBeforeTheRealOne(t *testing.T) {
	for _, names := range []bool{true, false} {
		w, n := needWorld(t, 1, 4<<20, 2, Config{Slots: 8, Data: 4096, MTU: 1024})
		n[0].pool.share.pairs[0] = true // so the real one is the second
		n[0].offerTo(n[1])
		n[0].stray(0, n[1])
		if !names {
			n[1].link(0).desc.names = false
		}
		talk(t, w, n[0], n[1])
	}
}

// Rings that nobody uses are given back although others have written a pair that names the other node: that
// node takes it for a session that begins when the real one has ended.
func TestStrayPairBehindTheRealOne(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 2, Config{Slots: 8, Data: 4096, MTU: 1024})
	free := n[0].pool.share.pages()
	talk(t, w, n[0], n[1])
	for _, a := range n {
		a.stray(3, n[1-a.number])
	}
	w.quiet = true
	w.pass(quietTime / 2)
	_, ok := n[1].pool.Route(nic.Address{GUID: n[0].guid}) // so it gives them back later
	require.True(t, ok)
	w.until(4*quietTime, func() bool {
		for _, a := range n {
			if a.pool.share.pages() < free || len(a.open()) > 0 {
				return false
			}
		}
		return true
	}, "all memory is free again")
	sessions := n[0].pool.sessions
	w.pass(4 * quietTime)
	require.Equal(t, sessions, n[0].pool.sessions, "and stays free")
	w.quiet = false
	talk(t, w, n[0], n[1])
}

// A table is searched for strays only after a link was down or has ended, and no more often than each
// ownPeriod.
func TestTablesOfGoodNodesAreNotSearched(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 2, Config{})
	talk(t, w, n[0], n[1])
	w.pass(2 * ownPeriod)
	require.False(t, n[0].pool.strays.due)
	at := n[0].pool.header.pairAt(0, 3)
	n[0].stray(3, n[1])
	w.pass(10 * ownPeriod)
	require.NotEqual(t, -1, n[0].pool.view.pair(at).peer, "nobody has looked")
	require.True(t, n[0].up(1))
}
