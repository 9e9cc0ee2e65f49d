//go:build linux && (amd64 || arm64)

package order

import (
	"slices"
	"testing"

	"github.com/nicless/nicless/fault"
	"github.com/stretchr/testify/require"
)

// pieces returns n pieces of 64 bytes, from memory at from to memory at to.
func pieces(n int, to, from uint64) (list []Piece) {
	for i := range uint64(n) {
		list = append(list, Piece{Begin: i * 64, N: 64, To: Range{Begin: to + i*64, N: 64}, From: Range{Begin: from + i*64, N: 64}})
	}
	return list
}

// run moves all pieces, and returns the indices of their WQEs and where they begin, in their order.
func run(w *Window) (list [][2]uint64) {
	for w.Active() {
		p, _ := w.Next()
		list = append(list, [2]uint64{uint64(p.WQE), p.Begin})
		w.Done()
		for w.Ends() {
		}
	}
	return list
}

// passes reports whether bytes of b come before bytes of a with one of 50 seeds.
func passes(kind fault.Order, a, b WQE, pa, pb []Piece) bool {
	for seed := range uint64(50) {
		var w Window
		w.Begin(kind, seed)
		w.Add(a, pa)
		w.Add(b, pb)
		list := run(&w)
		if len(list) != len(pa)+len(pb) {
			panic("order: pieces are lost")
		}
		first := slices.IndexFunc(list, func(x [2]uint64) bool { return x[0] == 1 })
		if slices.ContainsFunc(list[first:], func(x [2]uint64) bool { return x[0] == 0 }) {
			return true
		}
	}
	return false
}

// The table of order: who may pass whom, if the bytes do not overlap.
func TestTable(t *testing.T) {
	write, read := WQE{}, WQE{Reads: true}
	fenced, strong, alone, relaxed := WQE{Fenced: true}, WQE{Strong: true}, WQE{Alone: true}, WQE{Relaxed: true}
	for _, row := range []struct {
		a, b          WQE
		weak, weakest bool
	}{
		{write, write, false, true},
		{write, read, false, true},
		{read, write, false, true},
		{read, read, false, true},
		{write, fenced, false, true},
		{read, fenced, false, false},
		{write, strong, false, false},
		{write, alone, false, false},
		{alone, write, false, false},
		{write, relaxed, true, true},
		{relaxed, write, false, true}, // the later one has to be relaxed
		{alone, relaxed, false, false},
	} {
		require.Equal(t, row.weak, passes(fault.Weak, row.a, row.b, pieces(4, 0, 4096), pieces(4, 1024, 8192)), "weak %+v", row)
		require.Equal(t, row.weakest, passes(fault.Weakest, row.a, row.b, pieces(4, 0, 4096), pieces(4, 1024, 8192)), "weakest %+v", row)
	}
}

// Pieces that overlap stay in order, except where a fence behind a READ is missing.
func TestOverlaps(t *testing.T) {
	one := pieces(1, 0, 4096)
	for name, other := range map[string][]Piece{"same target": pieces(1, 32, 8192), "reads what was written": pieces(1, 1024, 0),
		"writes what was read": pieces(1, 4096, 8192), "nobody knows where": {{N: 64, Blind: true}}} {
		require.False(t, passes(fault.Weakest, WQE{}, WQE{}, one, other), name)
		require.False(t, passes(fault.Weakest, WQE{Reads: true}, WQE{Fenced: true}, one, other), name)
		require.True(t, passes(fault.Weakest, WQE{Reads: true}, WQE{}, one, other), name)
	}
	away := pieces(1, 32, 8192)
	away[0].To.Space = t // another address space
	require.True(t, passes(fault.Weakest, WQE{}, WQE{}, one, away))
}

// The order depends on the seed alone, and each order of three pieces is drawn.
func TestDraws(t *testing.T) {
	seen := make(map[string]int)
	for seed := range uint64(600) {
		key := ""
		for range 2 {
			var w Window
			w.Begin(fault.Weak, seed)
			w.Add(WQE{}, pieces(3, 0, 4096))
			now := ""
			for _, x := range run(&w) {
				now += string(rune('a' + x[1]/64))
			}
			if key == "" {
				key = now
			}
			require.Equal(t, key, now)
		}
		seen[key]++
	}
	require.Len(t, seen, 6)
	for key, n := range seen {
		require.Greater(t, n, 60, key) // 100 are expected
	}
}

// WQEs that are cut out are never moved, and the rest is.
func TestCut(t *testing.T) {
	var w Window
	w.Begin(fault.Weakest, 1)
	for i := range uint64(3) {
		w.Add(WQE{Index: uint16(i)}, pieces(4, i*1024, 8192))
	}
	for range 5 {
		w.Next()
		w.Done()
	}
	w.Next()
	w.Cut(1)
	for _, x := range run(&w) {
		require.Zero(t, x[0])
	}
	require.False(t, w.Active())
	w.Clear()
	w.Add(WQE{}, pieces(2, 0, 8192))
	require.Len(t, run(&w), 2)
}

// So many windows have several WQEs, and others one. A window that is over holds nothing.
func TestRoom(t *testing.T) {
	var r Room
	list := make([]Window, mostLong+1)
	for i := range list {
		w := &list[i]
		w.Begin(fault.Weakest, 1)
		for range 3 {
			w.Add(WQE{}, pieces(4, 0, 8192))
			require.Equal(t, i < mostLong, w.Joins(&WQE{}, &r))
		}
	}
	require.Equal(t, mostLong, r.Taken())
	list[0].Clear()
	require.Zero(t, cap(list[0].wqes)+cap(list[0].pieces))
	require.True(t, list[mostLong].Joins(&WQE{}, &r))
	for i := range list {
		list[i].Clear()
	}
	require.Zero(t, r.Taken())
}

// A report of a WQE's end is preferred; there is at most one of each kind for each WQE, and each is true.
func TestPasses(t *testing.T) {
	for seed := range uint64(50) {
		var w Window
		w.Begin(fault.Weakest, seed)
		w.Add(WQE{Index: 0}, pieces(8, 0, 8192))
		w.Add(WQE{Index: 1}, pieces(8, 1024, 8192))
		within, across := 0, 0
		for w.Active() {
			w.Next()
			for _, x := range w.Done() {
				if x.Piece.WQE == x.Before.WQE {
					within++
					require.Greater(t, x.Piece.Begin, x.Before.Begin)
				} else {
					across++
					require.Greater(t, x.Piece.WQE, x.Before.WQE)
				}
			}
			for w.Ends() {
			}
		}
		require.LessOrEqual(t, within, 2)
		require.LessOrEqual(t, across, 1)
		require.Positive(t, within)
	}
}
