package order

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A flat is memory of a few words.
type flat map[uint64]byte

func (f flat) Load(address uint64, size int) (v uint64) {
	for k := range uint64(size) {
		v |= uint64(f[address+k]) << (8 * k)
	}
	return v
}

func (f flat) Store(address uint64, size int, v uint64) {
	for k := range uint64(size) {
		f[address+k] = byte(v >> (8 * k))
	}
}

const x, y = 0x1000, 0x2000

// A thread is a lane of a litmus test, which does one step at a time.
type thread []func(l *Lane, r map[string]uint64)

func st(at, v uint64) func(*Lane, map[string]uint64) {
	return func(l *Lane, _ map[string]uint64) { l.Store(at, 8, v, int(at>>12)) }
}

func rel(at, v uint64, s Scope) func(*Lane, map[string]uint64) {
	return func(l *Lane, _ map[string]uint64) { l.Release(at, 8, v, s, int(at>>12)) }
}

func ld(name string, at uint64, s Scope) func(*Lane, map[string]uint64) {
	return func(l *Lane, r map[string]uint64) { r[name] = l.Load(at, 8, s, false) }
}

func acq(name string, at uint64, s Scope) func(*Lane, map[string]uint64) {
	return func(l *Lane, r map[string]uint64) { r[name] = l.Load(at, 8, s, true) }
}

func fence(s Scope) func(*Lane, map[string]uint64) {
	return func(l *Lane, _ map[string]uint64) { l.Fence(s, true) }
}

// outcomes runs threads, each in the block with its number, with many seeds, and counts the values that their
// loads had.
func outcomes(blocks []int, threads []thread, names ...string) map[string]int {
	seen := map[string]int{}
	for seed := range uint64(2000) {
		m := New(flat{}, seed)
		all := map[int]*Shared{}
		var lanes []*Lane
		for _, n := range blocks {
			if all[n] == nil {
				all[n] = m.NewBlock()
			}
			lanes = append(lanes, all[n].NewLane())
		}
		at := make([]int, len(threads))
		r := map[string]uint64{}
		for left := len(threads); left > 0; {
			k := m.rng.IntN(len(threads))
			if at[k] == len(threads[k]) {
				continue
			}
			for range m.rng.IntN(2) * m.rng.IntN(400) { // others do something
				m.tick()
			}
			threads[k][at[k]](lanes[k], r)
			at[k]++
			if at[k] == len(threads[k]) {
				left--
			}
		}
		text := ""
		for _, n := range names {
			text += fmt.Sprint(r[n])
		}
		seen[text]++
	}
	return seen
}

var apart, same = []int{0, 1, 2, 3}, []int{0, 0, 0, 0}

// Message passing: a flag is seen, and the data before it is not, unless both sides order them in a scope
// that has both lanes.
func TestMessagePassing(t *testing.T) {
	for _, c := range []struct {
		name    string
		blocks  []int
		write   thread
		read    thread
		allowed bool
	}{
		{"weak", apart, thread{st(x, 1), st(y, 1)}, thread{ld("f", y, System), ld("d", x, Weak)}, true},
		{"fence of the GPU", apart, thread{st(x, 1), fence(GPU), st(y, 1)}, thread{ld("f", y, GPU), fence(GPU), ld("d", x, Weak)}, false},
		{"release and acquire", apart, thread{st(x, 1), rel(y, 1, GPU)}, thread{acq("f", y, GPU), ld("d", x, Weak)}, false},
		{"release of the block, apart", apart, thread{st(x, 1), rel(y, 1, Block)}, thread{acq("f", y, GPU), ld("d", x, Weak)}, true},
		{"release of the block", same, thread{st(x, 1), rel(y, 1, Block)}, thread{acq("f", y, Block), ld("d", x, Weak)}, false},
		{"no acquire", apart, thread{ld("o", x, Weak), st(x, 1), rel(y, 1, System)}, thread{ld("o", x, Weak), ld("f", y, System), ld("d", x, Weak)}, true},
		{"no acquire of strong loads", apart, thread{st(x, 1), rel(y, 1, GPU)}, thread{ld("f", y, GPU), ld("d", x, GPU)}, true},
		{"acquire of strong loads", apart, thread{st(x, 1), rel(y, 1, GPU)}, thread{acq("f", y, GPU), ld("d", x, GPU)}, false},
		{"no release", apart, thread{st(x, 1), st(y, 1)}, thread{acq("f", y, System), ld("d", x, Weak)}, true},
	} {
		seen := outcomes(c.blocks[:2], []thread{c.write, c.read}, "f", "d")
		require.Equal(t, c.allowed, seen["10"] > 0, "%s: %v", c.name, seen)
		require.Positive(t, seen["11"], c.name)
		require.Positive(t, seen["00"], c.name)
	}
}

// To acquire one thing says nothing about another, even if it was stored later.
func TestAcquireOfAnother(t *testing.T) {
	const other = 0x3000
	seen := map[uint64]int{}
	for seed := range uint64(500) {
		m := New(flat{}, seed)
		a, b, c := m.NewBlock().NewLane(), m.NewBlock().NewLane(), m.NewBlock().NewLane()
		a.Load(x, 8, Weak, false)
		b.Store(x, 8, 1, 1)
		b.Release(y, 8, 1, GPU, 2)
		c.Release(other, 8, 1, GPU, 3)
		for a.Load(other, 8, GPU, true) == 0 {
		}
		for a.Load(y, 8, GPU, false) == 0 {
		}
		seen[a.Load(x, 8, Weak, false)]++
	}
	require.Positive(t, seen[0], "%v", seen)
	require.Positive(t, seen[1], "%v", seen)
}

// An atomic operation is no acquire, for what is beside its word in a line neither.
func TestAtomicBeside(t *testing.T) {
	for _, acquire := range []bool{false, true} {
		take := func(l *Lane, r map[string]uint64) {
			r["f"] = l.Atomic(x, 8, GPU, acquire, false, func() uint64 {
				raw := l.block.memory.raw
				old := raw.Load(x, 8)
				raw.Store(x, 8, old+1)
				return old
			})
			r["own"] = l.Load(x, 8, Weak, false)
		}
		seen := outcomes(apart[:2], []thread{
			{st(x+8, 1), rel(x, 1, GPU)}, {ld("o", x+8, Weak), take, ld("d", x+8, Weak)},
		}, "f", "own", "d")
		require.Equal(t, !acquire, seen["120"] > 0, "%v", seen)
		require.Positive(t, seen["121"], "%v", seen)
		require.Zero(t, seen["110"]+seen["111"], "%v", seen)
	}
}

// Store buffering: both lanes see the old value of the other one's word, unless fences of a scope that has
// both are between.
func TestStoreBuffering(t *testing.T) {
	for _, c := range []struct {
		blocks  []int
		scope   Scope
		allowed bool
	}{{apart, Weak, true}, {apart, Block, true}, {apart, GPU, false}, {apart, System, false},
		{same, Block, false}} {
		seen := outcomes(c.blocks[:2], []thread{
			{st(x, 1), fence(c.scope), ld("a", y, System)}, {st(y, 1), fence(c.scope), ld("b", x, System)},
		}, "a", "b")
		require.Equal(t, c.allowed, seen["00"] > 0, "%v: %v", c.scope, seen)
	}
}

// Fences that are not sequentially consistent do not forbid store buffering.
func TestStoreBufferingAcquireRelease(t *testing.T) {
	fence := func(l *Lane, _ map[string]uint64) { l.Fence(GPU, false) }
	seen := outcomes(apart[:2], []thread{
		{ld("o", y, System), st(x, 1), fence, ld("a", y, System)}, {ld("o", x, System), st(y, 1), fence, ld("b", x, System)},
	}, "a", "b")
	require.Positive(t, seen["00"], "%v", seen)
}

// Causality is transitive, in a block too: what a lane has acquired from another block, those see who acquire
// from it in the scope of their block.
func TestTransitive(t *testing.T) {
	seen := outcomes([]int{0, 1, 1}, []thread{
		{st(x, 1), rel(y, 1, GPU)}, {acq("f", y, GPU), rel(0x3000, 1, Block)},
		{ld("o", x, Weak), acq("g", 0x3000, Block), ld("d", x, GPU)},
	}, "f", "g", "d")
	require.Positive(t, seen["111"], "%v", seen)
	require.Zero(t, seen["110"], "%v", seen)
}

// Independent reads of independent writes: two readers disagree about the order, which fences forbid.
func TestIRIW(t *testing.T) {
	for _, c := range []struct {
		blocks  []int
		scope   Scope
		allowed bool
	}{{[]int{0, 1, 0, 1}, Weak, true}, {apart, GPU, false}, {apart, System, false}} {
		read := func(p, q string, first, second uint64) thread {
			return thread{ld(p, first, System), fence(c.scope), ld(q, second, System)}
		}
		seen := outcomes(c.blocks, []thread{
			{st(x, 1)}, {st(y, 1)}, read("a", "b", x, y), read("c", "d", y, x),
		}, "a", "b", "c", "d")
		require.Equal(t, c.allowed, seen["1010"] > 0, "%v: %v", c.scope, seen)
	}
}

// Coherence: strong loads of one word never go back, and a lane sees its own stores.
func TestCoherence(t *testing.T) {
	for _, blocks := range [][]int{apart, same} {
		seen := outcomes(blocks[:2], []thread{
			{st(x, 1), ld("o", x, Weak), st(x, 2), ld("p", x, Weak)}, {ld("a", x, System), ld("b", x, System)},
		}, "o", "p", "a", "b")
		for text := range seen {
			require.Equal(t, "12", text[:2])
			require.LessOrEqual(t, text[2], text[3], text)
		}
	}
}

// The system sees what a fence of its scope has moved, and a release for the GPU is not for the system.
func TestSystem(t *testing.T) {
	for _, c := range []struct {
		scope   Scope
		allowed bool
	}{{GPU, true}, {System, false}} {
		wrong := 0
		for seed := range uint64(2000) {
			memory := flat{}
			m := New(memory, seed)
			l := m.NewBlock().NewLane()
			l.Store(x, 8, 1, 7)
			l.Release(y, 8, 1, c.scope, 9)
			for memory.Load(y, 8) == 0 {
				l.Load(0x3000, 8, System, false)
			}
			if memory.Load(x, 8) == 0 {
				wrong++
				require.Contains(t, m.Late(), Pair{7, 9, GPU})
			} else {
				require.NotContains(t, m.Late(), Pair{7, 9, Weak})
			}
			m.Flush()
			require.EqualValues(t, 1, memory.Load(x, 8))
		}
		require.Equal(t, c.allowed, wrong > 0, "%v: %d", c.scope, wrong)
	}
}

// Causality goes through the device, too: who acquires what it has stored sees what it had acquired.
func TestTransitiveByDevice(t *testing.T) {
	const flag, done = 0x3000, 0x4000
	for _, c := range []struct {
		scope   Scope
		allowed bool
	}{{GPU, true}, {System, false}} {
		stale := 0
		for seed := range uint64(2000) {
			memory := flat{}
			m := New(memory, seed)
			a, b := m.NewBlock().NewLane(), m.NewBlock().NewLane()
			b.Load(x, 8, GPU, false)
			a.Store(x, 8, 1, 7)
			a.Release(flag, 8, 1, c.scope, 9)
			for memory.Load(flag, 8) == 0 {
				a.Load(0x5000, 8, System, false)
			}
			memory.Store(done, 8, 1) // the device has acquired flag
			for b.Load(done, 8, System, true) == 0 {
			}
			if b.Load(x, 8, GPU, false) == 0 {
				stale++
			}
		}
		require.Equal(t, c.allowed, stale > 0, "%v: %d", c.scope, stale)
	}
}

// Atomic operations see all earlier ones, and lose none.
func TestAtomics(t *testing.T) {
	for seed := range uint64(500) {
		memory := flat{}
		m := New(memory, seed)
		var lanes []*Lane
		for k := range 4 {
			b := m.NewBlock()
			lanes = append(lanes, b.NewLane(), b.NewLane())
			_ = k
		}
		for n := range uint64(64) {
			l := lanes[m.rng.IntN(len(lanes))]
			old := l.Atomic(x, 8, GPU, false, false, func() uint64 {
				old := memory.Load(x, 8)
				memory.Store(x, 8, old+1)
				return old
			})
			require.Equal(t, n, old)
			require.Equal(t, n+1, l.Load(x, 8, Weak, false))
		}
	}
}

// A store takes those with it that it overlaps, those that they overlap, and so on, in their order.
func TestOverlappingStoresStayInOrder(t *testing.T) {
	for seed := range uint64(200) {
		mem := flat{}
		m := New(mem, seed)
		l := m.NewBlock().NewLane()
		want := flat{}
		for k := range uint64(50) {
			size := 1 << m.rng.IntN(4)
			at := x + uint64(m.rng.IntN(16/size)*size)
			l.Store(at, size, k*0x0101010101010101, 0)
			want.Store(at, size, k*0x0101010101010101)
		}
		l.Fence(System, true)
		require.Equal(t, want, mem, "seed %d", seed)
	}
}
