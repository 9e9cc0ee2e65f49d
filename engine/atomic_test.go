package engine

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/atomics"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Each atomic leaves the right value in the target, in host order, and delivers the old value:
// in host order if it has 8 bytes, in big-endian order if it has 4.
func TestAtomics(t *testing.T) {
	const old8, old4 = 0x1122334455667788, 0x55667788
	const big = 1<<63 | 1<<31
	for _, row := range []struct {
		name    string
		op      wqe.Opcode
		opmod   uint8
		operand any
		new     uint64
	}{
		{"FA", wqe.OpAtomicFA, 0, wqe.Atomic{SwapAdd: 0x10, Compare: 0xdead}, old8 + 0x10},
		{"FA, carry out", wqe.OpAtomicFA, 0, wqe.Atomic{SwapAdd: ^uint64(0)}, old8 - 1},
		{"CS, equal", wqe.OpAtomicCS, 0, wqe.Atomic{SwapAdd: 7, Compare: old8}, 7},
		{"CS, different", wqe.OpAtomicCS, 0, wqe.Atomic{SwapAdd: 7, Compare: old8 + 1}, old8},
		{"masked CS, 8 bytes, equal under the mask", wqe.OpAtomicMaskedCS, 9,
			wqe.MaskedCS8{Swap: 0xaaaaaaaaaaaaaaaa, Compare: 0x88, SwapMask: 0xff00, CompareMask: 0xff}, old8&^0xff00 | 0xaa00},
		{"masked CS, 8 bytes, different under the mask", wqe.OpAtomicMaskedCS, 9,
			wqe.MaskedCS8{Swap: 1, Compare: 0x89, SwapMask: ^uint64(0), CompareMask: 0xff}, old8},
		{"masked CS, opmod 0 is 8 bytes", wqe.OpAtomicMaskedCS, 0, wqe.MaskedCS8{Swap: 5, SwapMask: ^uint64(0)}, 5},
		{"masked CS, 4 bytes: swap", wqe.OpAtomicMaskedCS, 8, wqe.MaskedCS4{Swap: 0xcafe0001, SwapMask: ^uint32(0)}, 0xcafe0001},
		{"masked CS, 4 bytes: and", wqe.OpAtomicMaskedCS, 8, wqe.MaskedCS4{SwapMask: 0xffff}, old4 &^ 0xffff},
		{"masked CS, 4 bytes: or", wqe.OpAtomicMaskedCS, 8, wqe.MaskedCS4{Swap: ^uint32(0), SwapMask: 0xf}, old4 | 0xf},
		{"masked CS, 4 bytes, different", wqe.OpAtomicMaskedCS, 8,
			wqe.MaskedCS4{Swap: 1, Compare: old4 ^ 1<<31, SwapMask: ^uint32(0), CompareMask: 1 << 31}, old4},
		{"masked FA, 8 bytes, one field", wqe.OpAtomicMaskedFA, 9, wqe.MaskedFA8{Add: big}, old8 + big&^0},
		{"masked FA, 8 bytes, two fields: no carry between", wqe.OpAtomicMaskedFA, 9,
			wqe.MaskedFA8{Add: 0x00000001_f0000000, Boundary: big}, 0x11223345_45667788},
		{"masked FA, 8 bytes, bytes", wqe.OpAtomicMaskedFA, 9,
			wqe.MaskedFA8{Add: 0xffffffffffffffff, Boundary: 0x8080808080808080}, 0x1021324354657687},
		{"masked FA, 8 bytes, bits: exclusive or", wqe.OpAtomicMaskedFA, 9,
			wqe.MaskedFA8{Add: 0xf0f0f0f0f0f0f0f0, Boundary: ^uint64(0)}, old8 ^ 0xf0f0f0f0f0f0f0f0},
		{"masked FA, 4 bytes, one field", wqe.OpAtomicMaskedFA, 8, wqe.MaskedFA4{Add: 0xffffffff}, old4 - 1},
		{"masked FA, 4 bytes, halves", wqe.OpAtomicMaskedFA, 8, wqe.MaskedFA4{Add: 0x1ffff, Boundary: 1<<31 | 1<<15}, 0x55677787},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, p, q := duo(t, Config{})
			local, far := p.h.full(64, 1), q.h.full(64, 2)
			binary.LittleEndian.PutUint64(far.mem[8:], old8)
			was := append([]byte(nil), far.mem...)
			size := 8
			if row.opmod == 8 {
				size = 4
			}
			c := ctrl(row.op)
			c.OpMod = row.opmod
			p.post(c, far.raddr(8), row.operand, local.data(3, size))
			r.settle()
			w := p.scq.one()
			require.Equal(t, []any{unharmed, uint8(row.op)}, []any{w.Syndrome, w.WQEOpcode})
			require.Equal(t, uint32(size), binary.BigEndian.Uint32(p.scq.ring[44:]), "byte_cnt")
			want := binary.LittleEndian.AppendUint64(nil, row.new)[:size]
			require.Equal(t, want, far.mem[8:8+size], "the target")
			copy(far.mem[8:], was[8:8+size])
			r.same(was, far.mem, "around the target")
			if size == 8 {
				require.Equal(t, uint64(old8), binary.LittleEndian.Uint64(local.mem[3:]))
			} else {
				require.Equal(t, uint32(old4), binary.BigEndian.Uint32(local.mem[3:]))
				require.Equal(t, byte(1+7), local.mem[7], "behind the result")
			}
		})
	}
}

// The result of an atomic is delivered whole, and the atomic is executed once, even if the
// result goes into several pieces and almost nothing of the step's budget is left.
func TestAtomicResult(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 64})
	local, far := p.h.full(256, 1), q.h.full(256, 2)
	clear(far.mem[:8])
	for i := range uint64(5) {
		p.post(silent(wqe.OpRDMAWrite), far.raddr(100), pattern(61, 1))
		p.post(ctrl(wqe.OpAtomicFA), far.raddr(0), wqe.Atomic{SwapAdd: 1}, local.data(1, 3), local.data(10, 5))
		r.e.Step()
		require.Nil(t, p.q.Job)
		p.good()
		got := append(append([]byte{}, local.mem[1:4]...), local.mem[10:15]...)
		require.Equal(t, i, binary.LittleEndian.Uint64(got))
		require.Equal(t, i+1, binary.LittleEndian.Uint64(far.mem))
	}
}

// Each kind of invalid atomic is refused.
func TestAtomicFaults(t *testing.T) {
	fa := wqe.Atomic{SwapAdd: 1}
	for _, row := range []struct {
		name      string
		op        wqe.Opcode
		opmod     uint8
		seg       func(s *scene) []any
		prepare   func(s *scene)
		want      cqe.Syndrome
		event     control.EventKind
		responder bool
	}{
		{"misaligned by 1", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(1), fa, s.local.data(0, 8)} }, nil,
			cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"misaligned by 4", wqe.OpAtomicCS, 0, func(s *scene) []any { return []any{s.far.raddr(4), fa, s.local.data(0, 8)} }, nil,
			cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"4 bytes, misaligned by 2", wqe.OpAtomicMaskedFA, 8, func(s *scene) []any { return []any{s.far.raddr(2), wqe.MaskedFA4{}, s.local.data(0, 4)} }, nil,
			cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"no right of the key", wqe.OpAtomicFA, 0, func(s *scene) []any {
			return []any{s.q.h.key(64, control.AccessLocalWrite|control.AccessRemoteWrite|control.AccessRemoteRead).raddr(0), fa, s.local.data(0, 8)}
		}, nil, cqe.RemoteAccess, control.EventAccessError, true},
		{"past the key", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(256), fa, s.local.data(0, 8)} }, nil,
			cqe.RemoteAccess, control.EventAccessError, true},
		{"no right of the queue pair", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(0), fa, s.local.data(0, 8)} },
			func(s *scene) {
				s.q.modify(control.QPAttr{QPN: s.q.num, Mask: control.AttrAccess, Access: control.AccessRemoteWrite | control.AccessRemoteRead})
			}, cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"a depth of 0 at the responder", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(0), fa, s.local.data(0, 8)} },
			func(s *scene) { s.q.q.Attr.MaxDestRdAtomic = 0 }, cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"result of 4 bytes", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(0), fa, s.local.data(0, 4)} }, nil, cqe.LocalLength, 0, false},
		{"result of 16 bytes", wqe.OpAtomicCS, 0, func(s *scene) []any { return []any{s.far.raddr(0), fa, s.local.data(0, 16)} }, nil, cqe.LocalLength, 0, false},
		{"result of 8 bytes for 4", wqe.OpAtomicMaskedFA, 8, func(s *scene) []any { return []any{s.far.raddr(0), wqe.MaskedFA4{}, s.local.data(0, 8)} }, nil, cqe.LocalLength, 0, false},
		{"no result list", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(0), fa} }, nil, cqe.LocalLength, 0, false},
		{"no operands", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(0)} }, nil, cqe.LocalQPOp, 0, false},
		{"half the operands", wqe.OpAtomicMaskedCS, 9, func(s *scene) []any { return []any{s.far.raddr(0), wqe.MaskedCS4{}} }, nil, cqe.LocalQPOp, 0, false},
		{"result inline", wqe.OpAtomicFA, 0, func(s *scene) []any { return []any{s.far.raddr(0), fa, make([]byte, 8)} }, nil, cqe.LocalQPOp, 0, false},
		{"misaligned, key unknown", wqe.OpAtomicFA, 0, func(s *scene) []any {
			return []any{wqe.Raddr{Addr: s.far.addr + 1, RKey: 0x4560000}, fa, s.local.data(0, 8)}
		}, nil, cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"no right of the key, and result without local write", wqe.OpAtomicCS, 0, func(s *scene) []any {
			far := s.q.h.key(64, control.AccessLocalWrite|control.AccessRemoteWrite)
			return []any{far.raddr(0), fa, s.p.h.key(64, control.AccessRemoteRead).data(0, 8)}
		}, nil, cqe.RemoteAccess, control.EventAccessError, true},
		{"misaligned, and result of a key unknown", wqe.OpAtomicCS, 0, func(s *scene) []any {
			return []any{s.far.raddr(4), fa, wqe.Data{ByteCount: 8, LKey: 0x4560000}}
		}, nil, cqe.RemoteInvalidRequest, control.EventInvalidRequest, true},
		{"an operand size that there is not", wqe.OpAtomicMaskedFA, 0x0a, func(s *scene) []any { return []any{s.far.raddr(0), fa, s.local.data(0, 8)} }, nil,
			cqe.LocalQPOp, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			if row.prepare != nil {
				row.prepare(s)
			}
			next, none := s.q.h.events(), s.p.h.events()
			was := append([]byte(nil), s.far.mem...)
			head := ctrl(row.op)
			head.OpMod = row.opmod
			index := s.p.post(head, row.seg(s)...)
			s.settle()
			s.failed(s.p.scq.one(), row.want, index)
			s.same(was, s.far.mem, "the target")
			want := control.StateRTS
			var events []happening
			if row.responder {
				want = control.StateERR
				events = []happening{{row.event, s.q.num}}
			}
			require.Equal(t, []uint8{control.StateERR, want}, []uint8{s.p.state(), s.q.state()})
			require.Equal(t, events, happened(next))
			require.Empty(t, happened(none))
			require.Contains(t, said.String(), "code=")
		})
	}
}

// The key of the place for an atomic's old value is looked at when the answer comes. So the atomic is
// executed though its WQE fails.
func TestAtomicWithoutPlaceForItsResult(t *testing.T) {
	for name, result := range map[string]func(s *scene) []any{
		"key unknown": func(s *scene) []any { return []any{wqe.Data{ByteCount: 8, LKey: 0x4560000}} },
		"no local write": func(s *scene) []any {
			return []any{s.p.h.key(64, control.AccessRemoteRead).data(0, 8)}
		},
		"the first of two segments": func(s *scene) []any {
			return []any{wqe.Data{ByteCount: 4, LKey: 0x4560000}, s.local.data(0, 4)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, said := logged()
			s := newScene(t, c)
			binary.LittleEndian.PutUint64(s.far.mem, 41)
			was := append([]byte(nil), s.local.mem...)
			segments := append([]any{s.far.raddr(0), wqe.Atomic{SwapAdd: 1}}, result(s)...)
			index := s.p.post(ctrl(wqe.OpAtomicFA), segments...)
			s.settle()
			s.failed(s.p.scq.one(), cqe.LocalProtection, index)
			require.Equal(t, uint64(42), binary.LittleEndian.Uint64(s.far.mem))
			s.same(was, s.local.mem, "the requester's memory")
			require.Equal(t, []uint8{control.StateERR, control.StateRTS}, []uint8{s.p.state(), s.q.state()})
			require.Contains(t, said.String(), "lkey")
		})
	}
}

// Atomics of the device and of the processor on the same word lose nothing.
func TestAtomicsAreAtomic(t *testing.T) {
	for _, op := range []wqe.Opcode{wqe.OpAtomicFA, wqe.OpAtomicMaskedFA} {
		t.Run(op.String(), func(t *testing.T) {
			r, p, q := duo(t, Config{})
			local, far := p.h.full(64, 1), q.h.full(64, 2)
			clear(far.mem)
			r.start()
			n := rounds(500, 3000)
			word := far.mem[8:16]
			done := make(chan struct{})
			go func() {
				for range n {
					shm.Add(word, 1<<32) // the processor's own instruction
				}
				close(done)
			}()
			c := ctrl(op)
			var operand any = wqe.Atomic{SwapAdd: 1}
			if op == wqe.OpAtomicMaskedFA {
				c.OpMod, operand = wqe.OpMod8, wqe.MaskedFA8{Add: 1}
			}
			last := uint64(0)
			for i := range n {
				p.post(c, far.raddr(8), operand, local.data(0, 8))
				require.Equal(t, unharmed, p.scq.await().Syndrome)
				old := binary.LittleEndian.Uint64(local.mem)
				require.Equal(t, uint32(i), uint32(old), "each sees the one before")
				require.GreaterOrEqual(t, old>>32, last)
				last = old >> 32
			}
			<-done
			require.Equal(t, uint64(n<<32|n), shm.Add(word, 0))
		})
	}
}

// MaskedAdd gives the same sums as an addition of one field after another.
func TestMaskedAdd(t *testing.T) {
	fields := func(old, add, boundary uint64) (sum uint64) {
		from := 0
		for to := range 64 {
			if boundary>>to&1 != 0 || to == 63 {
				mask := (uint64(2)<<(to-from) - 1) << from
				sum |= (old&mask + add&mask) & mask
				from = to + 1
			}
		}
		return sum
	}
	seed := uint64(1)
	random := func() uint64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return seed ^ seed>>29
	}
	for range 10_000 {
		old, add, boundary := random(), random(), random()
		boundary &= random() // so that there are fewer and longer fields
		require.Equal(t, fields(old, add, boundary), atomics.MaskedAdd(old, add, boundary), fmt.Sprintf("%#x + %#x at %#x", old, add, boundary))
	}
}

// An atomic whose address is not aligned is refused, even if the memory is aligned. If the
// address is aligned and the memory is not, the explanation has other words.
func TestAtomicAlignmentIsOfTheAddress(t *testing.T) {
	for name, row := range map[string]struct {
		iova, off uint64 // the key's first address; its memory begins off bytes after an aligned address
		words     string
	}{
		"the address":         {0x1001, 0, "address 0x1001, which is not a multiple of 8"},
		"the address by half": {0x1004, 4, "address 0x1004, which is not a multiple of 8"},
		"the memory":          {0x1000, 1, "address 0x1000: its 8 bytes do not lie together on a multiple of 8 in memory"},
	} {
		t.Run(name, func(t *testing.T) {
			_, p, q := duo(t, Config{})
			next := p.h.events()
			res := p.h.full(64, 1)
			mem, addr := q.h.take(64)
			var ans control.Key
			q.h.call(control.OpRegMR, &control.MR{PDN: q.h.pd, Access: control.AccessAll &^ control.AccessZeroBased,
				Addr: addr + row.off, Length: 32, IOVA: row.iova}, &ans)
			p.post(ctrl(wqe.OpAtomicFA), wqe.Raddr{Addr: row.iova, RKey: ans.Key}, wqe.Atomic{SwapAdd: 1}, res.data(0, 8))
			p.h.settle()
			require.Equal(t, cqe.RemoteInvalidRequest, p.scq.one().Syndrome)
			require.Contains(t, next().Text, row.words)
			require.Equal(t, make([]byte, 64), mem)
		})
	}
}
