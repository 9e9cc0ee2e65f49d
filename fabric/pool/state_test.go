package pool

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/nic"
)

// checkState checks that what others see of each link is what the link is. It is called after a look.
func (n *node) checkState() {
	s := n.pool.state.Load()
	require.Len(n.w.t, s.nodes, len(n.pool.links))
	for i, l := range n.pool.links {
		seen := s.nodes[i].Load()
		if l == nil {
			require.Nil(n.w.t, seen)
			continue
		}
		now := stateOf(l)
		require.True(n.w.t, assert.ObjectsAreEqual(now, seen), "node %d has of node %d:\n%+v\nand others see\n%+v", n.number, i, now, seen)
	}
}

// Whatever becomes of the addresses of nodes, Route finds what a search of all nodes finds.
func TestIndex(t *testing.T) {
	const nodes = 40
	rng := rand.New(rand.NewPCG(1, 1))
	s, links := newState(0, nodes), make([]*link, nodes)
	for i := range links {
		links[i] = &link{peer: i}
	}
	draw := func() (a Address) {
		a.LID = uint16(rng.IntN(30)) // often the same ones, and 0
		a.GID[3] = byte(rng.IntN(30))
		return a
	}
	search := func(to nic.Address) *peerState {
		for peer := range s.peers {
			if peer.has(keyOf(&to)) {
				return peer
			}
		}
		return nil
	}
	found := 0
	for range 3000 {
		now := &peerState{link: links[rng.IntN(nodes)], reached: rng.IntN(4) > 0, guid: uint64(rng.IntN(60))}
		for range rng.IntN(4) {
			now.addresses = append(now.addresses, draw())
		}
		s.put(now)
		for range 10 {
			a := draw()
			for _, to := range []nic.Address{{GUID: uint64(rng.IntN(60))}, {GID: a.GID}, {LID: a.LID}} {
				want := search(to)
				require.Same(t, want, s.find(&to))
				if want != nil {
					found++
				}
			}
		}
	}
	require.NotZero(t, found)
	for _, l := range links {
		s.put(&peerState{link: l})
	}
	for i := range s.index {
		if b := s.index[i].Load(); b != nil {
			require.Empty(t, *b, "nothing is left")
		}
	}
}

// Route finds a node by an address that it keeps while its other addresses change.
func TestKeptAddressIsFound(t *testing.T) {
	s, l, kept := newState(0, 2), &link{peer: 1}, Address{LID: 7}
	put := func(i int) {
		s.put(&peerState{link: l, reached: true, guid: 1, addresses: []Address{{LID: uint16(8 + i%2)}, kept}})
	}
	put(0)
	var found, missed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10_000 {
			if s.find(&nic.Address{LID: kept.LID}) == nil {
				missed.Add(1)
			}
			found.Add(1)
		}
	}()
	for i := 0; found.Load() < 10_000; i++ {
		put(i)
	}
	<-done
	require.Zero(t, missed.Load())
	require.Nil(t, s.find(&nic.Address{LID: 10}))
}

// A change of one node costs as much with a thousand nodes as with ten.
func TestChangeCostsTheSameInARack(t *testing.T) {
	cost := func(nodes int) float64 {
		w := newSizedWorld(t, 1, nodes<<20+4096)
		w.byNeed = true
		a := w.make(Config{Node: 0, Nodes: nodes})
		require.NoError(t, a.pool.prepareAndJoin())
		for i := 1; i < nodes; i++ {
			l := newLink(a.pool, i)
			l.epoch, l.alive, l.why, l.desc.guid = 1<<32, true, "", uint64(i)
			a.pool.links[i] = l
			l.change()
		}
		a.pool.publish()
		require.Equal(t, nodes-1, a.known())
		l := a.pool.links[nodes/2]
		return testing.AllocsPerRun(100, func() {
			l.faults++
			l.change()
			a.pool.publish()
		})
	}
	require.Equal(t, cost(10), cost(1000))
}
