package sanitize

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Clocks agree with maps, whatever is done to them, and never change.
func TestClocks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type pair struct {
		c *clock
		m map[uint32]uint64
	}
	var made clocks
	all := []pair{{nil, map[uint32]uint64{}}}
	slot := func() uint32 { return r.Uint32N(mostSlots) >> r.UintN(14) }
	for range 3000 {
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		m := map[uint32]uint64{}
		for k, v := range a.m {
			m[k] = v
		}
		n := pair{m: m}
		if r.IntN(2) == 0 {
			for k, v := range b.m {
				m[k] = max(m[k], v)
			}
			n.c = made.joined(a.c, b.c)
		} else {
			k, v := slot(), r.Uint64N(100)+1
			m[k] = max(m[k], v)
			n.c = made.raised(a.c, k, v)
		}
		if len(all) < 200 {
			all = append(all, n)
		} else {
			all[r.IntN(len(all))] = n
		}
	}
	for _, x := range all {
		for k, v := range x.m {
			require.Equal(t, v, x.c.at(k))
		}
		for range 50 {
			k := slot()
			require.Equal(t, x.m[k], x.c.at(k))
		}
	}
}

// A clock that brings nothing new is not copied: joins of programs that know the same cost nothing.
func TestClocksAreShared(t *testing.T) {
	var c *clock
	var k clocks
	for i := range uint32(1000) {
		c = k.raised(c, i*37%mostSlots, uint64(i)+1)
	}
	require.Same(t, c, k.raised(c, 37, 1))
	require.Same(t, c, k.joined(c, nil))
	require.Same(t, c, k.joined(nil, c))
	older := k.raised(nil, 37, 1)
	require.Same(t, c, k.joined(c, older))
	require.Same(t, c, k.joined(older, c))
}

// Trees agree with lists.
func TestTree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var x tree
	var all []*record
	for range 5000 {
		if len(all) > 0 && r.IntN(5) < 2 {
			i := r.IntN(len(all))
			x.remove(all[i])
			all[i] = all[len(all)-1]
			all = all[:len(all)-1]
		} else {
			from := r.Uint64N(1000)
			a := &record{span: span{from, from + 1 + r.Uint64N(1<<r.UintN(8))}}
			x.insert(a)
			all = append(all, a)
		}
		from := r.Uint64N(1100)
		end := from + 1 + r.Uint64N(50)
		want, got := map[*record]bool{}, map[*record]bool{}
		for _, a := range all {
			if a.from < end && from < a.end {
				want[a] = true
			}
		}
		b := budget(r.IntN(20))
		most := int(b)
		done := x.overlapping(span{from, end}, &b, func(a *record) {
			require.False(t, got[a], "once")
			require.True(t, want[a])
			got[a] = true
		})
		require.Equal(t, len(want) <= most, done)
		require.Len(t, got, min(len(want), most))
		require.Equal(t, most-len(got), int(b))
	}
	for _, a := range all {
		x.remove(a)
	}
	require.Nil(t, x.root)
}

// A tree of addresses that grow is not a list. One of addresses that were chosen to make it a list is none
// either: their order is that of the priorities of another tree.
func TestTreeIsShallow(t *testing.T) {
	var depth func(*record) int
	depth = func(r *record) int {
		if r == nil {
			return 0
		}
		return 1 + max(depth(r.left), depth(r.right))
	}
	for name, from := range map[string]func(uint64) uint64{
		"growing": func(i uint64) uint64 { return i },
		"chosen":  func(i uint64) uint64 { return scramble(i+1) >> 1 },
	} {
		x := tree{seed: 17}
		for i := range uint64(1 << 14) {
			x.insert(&record{span: span{from(i), from(i) + 1}})
		}
		require.Less(t, depth(x.root), 60, "%s: a few times 14", name)
	}
	require.NotEqual(t, New(Options{}).seed, New(Options{}).seed)
}
