package engine

import (
	"encoding/binary"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The receive of a datagram begins with a GRH, which byte_cnt counts. The completion says
// from which queue pair the datagram came.
func TestDatagram(t *testing.T) {
	r := newRig(t, Config{Slice: 64}) // less than the message
	a, b := r.host("a"), r.host("b")
	p, q := pairOf(control.QPTypeUD, a, b)
	s, _ := pairOf(control.QPTypeUD, a, b)
	src, dst := a.full(300, 1), b.full(400, 9)
	q.recv(dst.data(0, 17), dst.data(20, 380))
	c := ctrl(wqe.OpSendImm)
	c.Imm = 0x01020304
	p.post(c, q.to(), src.data(0, 200), []byte("tail"))
	r.e.Step()
	other := s.to()
	other.GRH, other.TClass = 0, 0
	s.post(ctrl(wqe.OpSend), other, src.data(0, 8)) // this one has another GRH, and no receive
	r.settle()
	w := p.scq.one()
	require.Equal(t, []any{unharmed, uint32(0)}, []any{w.Syndrome, w.ByteLen})
	w = q.rcq.one()
	require.Equal(t, cqe.RespSendImm, w.Kind)
	require.Equal(t, cqe.WCGRH|cqe.WCWithImm, w.Flags)
	require.Equal(t, []uint32{244, p.num, 0x01020304, uidx}, []uint32{w.ByteLen, w.SrcQP, w.Imm, w.UIdx})
	got := append(append([]byte{}, dst.mem[:17]...), dst.mem[20:247]...)
	be := binary.BigEndian
	want := make([]byte, 40)
	be.PutUint32(want, 6<<28|0x5c<<20|0xabcde)
	be.PutUint16(want[4:], 204+20+4) // BTH, DETH, message, ICRC
	want[6], want[7] = 0x1b, 9
	for _, at := range []int{8, 24} {
		want[at], want[at+1] = 0xfe, 0x80
		be.PutUint64(want[at+8:], r.e.GUID)
	}
	r.same(append(append(want, src.mem[:200]...), "tail"...), got, "GRH and message")
}

// Datagrams of two senders use the receives in their order, and are complete in that order,
// although each of them is longer than what is left of a visit's budget.
func TestDatagramsAreWhole(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	a, b := r.host("a"), r.host("b")
	p, q := pairOf(control.QPTypeUD, a, b)
	s, _ := pairOf(control.QPTypeUD, a, b)
	const long, short, each = 4000, 300, 4096
	src, dst := a.full(long+short, 1), b.full(2*each, 9)
	q.recv(dst.data(0, each))
	q.recv(dst.data(each, each))
	p.post(ctrl(wqe.OpSend), q.to(), src.data(0, long))
	s.post(ctrl(wqe.OpSend), q.to(), src.data(long, short))
	r.settle()
	done := q.rcq.all()
	require.Len(t, done, 2)
	require.Equal(t, []uint32{p.num, object.GRHSize + long, s.num, object.GRHSize + short},
		[]uint32{done[0].SrcQP, done[0].ByteLen, done[1].SrcQP, done[1].ByteLen})
	r.same(src.mem[:long], dst.mem[object.GRHSize:][:long], "the first")
	r.same(src.mem[long:], dst.mem[each+object.GRHSize:][:short], "the second")
}

// When an unreliable transport loses a message, the sender has a success and the receiver
// has nothing. The receive that was posted serves the next message.
func TestLostMessages(t *testing.T) {
	type lost struct {
		transport uint8
		post      func(p, q *end, local, far *key)
		prepare   func(p, q *end, far *key)
		received  int // number of receives that prepare posts; a later good message uses them
	}
	send := func(p, q *end, local, _ *key) {
		if p.q.Transport == control.QPTypeUD {
			p.post(ctrl(wqe.OpSend), q.to(), local.data(0, 64))
			return
		}
		p.post(ctrl(wqe.OpSend), local.data(0, 64))
	}
	write := func(raddr func(far *key) wqe.Raddr) func(p, q *end, local, far *key) {
		return func(p, _ *end, local, far *key) {
			p.post(ctrl(wqe.OpRDMAWriteImm), raddr(far), local.data(0, 64))
		}
	}
	with := func(list func(far *key) []wqe.Data) func(p, q *end, far *key) {
		return func(_, q *end, far *key) { q.recv(list(far)...) }
	}
	both := map[string]lost{
		"no receive": {post: send},
		"receive too short": {post: send,
			prepare: with(func(far *key) []wqe.Data { return []wqe.Data{far.data(0, 63)} }), received: 1},
		"receive list key bad": {post: send,
			prepare: with(func(far *key) []wqe.Data { return []wqe.Data{{ByteCount: 256, LKey: 0x777700}} }), received: 1},
		"receive list past its key": {post: send,
			prepare: with(func(far *key) []wqe.Data { return []wqe.Data{far.data(200, 200)} }), received: 1},
		"peer in INIT": {post: send, prepare: func(_, q *end, _ *key) {
			q.toState(control.StateRST)
			q.modify(q.toInit())
		}},
		"peer in error":      {post: send, prepare: func(_, q *end, _ *key) { q.toState(control.StateERR) }},
		"peer gone":          {post: send, prepare: func(_, q *end, _ *key) { q.destroy() }},
		"peer's client gone": {post: send, prepare: func(_, q *end, _ *key) { _ = q.h.c.Close() }},
	}
	rows := map[string]lost{
		"UC WRITE_IMM without receive": {transport: control.QPTypeUC, post: write(func(far *key) wqe.Raddr { return far.raddr(0) })},
		"UC WRITE to a bad key": {transport: control.QPTypeUC, post: write(func(far *key) wqe.Raddr { return wqe.Raddr{RKey: 5} }),
			prepare: with(func(*key) []wqe.Data { return nil }), received: 1},
		"UC WRITE past the key": {transport: control.QPTypeUC, post: write(func(far *key) wqe.Raddr { return far.raddr(200) }),
			prepare: with(func(*key) []wqe.Data { return nil }), received: 1},
		"UC WRITE not allowed": {transport: control.QPTypeUC, post: write(func(far *key) wqe.Raddr { return far.raddr(0) }),
			prepare: func(_, q *end, _ *key) {
				q.recv()
				q.modify(control.QPAttr{QPN: q.num, Mask: control.AttrAccess, Access: 0})
			}, received: 1},
		"UC SEND_INVAL of what is no window": {transport: control.QPTypeUC, post: func(p, _ *end, local, far *key) {
			c := ctrl(wqe.OpSendInval)
			c.Imm = far.key
			p.post(c, local.data(0, 64))
		}, prepare: with(func(far *key) []wqe.Data { return []wqe.Data{far.data(128, 64)} }), received: 1},
		"UC peer connected to another": {transport: control.QPTypeUC, post: send, prepare: func(p, q *end, _ *key) {
			other, _ := pairOf(control.QPTypeUC, q.h, p.h)
			q.reset(other)
		}},
		"UD wrong qkey": {transport: control.QPTypeUD, post: func(p, q *end, local, _ *key) {
			av := q.to()
			av.Key = wqe.UDKey(qkey + 1)
			p.post(ctrl(wqe.OpSend), av, local.data(0, 64))
		}, prepare: with(func(far *key) []wqe.Data { return []wqe.Data{far.data(0, 256)} }), received: 1},
		"UD receive too short for the GRH": {transport: control.QPTypeUD, post: func(p, q *end, _, _ *key) { p.post(ctrl(wqe.OpSend), q.to()) },
			prepare: with(func(far *key) []wqe.Data { return []wqe.Data{far.data(0, 39)} }), received: 1},
		"UD to a queue of another transport": {transport: control.QPTypeUD, post: func(p, q *end, local, _ *key) {
			rc, _ := pair(q.h, p.h)
			p.post(ctrl(wqe.OpSend), rc.to(), local.data(0, 64))
		}},
		"UD to nobody": {transport: control.QPTypeUD, post: func(p, q *end, local, _ *key) {
			av := q.to()
			av.DQP = 1
			p.post(ctrl(wqe.OpSend), av, local.data(0, 64))
		}},
	}
	for name, row := range both {
		for _, transport := range []uint8{control.QPTypeUC, control.QPTypeUD} {
			row.transport = transport
			rows[states.Transports[transport].Name+" "+name] = row
		}
	}
	for name, row := range rows {
		for _, slice := range []int{64, 4096} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, Config{Slice: slice})
				p, q := pairOf(row.transport, r.host("a"), r.host("b"))
				local, far := p.h.full(256, 1), q.h.full(256, 2)
				if row.prepare != nil {
					row.prepare(p, q, far)
				}
				before := q.q.RQ.Done
				row.post(p, q, local, far)
				r.settle()
				p.good()
				require.Equal(t, control.StateRTS, p.state())
				require.Empty(t, stalledQueues(r.e))
				require.Equal(t, before, q.q.RQ.Done)
				if row.received == 0 {
					return
				}
				// The receive is still posted and takes a message of 0 bytes.
				require.Equal(t, control.StateRTS, q.state())
				q.rcq.none()
				if row.transport == control.QPTypeUC {
					p.post(ctrl(wqe.OpSend))
					r.settle()
					p.good()
					require.Equal(t, uint16(0), q.rcq.one().Counter)
				}
			})
		}
	}
}

// A qkey with its top bit set means the sender's own qkey.
func TestControlledQKey(t *testing.T) {
	r := newRig(t, Config{})
	p, q := pairOf(control.QPTypeUD, r.host("a"), r.host("b"))
	q.recv()
	q.recv(q.h.full(64, 1).data(0, 64))
	av := q.to()
	av.Key = wqe.UDKey(0x80000000)
	for _, own := range []uint32{qkey + 1, qkey} {
		p.modify(control.QPAttr{QPN: p.num, Mask: control.AttrQKey, QKey: own})
		p.post(ctrl(wqe.OpSend), av)
		r.settle()
		p.good()
	}
	q.rcq.none() // the first datagram was for another qkey, the second found a list of 0 bytes
	q.reset(q)
	q.recv(q.h.full(64, 1).data(0, 40))
	p.post(ctrl(wqe.OpSend), av)
	r.settle()
	p.good()
	require.Equal(t, uint32(40), q.rcq.one().ByteLen)
}

// A local fault of a datagram ends only the send side. In SQE the queue pair flushes sends
// and still receives, and it can go back to RTS.
func TestSQE(t *testing.T) {
	r := newRig(t, Config{})
	p, q := pairOf(control.QPTypeUD, r.host("a"), r.host("b"))
	local, box := p.h.full(5000, 1), p.h.full(200, 3)
	p.recv(box.data(0, 100))
	p.recv(box.data(100, 100))
	for name, row := range map[string]struct {
		want cqe.Syndrome
		seg  []any
	}{
		"longer than the path MTU": {cqe.LocalLength, []any{q.to(), local.data(0, 4097)}},
		"key unknown":              {cqe.LocalProtection, []any{q.to(), wqe.Data{ByteCount: 8, LKey: 5}}},
		"no address":               {cqe.LocalQPOp, []any{local.data(0, 8)}},
	} {
		t.Run(name, func(t *testing.T) {
			r.TB = t
			defer func() { r.TB = p.h.TB }()
			first := wqe.Ctrl{Opcode: wqe.OpSend, Flags: wqe.CEFirstError}
			bad := p.post(first, row.seg...)
			later := p.post(silent(wqe.OpSend), q.to(), local.data(0, 8))
			p.post(first, q.to())
			r.settle()
			require.Equal(t, control.StateSQE, p.state())
			list := p.scq.all()
			require.Len(t, list, 2)
			r.failed(list[0], row.want, bad)
			r.failed(list[1], cqe.Flush, later)
			// In RTS again, the queue continues at its present index.
			p.modify(control.QPAttr{QPN: p.num, Mask: control.AttrState | control.AttrCurState, State: control.StateRTS, CurState: control.StateSQE})
			p.post(ctrl(wqe.OpNop))
			r.settle()
			p.good()
		})
	}
	// While it is in SQE it receives.
	bad := p.post(ctrl(wqe.OpRDMAWrite))
	r.settle()
	r.failed(p.scq.one(), cqe.LocalQPOp, bad)
	q.post(ctrl(wqe.OpSend), p.to(), []byte("hello"))
	r.settle()
	q.good()
	require.Equal(t, uint32(45), p.rcq.one().ByteLen)
	require.Equal(t, "hello", string(box.mem[40:45]))
	p.toState(control.StateERR)
	r.settle()
	r.failed(p.rcq.one(), cqe.Flush, 1)
}

// The largest datagram arrives, and several queues receive from one sender.
func TestDatagramsToMany(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	p, _ := pairOf(control.QPTypeUD, a, a)
	local := a.full(4096, 1)
	var ends []*end
	var boxes []*key
	for i := range 4 {
		_, q := pairOf(control.QPTypeUD, a, r.host("b"))
		box := q.h.full(4136, byte(i))
		q.recv(box.data(0, 4136))
		ends, boxes = append(ends, q), append(boxes, box)
	}
	for _, q := range ends {
		p.post(ctrl(wqe.OpSend), q.to(), local.data(0, 4096))
	}
	r.settle()
	require.Len(t, p.scq.all(), 4)
	for i, q := range ends {
		require.Equal(t, uint32(4136), q.rcq.one().ByteLen)
		r.same(local.mem, boxes[i].mem[40:], "datagram")
	}
}

// Transfers on UC move the same bytes as on RC.
func TestUnreliableConnection(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	p, q := pairOf(control.QPTypeUC, r.host("a"), r.host("b"))
	local, far := p.h.full(200, 1), q.h.full(600, 2)
	q.recv(far.data(200, 200))
	q.recv()
	p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), local.data(0, 200))
	p.post(ctrl(wqe.OpSend), local.data(0, 200))
	p.post(ctrl(wqe.OpRDMAWriteImm), far.raddr(400), local.data(0, 200))
	r.settle()
	require.Len(t, p.scq.all(), 3)
	require.Len(t, q.rcq.all(), 2)
	for i := range 3 {
		r.same(local.mem, far.mem[200*i:200*i+200], "moved")
	}
	// A fault of the queue pair's own WQE is an error, as on RC.
	bad := p.post(ctrl(wqe.OpSend), wqe.Data{ByteCount: 8, LKey: 5})
	p.post(silent(wqe.OpNop))
	r.settle()
	list := p.scq.all()
	require.Len(t, list, 2)
	r.failed(list[0], cqe.LocalProtection, bad)
	r.failed(list[1], cqe.Flush, bad+1)
	require.Equal(t, []uint8{control.StateERR, control.StateRTS}, []uint8{p.state(), q.state()})
}

// On an unreliable transport, an overrun of the receiver's completion queue is not a fault
// of the sender.
func TestOverrunAtUnreliableReceiver(t *testing.T) {
	for _, transport := range []uint8{control.QPTypeUC, control.QPTypeUD} {
		r := newRig(t, Config{})
		a, b := r.host("a"), r.host("b")
		c, d, small := a.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{})
		p, q := a.qp(control.QP{Type: transport}, c, c), b.qp(control.QP{Type: transport}, d, small)
		p.up(q)
		q.up(p)
		box := b.full(64, 1)
		for range 4 {
			q.recv(box.data(0, 64))
			if transport == control.QPTypeUD {
				p.post(ctrl(wqe.OpSend), q.to())
			} else {
				p.post(ctrl(wqe.OpSend))
			}
		}
		r.settle()
		list := c.all()
		require.Len(t, list, 4)
		for _, w := range list {
			require.Equal(t, unharmed, w.Syndrome)
		}
		require.Equal(t, []uint8{control.StateRTS, control.StateERR}, []uint8{p.state(), q.state()})
	}
}

// A queue pair in RTR reports its first message by an event.
func TestEstablished(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, q := pair(a, b)
	q.toState(control.StateRST)
	q.modify(q.toInit())
	q.modify(q.toRTR(p.num))
	next, others := b.events(), a.events()
	far := b.full(64, 1)
	for range 3 {
		p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), []byte("x"))
	}
	r.settle()
	require.Equal(t, []happening{{control.EventEstablished, q.num}}, happened(next))
	require.Empty(t, happened(others))
}
