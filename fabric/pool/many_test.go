package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
)

// Each node of a rack talks with 16 others: those that follow it and those that it follows.
const following = 8

// A rack of nodes joins a pool, each talks with 16 others, some die at one time and come back: all find
// each other in time, no packet is lost, repeated or taken for another, and links between nodes that live
// do not notice.
func TestRack(t *testing.T) {
	nodes := explore.Rounds(200, 1000)
	w := newSizedWorld(t, 1, nodes<<20+4096)
	w.byNeed, w.lazy = true, 8
	all := make([]*node, nodes)
	for i := range all {
		all[i] = w.make(Config{Node: i, Nodes: nodes, Dead: defaultDead})
		require.NoError(t, all[i].pool.prepareAndJoin())
		w.nodes = append(w.nodes, all[i])
	}
	began := w.now
	w.until(200*time.Millisecond, func() bool {
		for _, n := range all {
			if n.known() != nodes-1 {
				return false
			}
		}
		return true
	}, "all know each other")
	t.Logf("%d nodes know each other after %v", nodes, w.now.Sub(began))

	began = w.now
	w.until(time.Second, func() bool { return reached(all, all) }, "all have their rings")
	t.Logf("each has rings with %d others after %v", 2*following, w.now.Sub(began))
	require.Empty(t, w.problems())

	rng := rand.New(rand.NewPCG(1, 1))
	var dead, alive []*node
	for _, i := range rng.Perm(nodes) {
		if len(dead) < 32 {
			w.kill(all[i])
			dead = append(dead, all[i])
		} else {
			alive = append(alive, all[i])
		}
	}
	w.pass(4 * tick)
	runs := runsOf(alive)
	w.pass(defaultDead + 4*tick)
	for _, n := range dead {
		again := w.make(Config{Node: n.number, Dead: defaultDead})
		again.guid += 1 << 32
		require.NoError(t, again.pool.prepareAndJoin())
		w.nodes = append(w.nodes, again)
		all[n.number] = again
	}
	w.until(3*time.Second, func() bool { return reached(all, all) }, "those that died are back")
	require.Empty(t, w.problems())
	w.pass(4 * tick)
	require.Equal(t, runs, runsOf(alive), "links between nodes that live were not interrupted")
	for _, n := range all {
		require.Less(t, len(n.open()), 2*following+1)
	}
}

// known returns how many other nodes a node has seen.
func (n *node) known() (seen int) {
	for range n.pool.state.Load().peers {
		seen++
	}
	return seen
}

// prepareAndJoin is start without the waits.
func (p *Pool) prepareAndJoin() error {
	h, err := p.readHeader()
	if err != nil {
		h, err = plan(&p.cfg, uint64(len(p.view.mem)))
		if err != nil {
			return err
		}
		p.format(&h)
	}
	p.number = p.cfg.Node
	p.join(h)
	return nil
}

// reached asks for paths from nodes to the 8 that follow them in all, and reports whether all are up.
func reached(from, all []*node) bool {
	up := true
	for _, n := range from {
		for i := range following {
			up = n.reaches(all[(n.number+1+i)%len(all)]) && up
		}
	}
	return up
}

// reaches asks for a path to another node, and reports whether it is up.
func (n *node) reaches(to *node) bool {
	if l := n.pool.links[to.number]; l != nil && l.up && l.desc.guid == to.guid {
		return true
	}
	n.pool.Route(nic.Address{GUID: to.guid})
	return false
}

// runsOf returns how often links between these nodes have come up.
func runsOf(nodes []*node) map[string]uint64 {
	runs := make(map[string]uint64)
	in := make(map[int]bool)
	for _, n := range nodes {
		in[n.number] = true
	}
	for _, n := range nodes {
		for _, l := range n.pool.links {
			if l != nil && l.pair != nil && in[l.peer] {
				runs[fmt.Sprint(n.number, " to ", l.peer)] = l.pair.port.(*port).run
			}
		}
	}
	return runs
}
