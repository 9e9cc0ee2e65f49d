package pool

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/shm"
)

// blank makes pages zero, as those of a file are that has become shorter and then longer.
func (w *world) blank(at, n uint64) { clear(w.heap.Bytes()[at:][:n]) }

// A node whose own pages are lost while nobody has looked at them since is closed like any other: no port
// keeps memory of the pool, which is unmapped then.
func TestCloseWithLostMemory(t *testing.T) {
	w, n := lossyWorld(t, 3, Config{Slots: 8, Data: 4096, MTU: 1024})
	talk(t, w, n[0], n[1])
	talk(t, w, n[0], n[2])
	w.lose(n[0].pool.part+pairsAt, shm.PageSize)
	require.NoError(t, n[0].pool.Close())
	require.Empty(t, n[0].open(), "ports that still have the memory")
}

// The number of a node whose own pages were lost is another engine's now. The node does not come back as that
// one: it would write into the part of another.
func TestLostNumberIsTaken(t *testing.T) {
	w, n := lossyWorld(t, 3, Config{Slots: 8, Data: 4096, MTU: 1024})
	talk(t, w, n[0], n[2])
	part := n[1].pool.part
	restore := w.lose(part, n[1].pool.header.ringsAt())
	w.until(time.Second, func() bool { return n[1].pool.lost != "" }, "the node has left")
	w.pass(2 * time.Second)
	n[1].paused = true
	restore()
	w.blank(part, n[1].pool.header.ringsAt())
	other := w.mustStart(Config{Node: 1, Nodes: 8})
	w.pass(2 * mostRest)
	talk(t, w, n[0], other)
	n[1].paused = false
	w.pass(3 * mostRest)
	require.Zero(t, other.pool.repairs, "somebody has written into its part")
	require.Empty(t, other.pool.lost)
	require.NotEmpty(t, n[1].pool.lost)
	same(t, w, n[0], n[2])
	w.kill(other)
	w.until(3*mostRest, func() bool { return n[1].pool.lost == "" }, "the number is free again")
}

// The file of a node that has lost its pages is a pool of another form now, or none. The node leaves the
// header as it is.
func TestLostNodeKeepsTheHeaderOfOthers(t *testing.T) {
	w, n := lossyWorld(t, 1, Config{Slots: 8, Data: 4096, MTU: 1024})
	restore := w.lose(n[0].pool.part, shm.PageSize)
	w.until(time.Second, func() bool { return n[0].pool.lost != "" }, "the node has left")
	restore()
	var b [headerSize]byte
	h := n[0].pool.header
	h.put(&b)
	be.PutUint16(b[8:], versionSums+1)
	be.PutUint64(b[56:], headerSum(&b))
	n[0].pool.view.write(0, b[:])
	w.pass(3 * mostRest)
	var now [headerSize]byte
	n[0].pool.view.read(0, now[:])
	require.Equal(t, b, now)
	require.NotEmpty(t, n[0].pool.lost)
}

// Somebody formats the pool for fewer nodes. A node that was given no number, and whose number there is not
// any more, takes another one.
func TestFewerNodes(t *testing.T) {
	w := newSizedWorld(t, 1, 2<<20)
	for i := range 5 {
		cfg := Config{Node: AnyNode}
		if i == 0 {
			cfg.Nodes = 8
		}
		w.mustStart(cfg)
	}
	h, err := plan(&Config{Node: AnyNode, Nodes: 2}, uint64(w.size))
	require.NoError(t, err)
	h.identity = 5
	w.nodes[1].pool.format(&h)
	w.pass(20 * time.Second)
	taken := make(map[int]int)
	for _, a := range w.nodes {
		if a.pool.lost == "" {
			require.Less(t, a.pool.number, 2)
			taken[a.pool.number]++
		}
	}
	require.Equal(t, map[int]int{0: 1, 1: 1}, taken)
}
