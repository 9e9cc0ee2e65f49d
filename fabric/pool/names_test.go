package pool

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/model/rack"
)

// erase writes 0 where a node says which nodes its table names, as another program may.
func (n *node) erase() { clear(n.w.heap.Bytes()[n.pool.part+namesAt:][:namesSize]) }

// offerTo lets a node open rings to another one, which does not look meanwhile.
func (n *node) offerTo(to *node) {
	to.paused = true
	n.link(to.number).wanted.Store(true)
	n.w.until(time.Second, func() bool {
		r := n.link(to.number).pair
		return r != nil && r.mine != 0
	}, "it offers a session")
	to.paused = false
}

// A node does not read the tables of others that have changed and do not name it.
func TestTablesOfOthersAreNotSearched(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 4, Config{})
	for _, bystander := range []*node{n[0], n[3]} {
		c := &counter{heap: w.heap, h: n[0].pool.header, node: bystander.number}
		c.reset()
		bystander.pool.view.cache = c
		talk(t, w, n[1], n[2])
		w.pass(4 * tick)
		require.NotZero(t, c.lines[rack.Directory].Read)
		require.NotZero(t, c.lines[rack.Own].Read, "it looks which nodes the tables name")
		require.NotContains(t, c.lines, rack.Sessions)
		talk(t, w, n[1], bystander)
		require.NotZero(t, c.lines[rack.Sessions].Read)
		n[1].link(2).close("the test ends it")
	}
}

// A node of an earlier release does not say which nodes its table names. Its pairs are found all the same.
func TestTableOfAnEarlierReleaseIsSearched(t *testing.T) {
	for _, earlier := range []bool{true, false} {
		_, n := needWorld(t, 1, 4<<20, 3, Config{})
		n[1].pool.description.names = !earlier
		n[1].describe()
		n[1].offerTo(n[0])
		n[1].erase()
		n[0].loops()
		require.Equal(t, earlier, n[0].link(1).theirs >= 0)
	}
}

// A node searches no more than mostSearches tables in a tick. Those that are left are searched with the next.
func TestTablesThatAreLeftAreSearchedLater(t *testing.T) {
	const nodes = mostSearches + 9
	w, n := needWorld(t, 1, nodes*64<<10+partsAt, nodes, Config{Slots: 8, Data: 4096, MTU: 1024})
	n[0].paused = true
	for _, other := range n[1:] {
		other.link(0).wanted.Store(true)
	}
	w.until(time.Second, func() bool {
		return !slices.ContainsFunc(n[1:], func(other *node) bool {
			r := other.link(0).pair
			return r == nil || r.mine == 0
		})
	}, "all offer a session")
	n[0].paused = false
	found := func() (sum int) {
		for i := 1; i < nodes; i++ {
			if n[0].link(i).theirs >= 0 {
				sum++
			}
		}
		return sum
	}
	n[0].loops()
	require.Equal(t, mostSearches, found())
	n[0].loops()
	require.Equal(t, nodes-1, found())
}

// Others overwrite the description of a node of an earlier release, so that it says which nodes its table
// names. When the node has written it again, the table is searched.
func TestWrongFlagOfAnEarlierRelease(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 2, Config{})
	b := n[1].pool
	b.description.names = false
	wrong := b.description
	wrong.names = true
	b.view.describe(b.part, &wrong)
	n[1].claimNews()
	n[1].offerTo(n[0])
	n[1].erase()
	b.named = nameSet{} // so it does not restore them
	n[0].loops()
	require.True(t, n[0].link(1).desc.names)
	require.Less(t, n[0].link(1).theirs, 0)
	w.pass(2 * ownPeriod)
	require.False(t, n[0].link(1).desc.names, "it has written its description again")
	talk(t, w, n[1], n[0])
}

// Whatever others write there, a node is found, and a link that is up stays up.
func TestNamesAreOverwritten(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 3, Config{})
	n[1].offerTo(n[0])
	n[1].erase()
	n[0].loops()
	require.Less(t, n[0].link(1).theirs, 0)
	talk(t, w, n[0], n[1])

	n[1].erase()
	n[1].pool.reportChange()
	w.pass(4 * tick)
	require.EqualValues(t, 1, n[0].ports[0].run, "the link is up: %s", w.describe())

	names := w.heap.Bytes()[n[1].pool.part+namesAt:][:namesSize]
	for i := range names {
		names[i] = 0xff
	}
	n[1].pool.reportChange()
	w.pass(4 * tick)
	require.Less(t, n[2].link(1).theirs, 0)
	talk(t, w, n[1], n[2])
}

// The bits are those of the nodes that the table names.
func TestNamesFollowTheTable(t *testing.T) {
	w := newSizedWorld(t, 1, 32<<20)
	w.byNeed = true
	a := w.mustStart(Config{Node: 0, Nodes: 70})
	named := func() (list []int) {
		for i := range 70 {
			if a.pool.view.names(a.pool.part, i) {
				list = append(list, i)
			}
		}
		return list
	}
	for _, i := range []int{1, 63, 64, 69} {
		talk(t, w, a, w.mustStart(Config{Node: i}))
	}
	require.Equal(t, []int{1, 63, 64, 69}, named())
	a.link(63).close("the test ends it")
	require.Equal(t, []int{1, 64, 69}, named())
	a.pool.gone.Store(true) // so it writes nothing when it leaves
	a.pool.leave("the test ends it")
	a.pool.gone.Store(false)
	require.Equal(t, []int{1, 64, 69}, named())
	a.pool.join(a.pool.header)
	require.Empty(t, named())
	require.Zero(t, a.pool.named, "nor does it take a name for written that is not")
}

// A namer is called when a node makes stores visible. It is the Cache of a node whose
// memory is coherent all the same.
type namer func()

func (f namer) WriteBack([]byte)  { f() }
func (f namer) Invalidate([]byte) {}

// Whenever a node dies, all nodes that its table names are named by the bits, too.
func TestNamesAreNeverMissing(t *testing.T) {
	w, n := needWorld(t, 1, 4<<20, 4, Config{})
	v, h := &view{mem: w.heap.Bytes()}, &n[0].pool.header
	found := 0
	for _, a := range n {
		a.pool.view.cache = namer(func() {
			for i := range h.pairs() {
				if peer := peerOf(v.word(h.pairAt(a.number, i) + peerAt)); peer >= 0 {
					require.True(t, v.names(a.pool.part, peer), "node %d does not name node %d", a.number, peer)
					found++
				}
			}
		})
	}
	for range 3 {
		for i := range n {
			talk(t, w, n[i], n[(i+1)%len(n)])
			n[i].link((i + 1) % len(n)).close("the test ends it")
		}
	}
	require.NotZero(t, found)
}
