package pool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/incoherent"
)

// A thousand nodes take some GB of memory. There may be as many seeds as there is time for:
//
//	go test ./fabric/pool -run TestNodesDieAtEachStore -dying 1000 -seeds 100 -timeout 24h
var (
	dying     = flag.Int("dying", 24, "nodes of TestNodesDieAtEachStore")
	seeds     = flag.Int("seeds", 3, "seeds of TestNodesDieAtEachStore")
	deadly    = flag.Int("deadly", 100, "ticks of TestNodesDieAtEachStore in which nodes are chosen to die")
	firstSeed = flag.Uint64("seed", 0, "first seed of TestNodesDieAtEachStore")
)

// A mortal is a world without coherence, whose nodes die at their stores.
type mortal struct {
	*world
	rng   *rand.Rand
	fatal map[*node]int // how many stores a node has left; each is counted before and after
	back  map[int]int   // in how many ticks dead nodes come back
	all   []*node       // by number; nil: it is dead
	died  int
	doom  int  // how many nodes are doomed in each tick
	still int  // how often a node stood still in the middle of its work
	rests bool // one does so
	cfg   Config
}

// death is what a node panics with that dies.
type death struct{}

func newMortal(t *testing.T, seed uint64, nodes int) *mortal {
	const part = 2 * 2 * following * bytesOfPair // twice as many pairs as each node has
	w := newSizedWorld(t, seed, 4096)
	w.heap, w.size, w.byNeed, w.lazy, w.sums = nil, nodes*part+partsAt, true, 8, sumsOf(seed)
	w.mem = incoherent.New(w.size, seed)
	m := &mortal{
		world: w, rng: rand.New(rand.NewPCG(seed, 2)), all: make([]*node, nodes),
		fatal: make(map[*node]int), back: make(map[int]int),
		cfg: Config{Nodes: nodes, Slots: 8, Data: 4096, MTU: 256, Dead: 10 * tick, Incoherent: true},
	}
	w.evict, w.interleave, w.odds = seed%2 == 0, true, 1000
	w.side = func(i int) *incoherent.Side {
		if old := w.sides[i]; old != nil {
			require.NoError(t, old.Restart())
			return old
		}
		own := []incoherent.Span{{At: partsAt + i*part, Size: part}}
		if i == 0 {
			own = []incoherent.Span{{At: 0, Size: partsAt}, own[0]} // it formats the pool
		}
		s, err := w.mem.Lean(fmt.Sprintf("node %d", i), own...)
		require.NoError(t, err)
		return s
	}
	t.Cleanup(func() {
		for _, s := range w.sides {
			if s != nil {
				_ = s.Close()
			}
		}
		_ = w.mem.Close()
	})
	w.around = m.around
	w.stored, w.looked = m.stored, m.looked
	return m
}

// stored is called at each store of a node, and ends the node if it is time.
func (m *mortal) stored(n *node) {
	left, ok := m.fatal[n]
	if !ok {
		return
	}
	m.fatal[n] = left - 1
	if left <= 1 {
		panic(death{})
	}
}

// looked lets a node stand still at times, in the middle of its work: others die, come back and talk
// meanwhile. Most often it does so in the middle of a packet.
func (m *mortal) looked(n *node, at uint64) {
	odds := 2000 * len(m.all)
	if h := &n.pool.header; at >= partsAt && h.nodes > 0 && (at-partsAt)%h.part() >= h.ringsAt() {
		odds /= 20
	}
	if m.doom == 0 || m.rests || m.rng.IntN(odds) > 0 {
		return
	}
	m.rests = true
	m.still++
	for range m.rng.IntN(2 * int(m.cfg.Dead/tick)) {
		m.tickOf()
	}
	m.rests = false
}

// around begins the loops of a node, and returns what ends them: lines that it has read are wrong from then
// on, and perhaps it has died.
func (m *mortal) around(n *node) func() {
	side := m.sides[n.number]
	side.Enter()
	return func() {
		side.Leave()
		if r := recover(); r != nil {
			if _, ok := r.(death); !ok {
				panic(r)
			}
			m.bury(n)
		}
	}
}

func (m *mortal) bury(n *node) {
	m.kill(n)
	n.paused = true
	delete(m.fatal, n)
	m.all[n.number] = nil
	m.back[n.number] = 1 + m.rng.IntN(30)
	m.died++
}

// enter makes a node join, which may end it.
func (m *mortal) enter(number int, doomed bool) {
	cfg := m.cfg
	cfg.Node = number
	n := m.make(cfg)
	n.guid += uint64(m.died+1) << 32
	n.inside = true
	defer func() { n.inside = false }()
	defer m.around(n)()
	if doomed {
		m.fatal[n] = 1 + m.rng.IntN(100)
	}
	m.all[number] = n
	require.NoError(m.t, n.pool.prepareAndJoin())
	m.nodes = append(m.nodes, n)
}

// tickOf lets time pass: some nodes are doomed to die at one of their next stores, and others come back.
func (m *mortal) tickOf() {
	for range m.doom {
		if n := m.all[m.rng.IntN(len(m.all))]; n != nil {
			if _, ok := m.fatal[n]; !ok {
				m.fatal[n] = 1 + m.rng.IntN(1+m.rng.IntN(400))
			}
		}
	}
	for number := range m.all { // in the order of the numbers, so that a seed repeats
		if m.all[number] != nil {
			continue
		}
		m.back[number]--
		if m.back[number] <= 0 {
			delete(m.back, number)
			m.enter(number, m.doom > 0 && m.rng.IntN(8) == 0)
		}
	}
	m.reach()
	m.pass(tick)
}

// reach asks for paths from each node to those that follow it, and reports whether all nodes live and all
// paths are up.
func (m *mortal) reach() bool {
	up := true
	for i, n := range m.all {
		for j := range following {
			to := m.all[(i+1+j)%len(m.all)]
			there := n != nil && to != nil && n.pool.links != nil // it may stand still while it joins
			if !there || !n.reaches(to) {
				up = false
			}
		}
	}
	return up
}

// Nodes of a rack without coherence join, talk with 16 others each, die at any of their stores and come
// back, in the middle of what others do. Lines that a node has read are poisoned when it has done its work.
// No packet is lost, repeated, changed or taken for another, no line has two writers, and in the end each
// node reaches all with which it talks.
func TestNodesDieAtEachStore(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newMortal(t, seed, *dying).run(*deadly) })
	}
}

// The same with 1,000 nodes, for a shorter time: one node of fifty is chosen in each tick.
func TestNodesOfARackDieAtEachStore(t *testing.T) {
	explore.Only(t)
	newMortal(t, 1, 1000).run(20)
}

// run lets nodes join, die in so many ticks, and come back.
func (m *mortal) run(deadly int) {
	t := m.t
	for i := range m.all {
		m.enter(i, false)
	}
	m.until(2*time.Second, m.reach, "all have their rings")
	m.doom = 2 + len(m.all)/50
	for range deadly {
		m.tickOf()
		require.Empty(t, m.problems())
	}
	m.doom = 0
	end := m.now.Add(10 * time.Second)
	for m.tickOf(); !m.reach(); m.tickOf() {
		require.True(t, m.now.Before(end), "all are back: not after 10 s")
	}
	m.pass(10 * tick)
	require.True(t, m.reach())
	require.Empty(t, m.problems())
	var got uint64
	for _, n := range m.all {
		require.Empty(t, n.pool.lost)
		require.Len(t, n.open(), min(2*following, len(m.all)-1))
		for _, p := range n.open() {
			got += p.got
		}
	}
	require.NotZero(t, m.died)
	require.NotZero(t, got)
	back := m.now.Sub(end.Add(-10 * time.Second))
	t.Logf("%d deaths, %d stood still; %d packets in the last sessions; all are back after %v", m.died, m.still, got, back)
}
