package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Every opcode that this device does not execute on a transport is refused,
// whatever follows the control segment.
func TestUnknownOpcodes(t *testing.T) {
	anywhere := []wqe.Opcode{wqe.OpNop, wqe.OpSend, wqe.OpSendImm, wqe.OpUMR, wqe.OpDump, wqe.OpMMO, wqe.OpWait, wqe.OpSendEn}
	connected := append(slices.Clone(anywhere), wqe.OpRDMAWrite, wqe.OpRDMAWriteImm, wqe.OpSendInval)
	for transport, executed := range map[uint8][]wqe.Opcode{
		control.QPTypeRC: append(slices.Clone(connected), wqe.OpRDMARead, wqe.OpAtomicCS, wqe.OpAtomicFA,
			wqe.OpAtomicMaskedCS, wqe.OpAtomicMaskedFA),
		control.QPTypeUC: connected,
		control.QPTypeUD: anywhere,
	} {
		t.Run(states.Transports[transport].Name, func(t *testing.T) {
			c, said := logged()
			r := newRig(t, c)
			a, b := r.host("a"), r.host("b")
			p, q := pairOf(transport, a, b)
			local, far := a.full(64, 1), b.full(64, 2)
			for op := range 256 {
				if slices.Contains(executed, wqe.Opcode(op)) {
					continue
				}
				index := p.post(wqe.Ctrl{Opcode: wqe.Opcode(op)}, far.raddr(0), local.data(0, 8))
				r.settle()
				w := p.scq.one()
				r.failed(w, cqe.LocalQPOp, index)
				require.Equal(t, uint8(op), w.WQEOpcode)
				require.Equal(t, control.StateRTS, q.state())
				p.reset(q)
			}
			require.Contains(t, said.String(), "is not executed by this device on "+states.Transports[transport].Name)
		})
	}
}

// reset takes p through RST to RTS again, as its client does.
func (p *end) reset(dest *end) {
	p.h.Helper()
	p.toState(control.StateRST)
	p.sent, p.received = 0, 0
	clear(p.rec)
	p.up(dest)
}

// A WQE fails if its ds is 0, larger than what the record announces, or too small for its
// opcode. The work after it is flushed.
func TestBadSizes(t *testing.T) {
	for _, row := range []struct {
		name string
		op   wqe.Opcode
		ds   uint8
	}{
		{"ds 0", wqe.OpNop, 0}, {"ds 0", wqe.OpRDMAWrite, 0}, {"ds 1", wqe.OpRDMAWrite, 1},
		{"ds 1", wqe.OpRDMAWriteImm, 1}, {"ds 1", wqe.OpRDMARead, 1},
		{"past the record", wqe.OpNop, 5}, {"past the record", wqe.OpSend, 63}, {"past the ring", wqe.OpNop, 63},
	} {
		t.Run(fmt.Sprintf("%v %s", row.op, row.name), func(t *testing.T) {
			r, p, q := duo(t, Config{})
			if row.name == "past the ring" {
				// A ds of 63 is 16 blocks, which is the whole ring. Only one block is
				// announced, after one lap of the ring.
				for range 16 {
					p.post(silent(wqe.OpNop))
				}
				r.settle()
			}
			var b [64]byte
			wqe.Ctrl{Opcode: row.op, QPN: p.num, DS: row.ds}.Put((*[16]byte)(b[:]))
			index := p.raw(b[:])
			r.settle()
			w := p.scq.one()
			r.failed(w, cqe.LocalQPOp, index)
			require.Equal(t, uint8(row.op), w.WQEOpcode)
			next := p.post(silent(wqe.OpNop))
			r.settle()
			r.failed(p.scq.one(), cqe.Flush, next)
			require.Equal(t, control.StateRTS, q.state())
		})
	}
}

// A NOP may have any ds, because clients turn posted WQEs into NOPs in place.
func TestNopOfAnySize(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{LogSQ: 5}, c, c)
	p.up(p)
	for ds := uint8(1); ds <= 63; ds++ {
		b := make([]byte, 64*((int(ds)+3)/4))
		copy(b, pattern(len(b), ds))
		ctrl := wqe.Ctrl{Opcode: wqe.OpNop, QPN: p.num, DS: ds, Flags: wqe.CEAlways}
		ctrl.Put((*[16]byte)(b))
		index := p.raw(b)
		r.settle()
		w := c.one()
		require.Equal(t, []any{cqe.StatusSuccess, index}, []any{w.Status, w.Counter})
	}
	require.Equal(t, uint64(p.sent), p.q.SQ.Done)
}

// A message has at most wqe.MaxMessage bytes. One byte more is a local length error,
// whatever pieces the message consists of.
func TestMessageTooLong(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{LogSQ: 5}, c, c)
	p.up(p)
	const size = 40 << 20
	mem, err := shm.Heap(size) // never touched
	require.NoError(t, err)
	a.addRegion(0x1000_0000, mem)
	key := a.reg(a.pd, 0x1000_0000, size, control.AccessLocalWrite)
	for _, last := range []uint32{0, 1} { // 0: as many bytes as the limit allows
		segments := []any{wqe.Raddr{RKey: 1}}
		left := uint32(wqe.MaxMessage) + last
		for left > 0 {
			n := min(left, size)
			segments = append(segments, wqe.Data{ByteCount: n, LKey: key, Addr: 0x1000_0000})
			left -= n
		}
		want := cqe.RemoteAccess // the local side is valid, but there is no such rkey
		if last > 0 {
			want = cqe.LocalLength
		}
		index := p.post(ctrl(wqe.OpRDMAWrite), segments...)
		r.settle()
		r.failed(c.one(), want, index)
		p.reset(p)
	}
}

// A range that ends with its key's last byte is inside the key, for WRITE, READ and SEND.
func TestLastByte(t *testing.T) {
	for _, n := range []int{1, 8, 255, 256} {
		s := newScene(t, Config{})
		s.q.recv(s.far.data(256-n, n))
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(256-n), s.local.data(256-n, n))
		s.p.post(ctrl(wqe.OpRDMARead), s.far.raddr(256-n), s.local.data(256-n, n))
		s.p.post(ctrl(wqe.OpSend), s.local.data(256-n, n))
		s.settle()
		require.Len(t, s.p.scq.all(), 3)
		require.Equal(t, control.StateRTS, s.p.state())
		s.same(s.local.mem[256-n:], s.far.mem[256-n:], "the last bytes")
	}
}

// The addresses of a key may begin at 0, and may reach the end of the address space.
func TestIOVA(t *testing.T) {
	s := newScene(t, Config{})
	_, addr := s.q.h.take(64)
	var zero, top control.Key
	s.q.h.call(control.OpRegMR, &control.MR{PDN: s.q.h.pd, Access: control.AccessLocalWrite | control.AccessRemoteWrite | control.AccessZeroBased,
		Addr: addr, Length: 64, IOVA: 0x1234}, &zero)
	s.q.h.call(control.OpRegMR, &control.MR{PDN: s.q.h.pd, Access: control.AccessLocalWrite | control.AccessRemoteWrite,
		Addr: addr, Length: 64, IOVA: ^uint64(0) - 63}, &top)
	mem := s.q.h.mem.Bytes()[addr-s.q.h.base:]
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: 60, RKey: zero.Key}, []byte("zero"))
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: ^uint64(0) - 63, RKey: top.Key}, []byte("top"))
	s.settle()
	require.Len(t, s.p.scq.all(), 2)
	require.Equal(t, "top", string(mem[:3]))
	require.Equal(t, "zero", string(mem[60:64]))
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: ^uint64(0), RKey: top.Key}, []byte("xy"))
	s.settle()
	s.failed(s.p.scq.one(), cqe.RemoteAccess, 2)
	s.p.reset(s.q)
	s.q.reset(s.p)
	s.p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: 61, RKey: zero.Key}, []byte("zero"))
	s.settle()
	s.failed(s.p.scq.one(), cqe.RemoteAccess, 0)
}

// A responder whose max_dest_rd_atomic is 0 answers READ with invalid request.
func TestReadDepthZero(t *testing.T) {
	s := newScene(t, Config{})
	s.q.toState(control.StateRST)
	s.q.modify(s.q.toInit())
	a := s.q.toRTR(s.p.num)
	a.MaxDestRdAtomic = 0
	s.q.modify(a)
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	index := s.p.post(ctrl(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 8))
	s.settle()
	list := s.p.scq.all()
	require.Len(t, list, 2)
	require.Equal(t, cqe.StatusSuccess, list[0].Status)
	s.failed(list[1], cqe.RemoteInvalidRequest, index)
	require.Equal(t, control.StateERR, s.q.state())
}

// Signatures are checked if the queue pair was made with signatures.
func TestSignature(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{SignatureOn: 1}, c, c)
	p.up(p)
	k := a.full(300, 1)
	for flip := range 2 {
		b := wqe.Start(p.sq, p.sent)
		b.Raddr(k.raddr(200))
		b.Inline(pattern(90, 3))
		blocks, err := b.FinishSigned(wqe.Ctrl{Opcode: wqe.OpRDMAWrite, QPN: p.num, Flags: wqe.CEAlways})
		require.NoError(t, err)
		p.sq[int(p.sent)*64+70] ^= byte(flip)
		p.sent += uint16(blocks)
		p.ring()
		r.settle()
		w := c.one()
		if flip == 0 {
			require.Equal(t, cqe.StatusSuccess, w.Status)
		} else {
			r.failed(w, cqe.LocalQPOp, 2)
		}
	}
}

// A WQE whose completion mode is "first error only" has a completion if it is the first
// error.
func TestFirstErrorIsReported(t *testing.T) {
	s := newScene(t, Config{})
	first := wqe.Ctrl{Opcode: wqe.OpRDMAWrite, Flags: wqe.CEFirstError}
	s.p.post(first, s.far.raddr(0), s.local.data(0, 8)) // succeeds: no completion
	index := s.p.post(first, wqe.Raddr{}, s.local.data(0, 8))
	for range 3 {
		s.p.post(first, wqe.Raddr{}, s.local.data(0, 8))
	}
	s.settle()
	s.failed(s.p.scq.one(), cqe.RemoteAccess, index)
	// A reset clears the error.
	s.p.reset(s.q)
	s.q.reset(s.p)
	s.p.post(first, wqe.Raddr{}, s.local.data(0, 8))
	s.settle()
	s.failed(s.p.scq.one(), cqe.RemoteAccess, 0)
}

// A long queue is flushed in order and completely, within the budget of each step.
func TestFlushKeepsTheBudget(t *testing.T) {
	r := newRig(t, Config{Burst: 4})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 6})
	p := a.qp(control.QP{}, c, c)
	p.up(p)
	for range 5 {
		p.recv()
	}
	for range 16 {
		p.write(silent(wqe.OpNop))
	}
	p.toState(control.StateERR)
	p.ring()
	var got []cqe.WC
	for range 6 {
		require.LessOrEqual(t, r.e.Step(), 4)
		got = append(got, c.all()...)
	}
	require.Len(t, got, 21)
	for i, w := range got {
		r.failed(w, cqe.Flush, uint16(i%16))
		require.Equal(t, i < 16, w.Requester())
	}
}
