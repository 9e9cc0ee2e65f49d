package pool

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/explore"
	"github.com/stretchr/testify/require"
)

// Nodes are started, killed, stopped and continued at random. In the middle of what a node does,
// others may run. No packet is lost, repeated, changed or taken from an earlier session while
// a link is up, and at the end all links are up.
func TestNodesComeAndGo(t *testing.T) {
	seeds := uint64(explore.Rounds(6, 30))
	for seed := range seeds {
		w := newIncoherentWorld(t, seed)
		w.interleave, w.evict = true, seed%2 == 0
		w.lazy = int(seed % 3 * 4)
		rng := rand.New(rand.NewPCG(seed, 1))
		nodes := [3]*node{w.mustStart(Config{Node: 0, Dead: 100 * time.Millisecond})}
		for range 60 {
			i := rng.IntN(3)
			n := nodes[i]
			switch {
			case n == nil:
				nodes[i] = w.mustStart(Config{Node: i, Dead: 100 * time.Millisecond})
			case rng.IntN(3) == 0:
				w.kill(n)
				if rng.IntN(2) == 0 {
					n.paused = true // no other node runs in the middle of this
					require.NoError(t, n.pool.Close())
				}
				nodes[i] = nil
			default:
				n.paused = !n.paused
			}
			w.pass(time.Duration(rng.IntN(30)) * tick)
			require.Empty(t, w.problems(), "seed %d", seed)
		}
		for i, n := range nodes {
			if n == nil {
				nodes[i] = w.mustStart(Config{Node: i, Dead: 100 * time.Millisecond})
			} else {
				n.paused = false
			}
		}
		w.until(2*time.Second, func() bool {
			for i, n := range nodes {
				if !n.up((i+1)%3) || !n.up((i+2)%3) {
					return false
				}
			}
			return true
		}, "all links are up")
		w.pass(100 * time.Millisecond)
		require.Empty(t, w.problems(), "seed %d", seed)
		for _, n := range nodes {
			require.Len(t, n.open(), 2)
		}
	}
}

// A pool whose contents others overwrite harms no node: no node panics or waits, and no engine uses
// a ring while its link is down.
func FuzzHostilePool(f *testing.F) {
	f.Add(uint64(1), []byte("\x00\x00\x00\x00\xff"), uint8(3))
	f.Add(uint64(2), []byte("\x00\x10\x00\x08\x00"), uint8(1))
	f.Add(uint64(3), []byte("\x02\x10\x00\x00\x01\x02\x20\x1c\x00\xff\x02\x20\x1c\x01\xff"), uint8(9))
	f.Fuzz(func(t *testing.T, seed uint64, changes []byte, runs uint8) {
		w := newWorld(t, seed)
		a := w.mustStart(Config{Node: 0, Nodes: 3, Slots: 8, Data: 4096, MTU: 256, Size: 512 << 10})
		b, err := w.start(Config{Node: 1, Size: 512 << 10})
		require.NoError(t, err)
		w.pass(10 * tick)
		mem := w.heap.Bytes()[:a.pool.header.size]
		changes = changes[:min(len(changes), 5*32)] // each may take 7 ticks, and no input may take long
		for len(changes) >= 5 {
			at := int(be.Uint32(changes)) % len(mem)
			mem[at] = changes[4]
			if changes[0]&1 != 0 {
				be.PutUint64(mem[at&^7:], w.rng.Uint64()>>w.rng.IntN(64))
			}
			changes = changes[5:]
			w.pass(time.Duration(runs%8) * tick)
		}
		w.pass(20 * tick)
		for _, n := range []*node{a, b} {
			for _, p := range n.ports {
				require.False(t, p.up && p.closed)
			}
			n.pool.Peers()
			require.NoError(t, n.pool.Close())
			require.Empty(t, n.open())
		}
	})
}

// The same with random changes, many of them where they matter.
func TestHostilePool(t *testing.T) {
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		a := w.mustStart(Config{Node: 0, Nodes: 3, Slots: 8, Data: 4096, MTU: 256, Size: 512 << 10})
		b := w.mustStart(Config{Node: 1, Size: 512 << 10})
		w.pass(10 * tick)
		mem, h := w.heap.Bytes()[:a.pool.header.size], a.pool.header
		for range 40 {
			at := w.rng.IntN(len(mem))
			switch w.rng.IntN(5) {
			case 0: // header, lives and lines about others
				at = int(h.partAt(w.rng.IntN(3))) + w.rng.IntN(128)
			case 1:
				at = int(h.partAt(w.rng.IntN(3)) + describeAt + uint64(w.rng.IntN(256)))
			case 3:
				at = int(h.partAt(w.rng.IntN(3))+boardAt) + w.rng.IntN(128)
			case 2:
				at = int(h.pairAt(w.rng.IntN(2), 0)) + w.rng.IntN(1024)
			}
			be.PutUint64(mem[at&^7:], w.rng.Uint64()>>w.rng.IntN(64))
			w.pass(time.Duration(w.rng.IntN(4)) * tick)
		}
		for _, n := range []*node{a, b} {
			require.NoError(t, n.pool.Close())
			require.Empty(t, n.open())
		}
	}
}

// A header or a description that is accepted is inside of its limits, and is written again as the same bytes.
func FuzzFormats(f *testing.F) {
	var b [headerSize]byte
	h, err := plan(&Config{Nodes: 3}, 64<<20)
	require.NoError(f, err)
	h.put(&b)
	f.Add(b[:], uint64(64<<20))
	h.sums = true
	h.put(&b)
	f.Add(b[:], uint64(64<<20))
	d := description{guid: 1, host: 2, mtu: 4096, wakes: true, names: true, name: "engine", addresses: []Address{{LID: 3}, {GID: [16]byte{1}}}}
	var text [describeSize]byte
	f.Add(text[:d.put(&text)], uint64(0))
	f.Fuzz(func(t *testing.T, in []byte, memory uint64) {
		if len(in) >= headerSize {
			b := [headerSize]byte(in)
			be.PutUint64(b[0:], magic)
			be.PutUint64(b[56:], headerSum(&b))
			if h, err := parseHeader(&b, memory); err == nil {
				require.LessOrEqual(t, h.size, memory)
				require.LessOrEqual(t, h.partAt(h.nodes-1)+h.ringsAt()+uint64(h.ring.RingSize()), h.size)
				var again [headerSize]byte
				h.put(&again)
				require.Equal(t, b, again)
			}
		}
		if len(in) < headSize {
			return
		}
		n, err := addresses(in)
		if err != nil || len(in) < headSize+n*addressSize {
			return
		}
		in = in[:headSize+n*addressSize]
		be.PutUint64(in[56:], describeSum(in))
		if d, err := parseDescription(in); err == nil {
			require.Len(t, d.addresses, n)
			require.NotZero(t, d.guid)
			var again [describeSize]byte
			require.Equal(t, len(in), d.put(&again))
			same, err := parseDescription(again[:len(in)])
			require.NoError(t, err)
			if len(d.name) <= nameSize { // a name that is no UTF-8 is quoted
				require.Equal(t, d, same)
			}
		}
	})
}
