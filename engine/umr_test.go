package engine

import (
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// variant returns the key with other low 8 bits.
func variant(key uint32, tag uint8) uint32 { return key&^0xff | uint32(tag) }

// umr posts a UMR on p and requires that it succeeds, or fails with s.
func (s *scene) umr(p *end, want cqe.Syndrome, key uint32, segments []any) {
	s.Helper()
	index := p.post(umr(key), segments...)
	s.settle()
	w := p.scq.one()
	require.Equal(s, want, w.Syndrome)
	require.Equal(s, index, w.Counter)
	require.Equal(s, uint8(wqe.OpUMR), w.WQEOpcode)
	if want != 0 {
		require.Equal(s, control.StateERR, p.state())
	}
}

// again resets both queue pairs and connects them again.
func (s *scene) again() {
	s.Helper()
	s.p.reset(s.q)
	s.q.reset(s.p)
	s.p.scq.all()
	s.q.scq.all()
}

// write makes p write 8 bytes to a remote address.
func (s *scene) write(want cqe.Syndrome, r wqe.Raddr) {
	s.Helper()
	s.p.post(ctrl(wqe.OpRDMAWrite), r, []byte("written!"))
	s.settle()
	w := s.p.scq.one()
	require.Equal(s, want, w.Syndrome)
	if want != 0 {
		s.again()
	}
}

// A window gives access to its range, with its rights, from its binding to its closing.
func TestWindow(t *testing.T) {
	for kind := uint8(1); kind <= 2; kind++ {
		t.Run(fmt.Sprintf("type %d", kind), func(t *testing.T) {
			s := newScene(t, Config{})
			old := s.q.h.window(kind)
			at := func(key uint32, off int) wqe.Raddr { return wqe.Raddr{Addr: s.far.addr + uint64(off), RKey: key} }
			s.write(cqe.RemoteAccess, at(old, 64)) // the window is not bound
			w := variant(old, 0x33)
			s.umr(s.q, unharmed, old, s.q.bind(kind, 0x33, s.far, 64, 64, mkeyWrite))
			s.write(unharmed, at(w, 64))
			require.Equal(t, "written!", string(s.far.mem[64:72]))
			s.write(unharmed, at(w, 120))
			s.umr(s.q, unharmed, w, s.q.bind(kind, 0x33, s.far, 0, 0, 0))
			s.umr(s.q, unharmed, w, s.q.bind(kind, 0x34, s.far, 64, 64, mkeyWrite))
			w = variant(w, 0x34)
			for name, r := range map[string]wqe.Raddr{
				"stale": at(variant(w, 0x33), 64), "before": at(w, 63), "behind": at(w, 121),
			} {
				t.Run(name, func(t *testing.T) {
					s.TB = t
					s.write(cqe.RemoteAccess, r)
					// The error has not changed the window, and the QP number in it is
					// still the same.
				})
			}
			s.TB = t
			// Fails: the window gives the right to write only.
			s.p.post(ctrl(wqe.OpRDMARead), at(w, 64), s.local.data(0, 8))
			s.settle()
			require.Equal(t, cqe.RemoteAccess, s.p.scq.one().Syndrome)
			s.again()
			// A window gives no local access, neither to its owner nor to the peer.
			bad := s.q.post(ctrl(wqe.OpRDMAWrite), s.local.raddr(0), wqe.Data{ByteCount: 8, LKey: w, Addr: s.far.addr + 64})
			s.settle()
			s.failed(s.q.scq.one(), cqe.LocalProtection, bad)
			s.again()
			s.umr(s.q, unharmed, w, s.q.bind(kind, 0x35, s.far, 0, 0, 0)) // closes the window
			s.write(cqe.RemoteAccess, at(w, 64))
			s.write(cqe.RemoteAccess, at(variant(w, 0x35), 64))
			s.q.h.dereg(w)
		})
	}
}

// An access that a window allows and its queue pair does not allow is refused.
func TestWindowRights(t *testing.T) {
	s := newScene(t, Config{})
	w := s.q.h.window(1)
	s.umr(s.q, unharmed, w, s.q.bind(1, uint8(w), s.far, 0, 256, mkeyAll))
	s.p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{Addr: s.far.addr, RKey: w}, s.local.data(0, 256))
	s.p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: s.far.addr + 8, RKey: w}, wqe.Atomic{SwapAdd: 1}, s.local.data(0, 8))
	s.settle()
	require.Len(t, s.p.scq.all(), 2)
	s.q.modify(control.QPAttr{QPN: s.q.num, Mask: control.AttrAccess, Access: control.AccessRemoteRead})
	s.write(cqe.RemoteInvalidRequest, wqe.Raddr{Addr: s.far.addr, RKey: w})
}

// A window of type 2 belongs to the queue pair that bound it. A window of type 1 belongs to
// all queue pairs of its protection domain.
func TestWindowOfAnotherQP(t *testing.T) {
	for kind, want := range map[uint8]cqe.Syndrome{1: unharmed, 2: cqe.RemoteAccess} {
		s := newScene(t, Config{})
		w := s.q.h.window(kind)
		s.umr(s.idle, unharmed, w, s.idle.bind(kind, uint8(w), s.far, 0, 64, mkeyWrite))
		s.write(want, wqe.Raddr{Addr: s.far.addr, RKey: w})
		s.idle1.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: s.far.addr, RKey: w}, []byte("x"))
		s.settle()
		s.idle1.good()
	}
}

// The addresses of a zero-based window begin at 0.
func TestZeroBasedWindow(t *testing.T) {
	s := newScene(t, Config{})
	w := s.q.h.window(2)
	seg := s.q.bind(2, uint8(w), s.far, 32, 64, mkeyWrite)
	m := seg[1].(wqe.MkeyContext)
	m.StartAddr = 0
	seg[1] = m
	s.umr(s.q, unharmed, w, seg)
	s.write(unharmed, wqe.Raddr{Addr: 56, RKey: w})
	require.Equal(t, "written!", string(s.far.mem[88:96]))
	s.write(cqe.RemoteAccess, wqe.Raddr{Addr: 57, RKey: w})
}

// A free key may be bound whatever variant its UMR names. The invalidation that rdma-core
// posts leaves variant 0, and its client continues from the variant before that.
func TestBindAfterInvalidate(t *testing.T) {
	s := newScene(t, Config{})
	w := s.q.h.window(2)
	for tag := range uint8(4) {
		s.umr(s.q, unharmed, w, s.q.bind(2, uint8(w)+1, s.far, 0, 64, mkeyWrite))
		w = variant(w, uint8(w)+1)
		s.write(unharmed, wqe.Raddr{Addr: s.far.addr, RKey: w})
		s.umr(s.q, unharmed, w, s.q.bind(2, 0, nil, 0, 0, 0))
		s.write(cqe.RemoteAccess, wqe.Raddr{Addr: s.far.addr, RKey: variant(w, 0)})
		require.True(t, s.e.Keys.FindIndex(w).Free, "round %d", tag)
	}
}

// A binding that fails completes with a memory window bind error, and leaves the key as it was.
func TestBindFailures(t *testing.T) {
	type row struct {
		name string
		key  func(s *scene) (uint32, []any)
	}
	bound := func(kind uint8, s *scene, p *end) uint32 {
		w := p.h.window(kind)
		s.umr(p, unharmed, w, p.bind(kind, uint8(w), s.far, 0, 64, mkeyWrite))
		return w
	}
	stranger := func(s *scene, access uint32) *key { // a key of the same client in another domain
		k := s.q.h.full(64, 1)
		k.key = s.q.h.reg(s.q.h.allocPD(), k.addr, 64, access)
		return k
	}
	for _, row := range []row{
		{"a key of nobody", func(s *scene) (uint32, []any) { return 0x55500, s.q.bind(1, 0, s.far, 0, 64, mkeyWrite) }},
		{"a key of another client", func(s *scene) (uint32, []any) {
			w := s.p.h.window(1)
			return w, s.q.bind(1, uint8(w), s.far, 0, 64, mkeyWrite)
		}},
		{"a key of registered memory", func(s *scene) (uint32, []any) { return s.far.key, s.q.bind(1, 0, s.far, 0, 64, mkeyWrite) }},
		{"a stale variant, bound", func(s *scene) (uint32, []any) {
			w := bound(1, s, s.q)
			return w ^ 1, s.q.bind(1, 9, s.far, 0, 64, mkeyWrite)
		}},
		{"CHECK_FREE on a window in use", func(s *scene) (uint32, []any) {
			w := bound(2, s, s.q)
			return w, s.q.bind(2, 9, s.far, 0, 64, mkeyWrite)
		}},
		{"CHECK_QPN on another queue pair's window", func(s *scene) (uint32, []any) {
			w := bound(2, s, s.idle)
			return w, s.q.bind(2, 9, s.far, 0, 0, 0)
		}},
		{"a window of another domain", func(s *scene) (uint32, []any) {
			var ans control.Key
			s.q.h.call(control.OpAllocMW, &control.MW{PDN: s.q.h.allocPD(), Kind: 1}, &ans)
			return ans.Key, s.q.bind(1, 0, s.far, 0, 64, mkeyWrite)
		}},
		{"type 2 for another queue pair", func(s *scene) (uint32, []any) {
			w := s.q.h.window(2)
			return w, s.idle.bind(2, uint8(w), s.far, 0, 64, mkeyWrite)
		}},
		{"memory of another domain", func(s *scene) (uint32, []any) {
			w := s.q.h.window(1)
			return w, s.q.bind(1, 0, stranger(s, control.AccessAll&^control.AccessZeroBased), 0, 64, mkeyRead)
		}},
		{"memory of another client", func(s *scene) (uint32, []any) {
			return s.q.h.window(1), s.q.bind(1, 0, s.local, 0, 64, mkeyRead)
		}},
		{"memory without the right to bind", func(s *scene) (uint32, []any) {
			return s.q.h.window(1), s.q.bind(1, 0, s.q.h.key(64, control.AccessLocalWrite|control.AccessRemoteWrite), 0, 64, mkeyRead)
		}},
		{"writing to memory that its owner may not write", func(s *scene) (uint32, []any) {
			return s.q.h.window(1), s.q.bind(1, 0, s.q.h.key(64, control.AccessMWBind|control.AccessRemoteRead), 0, 64, mkeyWrite)
		}},
		{"atomics on memory that its owner may not write", func(s *scene) (uint32, []any) {
			return s.q.h.window(1), s.q.bind(1, 0, s.q.h.key(64, control.AccessMWBind), 0, 64, mkeyAtomic)
		}},
		{"CHECK_QPN on a window that was never bound", func(s *scene) (uint32, []any) {
			return s.q.h.window(2), s.q.bind(2, 9, s.far, 0, 0, 0)
		}},
		{"CHECK_QPN on a window that is free again", func(s *scene) (uint32, []any) {
			w := bound(2, s, s.q)
			s.umr(s.q, unharmed, w, s.q.bind(2, 9, s.far, 0, 0, 0))
			return w, s.q.bind(2, 9, s.far, 0, 0, 0)
		}},
		{"around the address space", func(s *scene) (uint32, []any) {
			seg := s.q.bind(1, 0, s.far, 0, 64, mkeyWrite)
			m := seg[1].(wqe.MkeyContext)
			m.StartAddr, m.Len = ^uint64(0)-62, 64
			seg[1] = m
			return s.q.h.window(1), seg
		}},
		{"a window on a window", func(s *scene) (uint32, []any) {
			k := *s.far
			k.key = bound(1, s, s.q)
			return s.q.h.window(1), s.q.bind(1, 0, &k, 0, 64, mkeyWrite)
		}},
		{"a window on a list", func(s *scene) (uint32, []any) {
			k := *s.far
			k.key = s.q.h.mkey(4)
			s.umr(s.q, unharmed, k.key, fill(k.key, mkeyAll, 64, s.far.klm(0, 64)))
			return s.q.h.window(1), s.q.bind(1, 0, &k, 0, 64, mkeyWrite)
		}},
		{"a list longer than the key was made for", func(s *scene) (uint32, []any) {
			m := s.q.h.mkey(1)
			return m, fill(m, mkeyAll, 64, s.far.klm(0, 32), s.far.klm(64, 32))
		}},
		{"a length beyond the list", func(s *scene) (uint32, []any) {
			m := s.q.h.mkey(2)
			return m, fill(m, mkeyAll, 65, s.far.klm(0, 32), s.far.klm(64, 32))
		}},
		{"rounds whose sum overflows", func(s *scene) (uint32, []any) {
			m := s.q.h.mkey(2)
			return m, interleaved(m, mkeyAll, 64, 0, wqe.RepeatEntry{ByteCount: 32, MKey: s.far.key, Addr: s.far.addr})
		}},
		{"more entries than the list has", func(s *scene) (uint32, []any) {
			m := s.q.h.mkey(9)
			seg := interleaved(m, mkeyAll, 8, 1, wqe.RepeatEntry{ByteCount: 32, MKey: s.far.key, Addr: s.far.addr})
			b := seg[2].(wqe.RepeatBlock)
			b.NumEntries = 4
			seg[2] = b
			return m, seg
		}},
		{"CHECK_FREE on a list in use", func(s *scene) (uint32, []any) {
			m := s.q.h.mkey(1)
			s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 64)))
			seg := fill(m, mkeyAll, 64, s.far.klm(0, 64))
			c := seg[0].(wqe.UMRCtrl)
			c.Flags |= wqe.UMRCheckFree
			seg[0] = c
			return m, seg
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			key, seg := row.key(s)
			var before object.Mkey
			k := s.e.Keys.FindIndex(key)
			if k != nil {
				before = *k
			}
			s.umr(s.q, cqe.MWBind, key, seg)
			if k != nil {
				require.Equal(t, before, *k, "the key has changed")
			}
			require.Contains(t, said.String(), "code=")
			require.Equal(t, control.StateRTS, s.p.state())
		})
	}
}

// The range of a window is not checked when the window is bound, as on mlx5. Its use outside the memory is
// refused, and inside it works.
func TestWindowBeyondItsMemory(t *testing.T) {
	for _, row := range []struct {
		name    string
		off, n  int
		inside  int // offset in the memory of a byte that the window opens; -1: there is none
		outside int // offset of a byte of the window that is outside
	}{
		{name: "one byte past the memory", off: 200, n: 57, inside: 255, outside: 256},
		{name: "one byte before", off: -1, n: 57, inside: 0, outside: -1},
		{name: "on both sides", off: -8, n: 272, inside: 255, outside: 263},
		{name: "behind the memory", off: 256, n: 8, inside: -1, outside: 256},
		{name: "before the memory", off: -16, n: 16, inside: -1, outside: -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			w := s.q.h.window(1)
			s.umr(s.q, unharmed, w, s.q.bind(1, uint8(w), s.far, row.off, row.n, mkeyWrite))
			require.Contains(t, said.String(), "access outside is refused")
			at := func(off int) wqe.Raddr { return wqe.Raddr{Addr: s.far.addr + uint64(off), RKey: w} }
			if row.inside >= 0 {
				s.p.post(ctrl(wqe.OpRDMAWrite), at(row.inside), s.local.data(3, 1))
				s.settle()
				s.p.good()
				require.Equal(t, s.local.mem[3], s.far.mem[row.inside])
			}
			was := append([]byte(nil), s.far.mem...)
			index := s.p.post(ctrl(wqe.OpRDMAWrite), at(row.outside), s.local.data(0, 1))
			s.settle()
			s.failed(s.p.scq.one(), cqe.RemoteAccess, index)
			s.same(was, s.far.mem, "the memory")
		})
	}
}

// A UMR fails if it is too short, or if its list ends after the UMR.
func TestMalformedUMR(t *testing.T) {
	s := newScene(t, Config{})
	m := s.q.h.mkey(4)
	whole := fill(m, mkeyAll, 64, s.far.klm(0, 64))
	for name, seg := range map[string][]any{
		"no context": whole[:1], "nothing": nil, "a list past ds": {wqe.UMRCtrl{Flags: wqe.UMRInline, KLMOctowords: 8}, whole[1], whole[2], pad{}},
		"a list far past ds": {wqe.UMRCtrl{Flags: wqe.UMRInline, KLMOctowords: 0xffff}, whole[1], whole[2], pad{}},
	} {
		t.Run(name, func(t *testing.T) {
			s.TB = t
			s.umr(s.q, cqe.LocalQPOp, m, seg)
			s.again()
		})
	}
	s.TB = t
	// A list that is not in the WQE would be in memory, at an address that the UMR gives.
	seg := fill(m, mkeyAll, 64, s.far.klm(0, 64))
	c := seg[0].(wqe.UMRCtrl)
	c.Flags = 0
	seg[0] = c
	s.umr(s.q, cqe.MWBind, m, seg)
}

// SEND_INVAL closes a window of the receiver and says which one. The window must be of type
// 2 and bound to the receiver.
func TestSendInval(t *testing.T) {
	for _, slice := range []int{64, 4096} {
		s := newScene(t, Config{Slice: slice})
		w := s.q.h.window(2)
		s.umr(s.q, unharmed, w, s.q.bind(2, uint8(w), s.far, 0, 64, mkeyWrite))
		s.q.recv(s.far.data(64, 192))
		s.p.post(inval(w), s.local.data(0, 192))
		s.settle()
		s.p.good()
		got := s.q.rcq.one()
		require.Equal(t, []any{cqe.RespSendInv, w, uint32(192)}, []any{got.Kind, got.Imm, got.ByteLen})
		require.Equal(t, cqe.WCWithInv, got.Flags)
		s.same(s.local.mem[:192], s.far.mem[64:], "the message")
		s.write(cqe.RemoteAccess, wqe.Raddr{Addr: s.far.addr, RKey: w})
		s.umr(s.q, unharmed, w, s.q.bind(2, 7, s.far, 0, 64, mkeyWrite)) // the window can be bound again
	}
}

// A SEND with invalidate of a key that may not be invalidated fails its receive. There is no NAK.
func TestSendInvalFaults(t *testing.T) {
	for name, key := range map[string]func(s *scene) uint32{
		"no key":             func(*scene) uint32 { return 0x55500 },
		"registered memory":  func(s *scene) uint32 { return s.far.key },
		"a window not bound": func(s *scene) uint32 { return s.q.h.window(2) },
		"a list": func(s *scene) uint32 {
			m := s.q.h.mkey(1)
			s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 64)))
			return m
		},
		"a window of type 1": func(s *scene) uint32 {
			w := s.q.h.window(1)
			s.umr(s.q, unharmed, w, s.q.bind(1, uint8(w), s.far, 0, 64, mkeyWrite))
			return w
		},
		"a window of another queue pair": func(s *scene) uint32 {
			w := s.q.h.window(2)
			s.umr(s.idle, unharmed, w, s.idle.bind(2, uint8(w), s.far, 0, 64, mkeyWrite))
			return w
		},
		"another variant": func(s *scene) uint32 {
			w := s.q.h.window(2)
			s.umr(s.q, unharmed, w, s.q.bind(2, uint8(w), s.far, 0, 64, mkeyWrite))
			return w ^ 1
		},
		"a window of the sender": func(s *scene) uint32 {
			w := s.p.h.window(2)
			s.umr(s.p, unharmed, w, s.p.bind(2, uint8(w), s.local, 0, 64, mkeyWrite))
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{})
			w := key(s)
			next := s.q.h.events()
			s.q.recv(s.far.data(0, 64))
			index := s.p.post(inval(w), s.local.data(0, 64))
			s.settle()
			require.Equal(t, []happening{{control.EventInvalidRequest, s.q.num}}, happened(next))
			s.failed(s.q.rcq.one(), cqe.RemoteInvalidRequest, 0)
			require.Equal(t, control.StateERR, s.q.state())
			if overCable == nil { // over a cable the rig lets the retries expire by itself
				s.p.scq.none()
				s.expire()
			}
			s.failed(s.p.scq.one(), cqe.TransportRetry, index)
		})
	}
}

// A list that is made with its entries may begin before the memory that they name, and end behind it. Bytes
// outside are not accessible; the rest is at the same addresses as with whole entries.
func TestListBeyondItsMemory(t *testing.T) {
	s := newScene(t, Config{})
	h := s.q.h
	m := h.mkey(2)
	half := uint64(len(s.far.mem)) / 2
	require.NoError(t, h.c.CompleteList(m, nic.ListKey{Start: 0x5000, Length: 2*half + 24, Access: control.AccessLocalWrite | control.AccessRemoteWrite, Entries: []nic.ListEntry{
		{Key: s.far.key, Addr: s.far.addr - 8, N: half + 8}, {Key: s.far.key, Addr: s.far.addr + half, N: half + 100},
	}}))
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: 0x5008, RKey: m}, s.local.data(0, 64))
	s.settle()
	s.p.good()
	s.same(s.local.mem[:64], s.far.mem[:64], "the first bytes")
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: 0x5008 + 2*half - 32, RKey: m}, s.local.data(64, 32))
	s.settle()
	s.p.good()
	s.same(s.local.mem[64:96], s.far.mem[2*half-32:2*half], "the last bytes")
	for _, at := range []uint64{0x5000, 0x5007, 0x5008 + 2*half - 7, 0x5008 + 2*half} {
		s := newScene(t, Config{})
		m := s.q.h.mkey(1)
		require.NoError(t, s.q.h.c.CompleteList(m, nic.ListKey{Start: 0x5000, Length: 2*half + 24, Access: control.AccessLocalWrite | control.AccessRemoteWrite, Entries: []nic.ListEntry{
			{Key: s.far.key, Addr: s.far.addr - 8, N: 2*half + 24}}}), at)
		s.write(cqe.RemoteAccess, wqe.Raddr{Addr: at, RKey: m})
	}
}

// A list is judged as it was asked for, before it is cut.
func TestListsThatAreWrongBeforeTheyAreCut(t *testing.T) {
	s := newScene(t, Config{})
	c, far := s.q.h.c, s.far
	for want, d := range map[string]nic.ListKey{
		"its entries together have 64": {Length: 1 << 20, Entries: []nic.ListEntry{{Key: far.key, Addr: far.addr, N: 64}}},
		"passes the end of the address space": {Start: 1<<64 - 16, Length: 64,
			Entries: []nic.ListEntry{{Key: far.key, Addr: far.addr - 24, N: 64}}},
	} {
		require.ErrorContains(t, c.CompleteList(s.q.h.mkey(1), d), want)
	}
}

// inval returns the control segment of a SEND with invalidate.
func inval(key uint32) wqe.Ctrl {
	c := ctrl(wqe.OpSendInval)
	c.Imm = key
	return c
}

// A SEND with invalidate empties a list that allows it, and only once.
func TestSendInvalOfAList(t *testing.T) {
	s := newScene(t, Config{})
	h := s.q.h
	m := h.mkey(1)
	require.NoError(t, h.c.CompleteList(m, nic.ListKey{Invalidate: true}))
	require.ErrorContains(t, h.c.CompleteList(s.far.key, nic.ListKey{}), "list key", "registered memory")
	require.ErrorContains(t, h.c.CompleteList(h.window(2), nic.ListKey{}), "list key", "a window")
	require.ErrorContains(t, s.p.h.c.CompleteList(m, nic.ListKey{Invalidate: true}), "list key", "of another client")
	c := ctrl(wqe.OpSendInval)
	c.Imm = m
	for range 2 {
		s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 64)))
		s.q.recv(s.far.data(64, 64))
		s.p.post(c, s.local.data(0, 64))
		s.settle()
		s.p.good()
		require.Equal(t, m, s.q.rcq.one().Imm)
		s.write(cqe.RemoteAccess, wqe.Raddr{Addr: 0, RKey: m})
	}
	s.q.recv(s.far.data(0, 64))
	s.p.post(c, s.local.data(0, 64))
	s.expire()
	require.Equal(t, cqe.RemoteInvalidRequest, s.q.rcq.one().Syndrome, "the list is empty already")
	require.Equal(t, cqe.TransportRetry, s.p.scq.one().Syndrome)
}

// A key with bound windows can neither be destroyed nor changed. Without windows it can.
func TestKeyUnderWindows(t *testing.T) {
	s := newScene(t, Config{})
	h := s.q.h
	w, v := h.window(1), h.window(2)
	s.umr(s.q, unharmed, w, s.q.bind(1, uint8(w), s.far, 0, 64, mkeyWrite))
	s.umr(s.q, unharmed, v, s.q.bind(2, uint8(v), s.far, 0, 64, mkeyWrite))
	dereg := func(text string) {
		h.refused(control.CodeBusy, text, control.OpDeregMR, &control.Key{Key: s.far.key}, nil)
		h.refused(control.CodeBusy, text, control.OpReregMR, &control.ReregMR{Key: s.far.key, What: control.ReregAccess}, nil)
	}
	dereg("2 bound memory windows")
	other := h.full(64, 3)
	// Binds the window to other memory, without closing it.
	s.umr(s.q, unharmed, w, s.q.bind(1, uint8(w), other, 0, 64, mkeyWrite))
	dereg("1 bound memory window")
	h.refused(control.CodeBusy, "1 bound", control.OpDeregMR, &control.Key{Key: other.key}, nil)
	h.dereg(v) // destroys the window while it is bound
	h.dereg(s.far.key)
	h.dereg(variant(w, 0x99)) // its owner does not know its present variant
	h.dereg(other.key)
}

// A window is closed in the middle of a transfer through it.
func TestWindowClosedInTheMiddle(t *testing.T) {
	for name, f := range map[string]func(s *scene, w uint32, far *key){
		"local invalidate": func(s *scene, w uint32, far *key) {
			s.q.post(umr(w), s.q.bind(2, uint8(w), far, 0, 0, 0)...)
			s.e.Step()
		},
		"deallocation": func(s *scene, w uint32, _ *key) { s.q.h.dereg(w) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Config{Slice: 64})
			src, far := s.p.h.full(1024, 1), s.q.h.full(1024, 2)
			w := s.q.h.window(2)
			s.umr(s.q, unharmed, w, s.q.bind(2, uint8(w), far, 0, 1024, mkeyWrite))
			s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: far.addr, RKey: w}, src.data(0, 1024))
			s.e.Step()
			s.e.Step()
			require.NotNil(t, s.p.q.Job)
			f(s, w, far)
			was := append([]byte(nil), far.mem...)
			s.settle()
			s.same(was, far.mem, "what was behind the window")
			require.Equal(t, cqe.RemoteAccess, s.p.scq.one().Syndrome)
		})
	}
}

// A UMR changes what its mask names, or is refused, and the refusal says what cannot be changed.
func TestUMRMask(t *testing.T) {
	for _, row := range []struct {
		mask  uint64
		words string // text of the refusal; "": the UMR succeeds
	}{
		{wqe.MaskBSFEnable, "signatures (bsf)"},
		{wqe.MaskPD, "the protection domain"},
		{wqe.MaskPageSize, "the page size"},
		{wqe.MaskRemoteInval, "remote invalidation"},
		{wqe.MaskSigErrCount, "signature errors"},
		{wqe.MaskBSFEnable | wqe.MaskPD, "bits 0x1080"},
		{1 << 40, "bits 0x10000000000"},
		{wqe.MaskLocalRead, "local reading"},
		{wqe.MaskSmallFence, ""},
	} {
		s := newScene(t, Config{})
		next := s.q.h.events()
		m := s.q.h.mkey(2)
		seg := fill(m, mkeyAll, 64, s.far.klm(0, 64))
		c := seg[0].(wqe.UMRCtrl)
		c.MkeyMask |= row.mask
		seg[0] = c
		want := unharmed
		if row.words != "" {
			want = cqe.MWBind
		}
		s.umr(s.q, want, m, seg)
		if row.words != "" {
			require.Contains(t, next().Text, row.words)
		}
		require.Equal(t, row.words != "", s.e.Keys.Find(m).Free)
	}
}

// A UMR without a list and without a length changes attributes, and keeps the present list.
// With a length it makes another list.
func TestUMRChangesAttributesOnly(t *testing.T) {
	s := newScene(t, Config{})
	m := s.q.h.mkey(2)
	s.umr(s.q, unharmed, m, fill(m, mkeyAll, 64, s.far.klm(0, 32), s.far.klm(64, 32)))
	s.write(unharmed, wqe.Raddr{RKey: m, Addr: 28})
	only := func(mask uint64, c wqe.MkeyContext) []any {
		return []any{wqe.UMRCtrl{Flags: wqe.UMRInline, MkeyMask: wqe.MaskFree | mask}, c}
	}
	s.umr(s.q, unharmed, m, only(maskRights, wqe.MkeyContext{Access: mkeyRead}))
	s.write(cqe.RemoteAccess, wqe.Raddr{RKey: m, Addr: 28})
	s.umr(s.q, unharmed, m, only(maskRights|wqe.MaskStartAddr, wqe.MkeyContext{Access: mkeyWrite, StartAddr: 0x1000}))
	copy(s.far.mem, make([]byte, 128))
	s.write(unharmed, wqe.Raddr{RKey: m, Addr: 0x1000 + 28})
	require.Equal(t, "writ", string(s.far.mem[28:32]))
	require.Equal(t, "ten!", string(s.far.mem[64:68]))
	s.umr(s.q, cqe.MWBind, m, only(wqe.MaskLen, wqe.MkeyContext{Len: 64}))
}
