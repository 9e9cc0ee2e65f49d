package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Queue pairs that lack a side, and queues in the forms in which posters on accelerators make them.

// Entries of a cyclic queue are taken in the order of their places, whatever is where a list has its links.
func TestCyclicSRQ(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{Cyclic: 1})
	next := x.to[0].h.events()
	x.fill()
	for i := range uint16(8) {
		x.s.link(i, 3)
	}
	sent := uint16(0)
	for range 3 { // laps
		x.s.post(8)
		x.to[0].h.call(control.OpModifySRQ, &control.SRQLimit{SRQN: x.s.num, Limit: 3}, &control.Empty{})
		for i := range uint16(8) {
			x.from[sent%2].post(ctrl(wqe.OpSend), []byte{byte(i)})
			sent++
			x.settle()
			w := x.c.one()
			require.Equal(t, i, w.Counter)
			require.Equal(t, byte(i), x.box.mem[int(i)*256])
			events := happened(next)
			if i == 5 { // two are left
				require.Equal(t, []happening{{control.EventSRQLimit, x.s.num}}, events)
			} else {
				require.Empty(t, events)
			}
		}
	}
	m := control.SRQ{PDN: x.to[0].h.pd, LogSize: 3, LogStride: 6, Cyclic: 2}
	x.to[0].h.refused(control.CodeInvalid, "cyclic 2; 0 and 1 are possible", control.OpCreateSRQ, &m, nil)
}

// A collapsed queue of any size needs the memory of one entry. Its owner bit turns every 2^log_size
// completions.
func TestCollapsedInOneEntry(t *testing.T) {
	for _, logSize := range []uint8{0, 2, 22} {
		for _, logCQE := range []uint8{6, 7} {
			r := newRig(t, Config{})
			a := r.host("a")
			size := 1 << logCQE
			mem, addr := a.take(2 * size)
			for i := range mem {
				mem[i] = 0xff
			}
			_, rec := a.take(8)
			m := control.CQ{Buf: addr, DBRec: rec, LogSize: logSize, LogCQE: logCQE,
				Flags: control.CQCollapsed | control.CQIgnoreOverrun}
			var ans control.CQN
			a.call(control.OpCreateCQ, &m, &ans)
			c := &poller{h: a, num: ans.CQN}
			p := a.qp(control.QP{NoReceive: 1}, c, nil)
			p.up(p)
			for i := range uint16(9) {
				index := p.post(ctrl(wqe.OpNop))
				r.settle()
				require.Equal(t, index, binary.BigEndian.Uint16(mem[size-4:]))
				require.Equal(t, byte(i>>logSize&1), mem[size-1], "op_own of %d of 2^%d", i, logSize)
				for _, b := range mem[size:] {
					require.Equal(t, byte(0xff), b, "beyond the entry")
				}
			}
			require.Equal(t, control.StateRTS, p.state())
		}
	}
}

// A collapsed queue may be the last entry of its region, however large it says it is. Another queue may
// not.
func TestCollapsedAtTheEnd(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	mem, err := shm.Heap(1 << 16)
	require.NoError(t, err)
	const base = 0x7abc_0000_0000
	a.addRegion(base, mem)
	m := control.CQ{Buf: base + 1<<16 - 64, DBRec: base, LogSize: 10, LogCQE: 6, Flags: control.CQCollapsed}
	a.call(control.OpCreateCQ, &m, &control.CQN{})
	m.Flags = 0
	a.refused(control.CodeInvalid, "CQ buffer: 65536 bytes at", control.OpCreateCQ, &m, nil)
}

// A queue pair without a receive queue needs no CQ for receives. It takes RDMA requests, and answers a SEND
// as one whose receives are used up.
func TestNoReceiveQueueNoCQ(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{NoReceive: 1}, cb, nil)
	p.up(q)
	q.up(p)
	far := b.full(64, 2)
	p.post(ctrl(wqe.OpRDMAWrite), far.raddr(8), []byte("posted"))
	r.settle()
	require.Equal(t, cqe.WCRDMAWrite, ca.one().Opcode)
	require.Equal(t, "posted", string(far.mem[8:14]))
	q.post(ctrl(wqe.OpNop))
	r.settle()
	require.Equal(t, cqe.StatusSuccess, cb.one().Status)

	p.q.Attr.RNRRetry = 3
	index := p.post(ctrl(wqe.OpSend), []byte("nobody receives this"))
	r.expire()
	r.failed(ca.one(), cqe.RNRRetry, index)
	require.Equal(t, control.StateRTS, q.state())
	cb.none()
	q.destroy()
	b.call(control.OpDestroyCQ, &control.CQN{CQN: cb.num}, &control.Empty{})

	m := control.QP{PDN: b.pd, SendCQN: 0, NoReceive: 1}
	b.refused(control.CodeNotFound, "send CQ 0x0:", control.OpCreateQP, &m, nil)
}

// A queue pair without a send queue receives and flushes as any other. Nothing that its client writes into
// the send word of its record announces work.
func TestNoSendQueue(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	ca, cb := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, ca, ca), b.qp(control.QP{NoSend: 1}, nil, cb)
	p.up(q)
	q.up(p)
	box := b.full(64, 2)
	q.recv(box.data(0, 64))
	q.recv(box.data(0, 64))
	shm.BE32At(q.rec, 4).Publish(1)
	r.settle()
	p.post(ctrl(wqe.OpSend), []byte("received"))
	p.post(ctrl(wqe.OpRDMAWrite), box.raddr(32), []byte("written"))
	r.settle()
	require.Len(t, ca.all(), 2)
	require.Equal(t, uint32(8), cb.one().ByteLen)
	require.Equal(t, "received", string(box.mem[:8]))
	require.Equal(t, "written", string(box.mem[32:39]))
	q.toState(control.StateERR)
	r.settle()
	w := cb.one()
	require.Equal(t, cqe.Flush, w.Syndrome)
	require.Equal(t, uint16(1), w.Counter)
	q.destroy()
	b.call(control.OpDestroyCQ, &control.CQN{CQN: cb.num}, &control.Empty{})
}

func TestNoSendQueueRefused(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 2})
	_, at := a.take(64)
	for _, m := range []control.QP{
		{NoSend: 1, SQ: at}, {NoSend: 1, LogSQ: 1}, {NoSend: 1, Managed: 1}, {NoSend: 1, BlueFlame: 1},
		{NoSend: 1, Type: control.QPTypeXRC}, {NoSend: 1, Type: control.QPTypeDCI},
	} {
		m.PDN, m.SendCQN, m.NoReceive, m.DBRec = a.pd, c.num, 1, at
		a.refused(control.CodeInvalid, "no send queue, but", control.OpCreateQP, &m, nil)
	}
	m := control.QP{PDN: a.pd, NoSend: 1, NoReceive: 1, DBRec: at}
	a.refused(control.CodeNotFound, "CQ 0x0:", control.OpCreateQP, &m, nil)
}
