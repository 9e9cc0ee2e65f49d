package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Known clients write records as the low 16, 24 or 32 bits of a counter that does not wrap
// at 16 bits. The device uses the low 16 bits.
func TestRecordWidths(t *testing.T) {
	for name, mask := range map[string]uint32{"16 bits": 0xffff, "24 bits": 0xffffff, "32 bits": 0xffffffff} {
		t.Run(name, func(t *testing.T) {
			r, p, q := duo(t, Config{})
			const before = 0x8ff_fff0 // blocks that were posted before
			p.q.SQ.Done, q.q.RQ.Done = before, before
			p.sent, q.received = before&0xffff, before&0xffff
			for i := range uint32(40) {
				q.received++
				shm.BE32At(q.rec, 0).Publish((before + i + 1) & mask)
				index := p.write(ctrl(wqe.OpSend))
				shm.BE32At(p.rec, 4).Publish((before + i + 1) & mask)
				r.settle()
				require.Equal(t, index, p.scq.one().Counter)
				require.Equal(t, uint16(before+i), q.rcq.one().Counter)
			}
		})
	}
}

// A send record that goes back, or past the ring, announces nothing. The right value,
// written afterwards, announces its work.
func TestRecordOutOfRange(t *testing.T) {
	r, p, _ := duo(t, Config{})
	rec := shm.BE32At(p.rec, 4)
	for range 5 {
		p.post(ctrl(wqe.OpNop))
	}
	r.settle()
	require.Len(t, p.scq.all(), 5)
	for _, odd := range []uint32{4, 0, 5 + 17, 5 + 0x8000, 0x05000000, 0xffffffff} {
		rec.Publish(odd)
		r.settle()
		p.scq.none()
		require.Equal(t, control.StateRTS, p.state())
	}
	for range 16 { // fills the whole ring
		p.write(ctrl(wqe.OpNop))
	}
	p.ring()
	r.settle()
	require.Len(t, p.scq.all(), 16)
}

// A receive record that goes back announces nothing either. There is a host path that sets the
// record back to 1.
func TestReceiveRecordGoesBack(t *testing.T) {
	r, p, q := duo(t, Config{})
	rec := shm.BE32At(q.rec, 0)
	for range 5 {
		q.recv()
	}
	for range 3 {
		p.post(ctrl(wqe.OpSend))
	}
	r.settle()
	require.Len(t, q.rcq.all(), 3)
	rec.Publish(1)
	p.post(ctrl(wqe.OpSend))
	r.settle()
	q.rcq.none() // waits
	rec.Publish(5)
	r.settle()
	require.Equal(t, uint16(3), q.rcq.one().Counter)
	require.Len(t, p.scq.all(), 4)
}

// A WQE is executed although it has garbage wherever clients leave garbage: in opmod (the upper
// bits of an index that was not cut to 16 bits), a wrong index, a wrong QPN, in the two bits
// above ds, in signature and stream, in the immediate, in the reserved word of the remote
// address, and in the bytes after the last segment.
func TestGarbageInReservedFields(t *testing.T) {
	r, p, q := duo(t, Config{})
	src, dst := p.h.full(64, 1), q.h.full(64, 2)
	for i := range uint16(40) {
		b := pattern(64, byte(i))
		c := wqe.Ctrl{OpMod: 0xff, Index: ^i, Opcode: wqe.OpRDMAWrite, QPN: 0xabcdef, Rsvd: 3, DS: 3,
			Sig: 0x77, Stream: 0x8888, Flags: wqe.CEAlways | 0x11 | 0xe0, Imm: 0x99999999}
		c.Put((*[16]byte)(b))
		wqe.Raddr{Addr: dst.addr, RKey: dst.key, Rsvd: 0xdeadbeef}.Put((*[16]byte)(b[16:]))
		src.data(0, 64).Put((*[16]byte)(b[32:]))
		p.raw(b)
		r.settle()
		w := p.scq.one()
		require.Equal(t, cqe.StatusSuccess, w.Status)
		require.Equal(t, []uint32{uint32(i), p.num}, []uint32{uint32(w.Counter), w.QPN}, "the device's own")
	}
	r.same(src.mem, dst.mem, "written")
}

// One record announces several posts, and needs no register: the test never writes one.
func TestOneRecordForManyPosts(t *testing.T) {
	r, p, _ := duo(t, Config{})
	for range 7 {
		p.write(ctrl(wqe.OpNop))
	}
	r.settle()
	p.scq.none() // no WQE is announced yet
	p.ring()
	r.settle()
	require.Len(t, p.scq.all(), 7)
	p.ring() // with the same record, so nothing new is announced
	r.settle()
	p.scq.none()
}

// A WQE is checked by its snapshot. Changes by the client afterwards, in the middle of the
// transfer, have no effect.
func TestSnapshot(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 64})
	src, dst := p.h.full(640, 1), q.h.full(1280, 2)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 640))
	r.e.Step()
	for i := range p.sq {
		p.sq[i] = 0xff
	}
	r.settle()
	require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
	r.same(src.mem, dst.mem[:640], "written")
}

// A transfer that has begun continues whatever the record says later, because the transfer
// was announced. Nothing after it is executed, because nothing after it was announced.
func TestRecordGoesBackDuringATransfer(t *testing.T) {
	for name, managed := range map[string]uint8{"announced": 0, "enabled": 1} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Slice: 64})
			h := r.host("h")
			c := h.cq(control.CQ{LogSize: 8})
			p := h.qp(control.QP{Managed: managed}, c, c)
			p.up(p)
			k := h.full(512, 1)
			// 2 blocks.
			p.write(ctrl(wqe.OpRDMAWrite), k.raddr(256), k.data(0, 64), k.data(64, 64), k.data(128, 8))
			for range 6 {
				p.write(ctrl(wqe.OpNop)) // neither announced nor enabled
			}
			p.q.SQ.Enabled = 2
			p.record(4, 2)
			r.e.Step()
			require.NotNil(t, p.q.Job)
			for _, back := range []uint32{1, 0, 0x7000} {
				p.record(4, back)
				r.e.Step()
			}
			p.record(4, 1)
			r.settle()
			require.Equal(t, cqe.StatusSuccess, c.one().Status)
			require.Equal(t, uint64(2), p.q.SQ.Done)
		})
	}
}

// If more blocks are done than are enabled, the number of pending blocks is 0. The subtraction
// does not wrap around to a number near 2^64.
func TestEnabledBehindSent(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	c := h.cq(control.CQ{LogSize: 4})
	p := h.qp(control.QP{Managed: 1}, c, c)
	p.up(p)
	for range 4 {
		p.write(ctrl(wqe.OpNop))
	}
	p.ring()
	p.q.SQ.Done, p.q.SQ.Enabled = 2, 1
	require.Zero(t, r.e.Pending(p.q))
}

// A send record that cannot be right is explained once, whatever it says.
func TestBadRecordIsExplainedOnce(t *testing.T) {
	for _, word := range []uint32{0, 0x1234, 0xfffffffe, 0xffffffff} {
		c, said := logged()
		r, p, _ := duo(t, c)
		p.post(ctrl(wqe.OpNop))
		r.settle()
		shm.BE32At(p.rec, 4).Publish(word)
		for range 5 {
			r.settle()
		}
		require.Equal(t, 1, strings.Count(said.String(), fmt.Sprintf("send record says 0x%08x", word)), "%s", said)
	}
}
