package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// at returns a data segment for the n bytes of a list that begin at its byte number off.
// Addresses of a list begin at 0.
func at(key uint32, off, n int) wqe.Data {
	return wqe.Data{ByteCount: uint32(n), LKey: key, Addr: uint64(off)}
}

// Lists of 1 to 52 entries work as the source and as the target of every operation that
// moves bytes, in one slice and in several.
func TestList(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 30, 51, 52} {
		for _, slice := range []int{64, 1 << 16} {
			t.Run(fmt.Sprintf("%d entries, slices of %d", n, slice), func(t *testing.T) {
				r := newRig(t, Config{Slice: slice})
				a, b := r.host("a"), r.host("b")
				ca, cb := a.cq(control.CQ{LogSize: 6}), b.cq(control.CQ{LogSize: 6})
				p, q := a.qp(control.QP{LogSQ: 5}, ca, ca), b.qp(control.QP{LogSQ: 5}, cb, cb)
				p.up(q)
				q.up(p)
				src, dst, flat := a.full(8192, 1), b.full(8192, 2), b.full(4096, 3)
				var from, to []wqe.KLM
				total := 0
				for i := range n {
					size := 1 + i*31%97
					from = append(from, src.klm((n-i)*100, size)) // from the end to the beginning
					to = append(to, dst.klm(i*150+5, size))
					total += size
				}
				strung := func(k *key, list []wqe.KLM) (b []byte) {
					for _, e := range list {
						b = append(b, k.mem[e.Addr-k.addr:][:e.ByteCount]...)
					}
					return b
				}
				l, m := a.mkey(52), b.mkey(n)
				p.post(umr(l), fill(l, mkeyAll, total, from...)...)
				q.post(umr(m), fill(m, mkeyAll, total, to...)...)
				r.settle()
				p.good()
				q.good()
				raddr := func(key uint32, off int) wqe.Raddr { return wqe.Raddr{Addr: uint64(off), RKey: key} }

				p.post(ctrl(wqe.OpRDMAWrite), raddr(m, 0), at(l, 0, total))
				r.settle()
				p.good()
				want := strung(src, from)
				r.same(want, strung(dst, to), "written from list to list")
				clear(flat.mem)
				off := total / 3
				p.post(ctrl(wqe.OpRDMAWrite), flat.raddr(0), at(l, off, total-off))
				r.settle()
				p.good()
				r.same(want[off:], flat.mem[:total-off], "written from the middle of a list")
				copy(flat.mem, pattern(total, 9))
				q.recv(at(m, 0, total))
				q.post(ctrl(wqe.OpSend), flat.data(0, total))
				p.recv(at(l, 0, total))
				r.settle()
				q.good()
				r.same(flat.mem[:total], strung(src, from), "sent to a list")
				p.post(ctrl(wqe.OpSend), at(l, 0, total))
				r.settle()
				q.rcq.all()
				p.scq.all()
				r.same(flat.mem[:total], strung(dst, to), "sent from a list to a list")
				copy(dst.mem, pattern(8192, 77))
				p.post(ctrl(wqe.OpRDMARead), raddr(m, 1), at(l, 0, total-1))
				r.settle()
				if total > 1 {
					p.good()
					r.same(strung(dst, to)[1:], strung(src, from)[:total-1], "read from list to list")
				}
			})
		}
	}
}

// An interleaved list has thousands of pieces: in each round its entries one after another, at
// addresses that are one stride higher than in the round before.
func TestInterleaved(t *testing.T) {
	for _, slice := range []int{64, 100, 1 << 16} {
		r, p, q := duo(t, Config{Slice: slice})
		const rounds, stride = 3000, 13
		src, dst := p.h.full(rounds*10, 1), q.h.full(rounds*stride, 2)
		want := append([]byte(nil), dst.mem...)
		m := q.h.mkey(3)
		q.post(umr(m), interleaved(m, mkeyAll, rounds*10, rounds,
			wqe.RepeatEntry{Stride: stride, ByteCount: 4, MKey: dst.key, Addr: dst.addr + 3},
			wqe.RepeatEntry{Stride: stride, ByteCount: 1, MKey: dst.key, Addr: dst.addr},
			wqe.RepeatEntry{Stride: stride, ByteCount: 5, MKey: dst.key, Addr: dst.addr + 8})...)
		r.settle()
		q.good()
		for i := range rounds {
			copy(want[i*stride+3:], src.mem[i*10:i*10+4])
			want[i*stride] = src.mem[i*10+4]
			copy(want[i*stride+8:], src.mem[i*10+5:i*10+10])
		}
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: m}, src.data(0, rounds*10))
		r.settle()
		p.good()
		r.same(want, dst.mem, "written interleaved")
		was := append([]byte(nil), src.mem...)
		clear(src.mem)
		p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{RKey: m, Addr: 7}, src.data(7, rounds*10-7))
		r.settle()
		p.good()
		r.same(was[7:], src.mem[7:], "read back")
	}
}

// Each access through a list is checked by the memory that the list's entries name at that
// time.
func TestListFaults(t *testing.T) {
	big := uint64(1) << 32
	for _, row := range []struct {
		name string
		make func(s *scene, m uint32) []any
		then func(s *scene)
	}{
		{"an entry past its key", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 128, s.far.klm(0, 64), s.far.klm(193, 64)) }, nil},
		{"an entry before its key", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 128, s.far.klm(-1, 64), s.far.klm(0, 64)) }, nil},
		{"an entry of no key", func(s *scene, m uint32) []any {
			return fill(m, mkeyAll, 128, s.far.klm(0, 64), wqe.KLM{ByteCount: 64, MKey: 0x55500})
		}, nil},
		{"an entry of another client's key", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 128, s.far.klm(0, 64), s.local.klm(0, 64)) }, nil},
		{"an entry of another domain's key", func(s *scene, m uint32) []any {
			k := s.q.h.full(64, 1)
			k.key = s.q.h.reg(s.q.h.allocPD(), k.addr, 64, control.AccessAll&^control.AccessZeroBased)
			return fill(m, mkeyAll, 128, s.far.klm(0, 64), k.klm(0, 64))
		}, nil},
		{"an entry that is a list", func(s *scene, m uint32) []any {
			n := s.q.h.mkey(1)
			s.umr(s.q, unharmed, n, fill(n, mkeyAll, 64, s.far.klm(0, 64)))
			return fill(m, mkeyAll, 128, s.far.klm(0, 64), wqe.KLM{ByteCount: 64, MKey: n})
		}, nil},
		{"an entry that is the list itself", func(s *scene, m uint32) []any {
			return fill(m, mkeyAll, 128, s.far.klm(0, 64), wqe.KLM{ByteCount: 64, MKey: m})
		}, nil},
		{"an entry that is a window", func(s *scene, m uint32) []any {
			w := s.q.h.window(1)
			s.umr(s.q, unharmed, w, s.q.bind(1, uint8(w), s.far, 0, 64, mkeyAll))
			return fill(m, mkeyAll, 128, s.far.klm(0, 64), wqe.KLM{ByteCount: 64, MKey: w, Addr: s.far.addr})
		}, nil},
		{"an entry without local write", func(s *scene, m uint32) []any {
			return fill(m, mkeyAll, 128, s.far.klm(0, 64), s.q.h.key(64, control.AccessRemoteRead).klm(0, 64))
		}, nil},
		{"an entry whose key has gone", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 128, s.far.klm(0, 128)) },
			func(s *scene) { s.q.h.dereg(s.far.key) }},
		{"an entry whose key has another variant now", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 128, s.far.klm(0, 128)) },
			func(s *scene) {
				s.q.h.call(control.OpReregMR, &control.ReregMR{Key: s.far.key, What: control.ReregAccess, Access: control.AccessLocalWrite}, &control.Key{})
			}},
		{"a list without the right", func(s *scene, m uint32) []any { return fill(m, mkeyRead, 128, s.far.klm(0, 128)) }, nil},
		{"a list that is too short", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 127, s.far.klm(0, 128)) }, nil},
		{"an empty list", func(s *scene, m uint32) []any { return fill(m, mkeyAll, 0) }, nil},
		{"no rounds", func(s *scene, m uint32) []any { return interleaved(m, mkeyAll, 0, 1) }, nil},
		{"rounds that pass their key", func(s *scene, m uint32) []any {
			return interleaved(m, mkeyAll, 128, 32, wqe.RepeatEntry{Stride: 9, ByteCount: 4, MKey: s.far.key, Addr: s.far.addr})
		}, nil},
		{"rounds around the address space", func(s *scene, m uint32) []any {
			return interleaved(m, mkeyAll, 128, 0xffffffff, wqe.RepeatEntry{Stride: 0xffff, ByteCount: 4, MKey: s.far.key, Addr: s.far.addr})
		}, nil},
		{"the length of 2^64 in rounds", func(s *scene, m uint32) []any {
			seg := interleaved(m, mkeyAll, 0, 0xffffffff, wqe.RepeatEntry{Stride: 0, ByteCount: 0xffff, MKey: s.far.key, Addr: s.far.addr})
			c := seg[1].(wqe.MkeyContext)
			c.Len = 0xffff * (big - 1)
			seg[1] = c
			return seg
		}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			m := s.q.h.mkey(2)
			s.umr(s.q, unharmed, m, row.make(s, m))
			if row.then != nil {
				row.then(s)
			}
			was := append([]byte(nil), s.far.mem...)
			index := s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: m}, s.local.data(0, 128))
			s.settle()
			s.failed(s.p.scq.one(), cqe.RemoteAccess, index)
			s.same(was, s.far.mem, "what the list names")
			require.Contains(t, said.String(), "code=key-")
			s.again()
			// The same key is refused as an lkey too.
			index = s.q.post(ctrl(wqe.OpRDMARead), s.local.raddr(0), at(m, 0, 128))
			s.settle()
			s.failed(s.q.scq.one(), cqe.LocalProtection, index)
		})
	}
}

// An invalidation empties a list. The list can then be filled again, with another variant.
func TestListInvalidated(t *testing.T) {
	s := newScene(t, Config{})
	m := s.q.h.mkey(2)
	for tag := range uint8(5) {
		seg := fill(m, mkeyAll, 64, s.far.klm(8*int(tag), 32), s.far.klm(128, 32))
		c := seg[1].(wqe.MkeyContext)
		c.QPNMkey = 0xffffff00 | uint32(tag)
		seg[1] = c
		s.umr(s.q, unharmed, m, seg)
		m = variant(m, tag)
		s.write(unharmed, wqe.Raddr{RKey: m})
		require.Equal(t, "written!", string(s.far.mem[8*tag:8*tag+8]))
		s.umr(s.q, unharmed, m, s.q.bind(1, tag, nil, 0, 0, 0))
		s.write(cqe.RemoteAccess, wqe.Raddr{RKey: m})
	}
	s.q.h.dereg(m)
}

// A key is destroyed or changed in the middle of a transfer through a list: the list's own
// key, or the key of one of its entries.
func TestListGoesInTheMiddle(t *testing.T) {
	for _, what := range []string{"the list", "an entry's key", "an entry's key, registered anew", "the list, filled anew"} {
		for _, side := range []string{"remote", "local"} {
			t.Run(what+", "+side, func(t *testing.T) {
				s := newScene(t, Config{Slice: 64})
				h, other := s.q, s.p
				if side == "local" {
					h, other = s.p, s.q
				}
				k, flat := h.h.full(2048, 1), other.h.full(2048, 2)
				m := h.h.mkey(4)
				s.umr(h, unharmed, m, fill(m, mkeyAll, 2000, k.klm(0, 1000), k.klm(1000, 1000)))
				want := cqe.RemoteAccess
				if side == "local" {
					want = cqe.LocalProtection
					s.p.post(ctrl(wqe.OpRDMARead), flat.raddr(0), at(m, 0, 2000))
				} else {
					s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: m}, flat.data(0, 2000))
				}
				for range 5 {
					s.e.Step()
				}
				require.NotNil(t, s.p.q.Job)
				switch what {
				case "the list":
					h.h.dereg(m)
				case "an entry's key":
					h.h.dereg(k.key)
				case "an entry's key, registered anew":
					h.h.call(control.OpReregMR, &control.ReregMR{Key: k.key, What: control.ReregAccess,
						Access: control.AccessAll &^ control.AccessZeroBased}, &control.Key{})
				case "the list, filled anew":
					if side == "local" {
						return // its queue is executing
					}
					h.post(umr(m), fill(m, mkeyAll, 2000, k.klm(24, 2000))...)
					s.e.Step()
					s.settle()
					h.good()
					s.p.good()
					s.same(flat.mem[:2000], k.mem[24:2024], "all of it, by the list as it is now")
					return
				}
				was := append([]byte(nil), k.mem...)
				s.settle()
				require.Equal(t, want, s.p.scq.one().Syndrome)
				s.same(was, k.mem, "memory without a key")
			})
		}
	}
}

// An atomic through a list works if the whole word is in one piece.
func TestAtomicThroughAList(t *testing.T) {
	s := newScene(t, Config{})
	clear(s.far.mem)
	m := s.q.h.mkey(2)
	s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 12), s.far.klm(68, 52)))
	fa := wqe.Atomic{SwapAdd: 3}
	s.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{RKey: m}, fa, s.local.data(0, 8))
	s.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{RKey: m, Addr: 16}, fa, s.local.data(0, 8)) // byte 72
	s.settle()
	require.Len(t, s.p.scq.all(), 2)
	require.Equal(t, []byte{3, 3}, []byte{s.far.mem[0], s.far.mem[72]})
	// Half of the word in each of two pieces.
	index := s.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{RKey: m, Addr: 8}, fa, s.local.data(0, 8))
	s.settle()
	s.failed(s.p.scq.one(), cqe.RemoteInvalidRequest, index)
}

// Work through windows and lists allocates nothing, and changing them allocates nothing.
func TestUMRDoesNotAllocate(t *testing.T) {
	s := newScene(t, Config{})
	m := s.q.h.mkey(2)
	seg := fill(m, mkeyAll, 128, s.far.klm(0, 64), s.far.klm(128, 64))
	s.q.write(umr(m), seg...)
	blocks := s.q.sent
	for s.q.sent%16 != 0 {
		s.q.write(silent(wqe.OpNop))
	}
	s.q.ring()
	s.settle()
	s.q.scq.all()
	for range 16 {
		s.p.write(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: m}, s.local.data(0, 128))
	}
	s.p.sent = 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.q.sent += blocks // posts the same UMR again
		s.q.ring()
		s.e.Step()
		for s.q.sent%16 != 0 {
			s.q.sent++
		}
		s.q.ring()
		s.p.sent++
		s.p.ring()
		s.e.Step()
		s.p.scq.next()
		s.q.scq.next()
	}))
	require.Equal(t, []uint8{control.StateRTS, control.StateRTS}, []uint8{s.p.state(), s.q.state()})
}
