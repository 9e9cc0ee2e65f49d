package engine

import (
	"testing"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The budget of a visit bounds work, not only bytes: each piece costs PieceCost. So a visit
// moves far fewer bytes of a list if each piece of the list is one byte.
func TestShortPiecesCostTheirTime(t *testing.T) {
	const slice, total, long = 8192, 4096, 8192
	for _, entries := range []int{1, 17, 51} {
		s := newScene(t, Config{Slice: slice})
		src, dst := s.p.h.full(long, 1), s.q.h.full(long, 2)
		m := s.p.h.mkey(entries)
		var list []wqe.RepeatEntry
		for i := range entries {
			list = append(list, wqe.RepeatEntry{ByteCount: 1, MKey: src.key, Addr: src.addr + uint64(i), Stride: uint16(entries)})
		}
		rounds := uint32(total/entries + 1)
		s.umr(s.p, unharmed, m, interleaved(m, mkeyAll, int(rounds)*entries, rounds, list...))
		s.p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), at(m, 0, total))
		s.e.Step()
		require.NotNil(t, s.p.q.Job)
		require.Equal(t, (slice-entries*object.PieceCost)/object.PieceCost, int(s.p.q.Job.Moved))
		before := s.p.q.Job.Moved
		s.e.Step()
		require.Equal(t, slice/object.PieceCost, int(s.p.q.Job.Moved-before))
		s.settle()
		s.p.good()
		s.same(src.mem[:total], dst.mem[:total], "byte by byte")
	}
}

// A place in a list that is advanced piece by piece is always the place that seek finds.
func TestPlaceInAList(t *testing.T) {
	s := newScene(t, Config{})
	src := s.p.h.full(4096, 1)
	m := s.p.h.mkey(3)
	s.umr(s.p, unharmed, m, interleaved(m, mkeyAll, 600, 20,
		wqe.RepeatEntry{ByteCount: 7, MKey: src.key, Addr: src.addr, Stride: 40},
		wqe.RepeatEntry{ByteCount: 13, MKey: src.key, Addr: src.addr + 1000, Stride: 30},
		wqe.RepeatEntry{ByteCount: 10, MKey: src.key, Addr: src.addr + 2000, Stride: 1}))
	k := s.e.Keys.Find(m)
	require.True(t, s.e.Sound(k, 0))
	for step := range uint64(9) {
		at := k.Seek(0)
		for off := uint64(0); off < 590; {
			require.Equal(t, k.Seek(off), at, "byte %d", off)
			n := uint64(len(k.Bytes(at, step+1)))
			k.Advance(&at, n)
			off += n
		}
	}
}

// UMRs use up the budget too: a visit executes only as many as its budget allows.
func TestUMRsCostTheirTime(t *testing.T) {
	s := newScene(t, Config{Slice: 4 * execution.UMRCost})
	m := s.p.h.mkey(1)
	for range 4 {
		c := umr(m)
		s.p.write(c, wqe.UMRCtrl{Flags: wqe.UMRInline, MkeyMask: wqe.MaskFree}, wqe.MkeyContext{Free: wqe.MkeyFree})
		s.p.write(ctrl(wqe.OpNop))
	}
	s.p.ring()
	s.e.Step()
	require.Len(t, s.p.scq.all(), 7, "the fourth has used up the budget")
	s.settle()
	require.Len(t, s.p.scq.all(), 1)
	require.Equal(t, control.StateRTS, s.p.state())
}

// Messages that continue in the middle of a list do not go through all the runs before.
func TestSkipInAList(t *testing.T) {
	s := newScene(t, Config{})
	mem := s.p.h.full(4096, 1)
	m := s.p.h.mkey(2)
	const rounds = 1 << 30
	s.umr(s.p, unharmed, m, interleaved(m, mkeyAll, 3*rounds, rounds,
		wqe.RepeatEntry{ByteCount: 1, MKey: mem.key, Addr: mem.addr}, wqe.RepeatEntry{ByteCount: 2, MKey: mem.key, Addr: mem.addr + 9}))
	k := s.e.Keys.Find(m)
	require.True(t, s.e.Sound(k, 0))
	l := new(object.List)
	fresh := func() *object.List {
		l.Reset()
		l.Add(mem.mem[:5], nil, 0, 5)
		l.Add(nil, k, 4, 3*rounds-8)
		l.Add(mem.mem[:7], nil, 0, 7)
		return l
	}
	where := func() []any { n := len(l.Next(100)); return []any{n, l.Current, l.Off, l.Spot} }
	for n := range uint64(40) { // the same place as piece by piece
		fresh().Skip(n)
		want := where()
		for fresh(); n > 0; {
			k := uint64(len(l.Next(n)))
			l.Advance(int(k))
			n -= k
		}
		require.Equal(t, where(), want)
	}
	fresh().Skip(5 + 3*rounds - 8 + 2)
	require.Equal(t, []any{5, 2, uint64(2), l.Spot}, where())
	for range 1 << 10 { // run by run, this takes hours
		fresh().Skip(5 + 3*rounds - 9)
		require.Equal(t, uint64(3*rounds-9), l.Off)
		require.Equal(t, k.Seek(4+3*rounds-9), l.Spot)
	}
}
