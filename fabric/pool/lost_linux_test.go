package pool

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
)

// lossyWorld is a world over a mapped file, whose pages can be lost.
func lossyWorld(t *testing.T, nodes int, cfg Config) (*world, []*node) {
	f, err := os.Create(filepath.Join(t.TempDir(), "pool"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	const size = 2 << 20
	require.NoError(t, f.Truncate(size))
	r, err := shm.AttachPart(f, 0, size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	w := &world{t: t, path: f.Name(), now: time.Unix(1e9, 0), rng: newWorld(t, 1).rng, size: size, heap: r, byNeed: true}
	var all []*node
	for i := range nodes {
		c := cfg
		if c.Node != AnyNode {
			c.Node = i
		}
		c.Nodes = 8
		all = append(all, w.mustStart(c))
	}
	w.pass(10 * tick)
	return w, all
}

// lose loses pages, as the kernel does when memory fails. The result brings them back.
func (w *world) lose(at, n uint64) (restore func()) {
	pages := w.heap.Bytes()[at:][:n]
	require.NoError(w.t, unix.Mprotect(pages, unix.PROT_NONE))
	restore = func() { require.NoError(w.t, unix.Mprotect(pages, unix.PROT_READ|unix.PROT_WRITE)) }
	w.t.Cleanup(restore)
	return restore
}

// same checks that two nodes still use the session with which they began, and that packets travel.
func same(t *testing.T, w *world, a, b *node) {
	t.Helper()
	talk(t, w, a, b)
	require.EqualValues(t, 1, a.link(b.number).pair.port.(*port).run, "running links do not notice")
}

// Each page of a ring can be lost. The link whose ring it is goes down, and says which page; all others go
// on. The pair gets a ring in other pages when it is needed again.
func TestLostRing(t *testing.T) {
	w, n := lossyWorld(t, 3, Config{Slots: 8, Data: 8192, MTU: 1024})
	talk(t, w, n[0], n[1])
	talk(t, w, n[0], n[2])
	talk(t, w, n[1], n[2])
	rings := n[0].pool.part + n[0].pool.header.ringsAt()
	free := n[0].pool.share.pages()
	var back []func()
	for i := range uint32(2) {
		page := n[0].link(1).pair.growth.now.at + i
		back = append(back, w.lose(rings+uint64(page)*shm.PageSize, shm.PageSize))
		down := func(l *link) func() bool { return func() bool { return !l.up && l.pair == nil } }
		w.until(time.Minute, down(n[0].link(1)), "the link is down")
		w.until(time.Minute, down(n[1].link(0)), "the link is down at the other node")
		whys := n[0].link(1).why + n[1].link(0).why
		require.Contains(t, whys, "of the rings of node 0, is gone: has somebody made the file shorter")
		w.pass(mostRest) // the rests
		talk(t, w, n[0], n[1])
		require.NotEqual(t, page, n[0].link(1).pair.growth.now.at, "the ring is elsewhere")
		require.Contains(t, n[0].pool.share.lost, page)
	}
	same(t, w, n[0], n[2])
	same(t, w, n[1], n[2])
	for _, f := range back {
		f()
	}
	w.until(3*mostRest, func() bool { return len(n[0].pool.share.lost) == 0 }, "the pages are used again")
	w.until(fenceTime+time.Second, func() bool { return n[0].pool.share.pages() == free }, "all memory is free again")
	same(t, w, n[0], n[2])
	require.Empty(t, w.problems())
}

// The node whose ring it is has not touched the page, only its peer has. It finds that before it offers the
// ring again.
func TestLostRingOfThePeer(t *testing.T) {
	w, n := lossyWorld(t, 2, Config{Slots: 8, Data: 8192, MTU: 1024})
	talk(t, w, n[0], n[1])
	w.quiet = true
	w.pass(tick)
	page := n[0].link(1).pair.growth.now.at + 2
	at := n[0].pool.part + n[0].pool.header.ringsAt() + uint64(page)*shm.PageSize
	w.lose(at, shm.PageSize)
	touched := byte(0)
	n[1].ports[0].survive(func() { touched = w.heap.Bytes()[at] })
	require.Zero(t, touched)
	w.pass(10 * tick)
	require.Contains(t, n[1].link(0).why, "of the rings of node 0, is gone")
	require.Contains(t, n[0].pool.share.lost, page)
}

// The pages are lost in which a node says what it is. It leaves, and comes back with its number when they are
// there again. The others talk meanwhile.
func TestLostNode(t *testing.T) {
	for _, at := range []uint64{0, boardAt, pairsAt} {
		w, n := lossyWorld(t, 3, Config{Slots: 8, Data: 4096, MTU: 1024})
		talk(t, w, n[0], n[1])
		talk(t, w, n[0], n[2])
		restore := w.lose(n[1].pool.part+at, shm.PageSize)
		w.until(time.Second, func() bool { return n[1].pool.lost != "" }, "the node has left")
		require.Contains(t, n[1].pool.Peers()[0].Why, "in what node 1 says of itself, is gone")
		w.until(2*soonDead, func() bool { return !n[0].up(1) }, "the others see that")
		same(t, w, n[0], n[2])
		w.pass(5 * time.Second)
		require.NotEmpty(t, n[1].pool.lost)
		restore()
		w.until(2*mostRest, func() bool { return n[1].pool.lost == "" }, "the node is back")
		require.Equal(t, 1, n[1].pool.number)
		w.until(2*mostRest, func() bool { return n[0].link(1).alive }, "it is seen")
		talk(t, w, n[0], n[1])
		same(t, w, n[0], n[2])
	}
}

// A node that was given no number takes another one if a page of its own is lost for ever: that of its life,
// its board, or pairs of its table.
func TestLostNodeMoves(t *testing.T) {
	for _, at := range []uint64{0, boardAt, pairsAt} {
		w, n := lossyWorld(t, 3, Config{Node: AnyNode, Slots: 8, Data: 4096, MTU: 1024})
		for _, a := range n {
			a.number = a.pool.number
		}
		talk(t, w, n[0], n[1])
		talk(t, w, n[0], n[2])
		before := n[1].pool.number
		w.lose(n[1].pool.part+at, shm.PageSize)
		w.until(20*time.Second, func() bool { return n[1].pool.lost == "" && n[1].pool.number != before }, "another number")
		n[1].number = n[1].pool.number
		w.until(time.Second, func() bool { return n[0].link(n[1].number).alive }, "it is seen")
		talk(t, w, n[0], n[1])
		same(t, w, n[0], n[2])
	}
}

// A pool whose header is lost goes on, and so does one in whose other parts memory is lost.
func TestLostHeader(t *testing.T) {
	w, n := lossyWorld(t, 2, Config{Slots: 8, Data: 4096, MTU: 1024})
	talk(t, w, n[0], n[1])
	restore := w.lose(0, shm.PageSize)
	w.lose(n[0].pool.header.partAt(5), shm.PageSize)
	w.pass(5 * time.Second)
	same(t, w, n[0], n[1])
	restore()
	w.pass(time.Second)
	w.mustStart(Config{Node: 2, Nodes: 8})
	w.pass(time.Second)
	require.True(t, n[0].link(2).alive)
	same(t, w, n[0], n[1])
}

// A file that three processes have mapped is made shorter, so that the rings of node 2 are lost, then also
// its own pages, then everything. Nodes 0 and 1 talk as long as their memory is there, and all nodes talk
// again when the file has its length.
func TestProcessesLoseMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	e := newLiveEngine(1)
	defer e.end()
	p, err := Open(t.Context(), e, Config{Path: path, Dead: time.Minute, Nodes: 3, Size: 3 << 20})
	require.NoError(t, err)
	for i := 1; i < 3; i++ {
		t.Setenv(childNode+"_NUMBER", string(rune('0'+i)))
		cmd, end := child(t, path, uint64(10+i), time.Minute)
		require.NoError(t, cmd.Start())
		defer func() {
			end()
			require.NoError(t, cmd.Wait())
		}()
	}
	echoes := func(guid uint64) uint64 {
		p.Route(nic.Address{GUID: guid}) // opens the rings
		for _, s := range p.Peers() {
			if s.GUID == guid && s.Up {
				return s.Stats.Received
			}
		}
		return 0
	}
	talks := func(guid uint64) {
		t.Helper()
		state := func() any { return p.Peers() }
		var before uint64
		await.Until(t, "the link is up", func() bool { before = echoes(guid); return before > 0 }, state)
		await.Until(t, "packets are echoed", func() bool { return echoes(guid) > before+50 }, state)
	}
	why := func(guid uint64) func() bool {
		return func() bool { return p.Why(nic.Address{GUID: guid}) != "" }
	}
	talks(11)
	talks(12)
	// The ports with node 1, all of which there have ever been.
	ports := func() (n int) {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, o := range e.ports {
			if o.cfg.Name == p.Name()+" node 1" {
				n++
			}
		}
		return n
	}
	require.Equal(t, 1, ports())
	size := int64(p.header.size)
	at := int64(p.header.partAt(2))
	for _, length := range []int64{at + int64(p.header.ringsAt()), at} {
		require.NoError(t, os.Truncate(path, length))
		await.Until(t, "the link with node 2 is down", why(12), func() any { return p.Peers() })
		talks(11)
		require.Equal(t, 1, ports(), "the link with node 1 has not noticed")
		require.NoError(t, os.Truncate(path, size))
		talks(12)
	}
	require.NoError(t, os.Truncate(path, 0))
	await.Until(t, "this node leaves", func() bool {
		s := p.Peers()
		return len(s) > 0 && s[0].Name == "this node"
	}, func() any { return p.Peers() })
	require.NoError(t, os.Truncate(path, size))
	talks(11)
	talks(12)
	require.NoError(t, p.Close())
}

// A file that was shorter for a moment costs no memory for long.
func TestLostPagesComeBackSoon(t *testing.T) {
	p := newSizedWorld(t, 1, 4<<20).mustStart(Config{Nodes: 2}).pool
	all := p.share.pages()
	require.Greater(t, all, uint64(4*mostReturns))
	for page := range uint32(all) {
		p.share.setAside(page)
	}
	require.Zero(t, p.share.pages())
	p.takeBack(p.clock.ran)
	require.Equal(t, all, p.share.pages(), "all of them are there")
}
