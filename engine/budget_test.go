package engine

import (
	"testing"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The budget of a visit bounds work, not only bytes: each piece costs pieceCost. So a visit
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
		require.NotNil(t, s.p.q.job)
		require.Equal(t, (slice-entries*pieceCost)/pieceCost, int(s.p.q.job.moved))
		before := s.p.q.job.moved
		s.e.Step()
		require.Equal(t, slice/pieceCost, int(s.p.q.job.moved-before))
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
	k := s.e.keys.find(m)
	require.True(t, s.e.sound(k, 0))
	for step := range uint64(9) {
		at := k.seek(0)
		for off := uint64(0); off < 590; {
			require.Equal(t, k.seek(off), at, "byte %d", off)
			n := uint64(len(k.bytes(at, step+1)))
			k.advance(&at, n)
			off += n
		}
	}
}

// UMRs use up the budget too: a visit executes only as many as its budget allows.
func TestUMRsCostTheirTime(t *testing.T) {
	s := newScene(t, Config{Slice: 4 * umrCost})
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
