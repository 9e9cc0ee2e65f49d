package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// shared is a shared receive queue with two queue pairs of one client, and the queue pairs
// of another client that send to these two.
type shared struct {
	*rig
	s    *srqEnd
	box  *key
	from [2]*end
	to   [2]*end
	c    *poller // of both receivers
}

func newShared(t testing.TB, cfg Config, m control.SRQ) *shared {
	t.Helper()
	r := newRig(t, cfg)
	a, b := r.host("a"), r.host("b")
	x := &shared{rig: r, s: b.srq(m), box: b.full(4096, 9), c: b.cq(control.CQ{LogSize: 6})}
	for i := range x.from {
		c := a.cq(control.CQ{LogSize: 6})
		x.from[i], x.to[i] = a.qp(control.QP{}, c, c), x.s.on(control.QPTypeRC, x.c)
		x.from[i].up(x.to[i])
		x.to[i].up(x.from[i])
	}
	return x
}

// fill gives entry i of the ring 256 bytes of the box, at offset 256·i.
func (x *shared) fill() {
	for i := range uint16(8) {
		x.s.put(i, x.box.data(int(i)*256, 256))
	}
}

// indices returns the indices of the entries that completions name.
func indices(list []cqe.WC) (l []uint16) {
	for _, w := range list {
		l = append(l, w.Counter)
	}
	return l
}

// Entries are consumed in the order of their links, which is not the order in the ring. A
// completion names its entry. Both queue pairs take entries from one list.
func TestSRQFollowsLinks(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{})
	x.fill()
	order := []uint16{0, 5, 2, 7, 1, 6, 3, 4}
	for i, index := range order {
		x.s.link(index, order[(i+1)%8])
	}
	x.s.post(7)
	for i := range 7 {
		x.from[i%2].post(ctrl(wqe.OpSend), []byte{byte(i), 0xee})
		x.settle()
		x.from[i%2].good()
		w := x.c.one()
		require.Equal(t, []uint32{uint32(order[i]), x.to[i%2].num, 2}, []uint32{uint32(w.Counter), w.QPN, w.ByteLen})
		require.Equal(t, []byte{byte(i), 0xee}, x.box.mem[int(order[i])*256:][:2])
	}
	// The queue is empty. Then the client links entry 4 to entry 3 and entry 3 to entry 5, and
	// the record says that two more entries are posted.
	x.from[0].post(ctrl(wqe.OpSend))
	x.settle()
	x.c.none()
	x.s.link(4, 3)
	x.s.link(3, 5)
	x.s.post(2)
	x.from[1].post(ctrl(wqe.OpSend))
	x.settle()
	require.Equal(t, []uint16{4, 3}, indices(x.c.all()))
}

// A link is read when its entry is taken. So what the client writes into an entry that it
// has got back does not change the order.
func TestSRQLinkIsReadOnce(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{})
	x.fill()
	x.s.post(1)
	x.from[0].post(ctrl(wqe.OpSend))
	x.settle()
	require.Equal(t, []uint16{0}, indices(x.c.all()))
	x.s.link(0, 6) // the entry is free now, and the client links it after others
	x.s.post(1)
	x.from[0].post(ctrl(wqe.OpSend))
	x.settle()
	require.Equal(t, []uint16{1}, indices(x.c.all()))
}

// A WRITE with immediate takes an entry and does not use the entry's list.
func TestSRQWriteImm(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{})
	for i := range x.s.ring {
		x.s.ring[i] = 0xff
	}
	x.s.link(0, 3)
	x.s.link(3, 1)
	x.s.post(2)
	src := x.from[0].h.full(600, 1)
	for _, n := range []int{600, 1} { // over some links, the first takes several packets
		x.from[0].post(ctrl(wqe.OpRDMAWriteImm), x.box.raddr(0), src.data(0, n))
	}
	x.settle()
	list := x.c.all()
	require.Equal(t, []uint16{0, 3}, indices(list))
	require.Equal(t, cqe.RespWriteImm, list[0].Kind)
}

// Two messages are moved at the same time, each in slices, into entries of one queue. The
// shorter message ends first.
func TestSRQSlices(t *testing.T) {
	x := newShared(t, Config{Slice: 100}, control.SRQ{})
	x.fill()
	x.s.post(3)
	src := x.from[0].h.full(256, 1)
	x.from[0].post(ctrl(wqe.OpSend), src.data(0, 250))
	x.from[1].post(ctrl(wqe.OpSend), src.data(100, 150))
	x.from[1].post(ctrl(wqe.OpSend), src.data(0, 10))
	x.settle()
	list := x.c.all()
	require.Equal(t, []uint16{1, 2, 0}, indices(list), "in the order in which they end")
	x.same(src.mem[:250], x.box.mem[:250], "the first")
	x.same(src.mem[100:250], x.box.mem[256:406], "the second")
	x.same(src.mem[:10], x.box.mem[512:522], "the third")
}

// A transfer that is cut off gives its entry back, and the next message takes the entry.
func TestSRQEntryComesBack(t *testing.T) {
	x := newShared(t, Config{Slice: 64}, control.SRQ{})
	x.fill()
	x.s.post(2)
	src := x.from[0].h.full(256, 1)
	for range 3 { // more than once, because no entry may be lost
		x.from[0].post(ctrl(wqe.OpSend), src.data(0, 256))
		x.e.Step()
		require.NotNil(t, x.from[0].q.Job)
		require.Equal(t, uint16(1), x.s.s.Ready())
		x.from[0].toState(control.StateRST)
		require.Equal(t, uint16(2), x.s.s.Ready())
		x.from[0].reset(x.to[0])
	}
	x.from[1].post(ctrl(wqe.OpSend), src.data(0, 8))
	x.from[1].post(ctrl(wqe.OpSend), src.data(0, 8))
	x.settle()
	require.Equal(t, []uint16{0, 1}, indices(x.c.all()))
	// An entry also comes back when the receiver goes, or when the sender's client goes.
	x.s.post(1)
	x.from[0].post(ctrl(wqe.OpSend), src.data(0, 256))
	x.e.Step()
	x.to[0].destroy()
	x.e.Step()
	require.Equal(t, uint16(1), x.s.s.Ready())
	x.from[1].post(ctrl(wqe.OpSend), src.data(0, 256))
	x.e.Step()
	require.Zero(t, x.s.s.Ready())
	_ = x.from[0].h.c.Close()
	require.Equal(t, uint16(1), x.s.s.Ready())
}

// A fault at the responder uses up the entry that was taken, and puts one queue pair into
// error. The other entries stay for the other queue pairs; none is flushed.
func TestSRQFault(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{})
	x.fill()
	x.s.put(0, x.box.data(0, 7))
	x.s.post(3)
	next, others := x.to[0].h.events(), x.from[0].h.events()
	index := x.from[0].post(ctrl(wqe.OpSend), []byte("too long"))
	x.settle()
	x.failed(x.from[0].scq.one(), cqe.RemoteInvalidRequest, index)
	w := x.c.one()
	x.failed(w, cqe.LocalLength, 0)
	require.Equal(t, x.to[0].num, w.QPN)
	require.Equal(t, []happening{{control.EventLastWQE, x.to[0].num}}, happened(next))
	require.Empty(t, happened(others))
	require.Equal(t, []uint8{control.StateERR, control.StateRTS}, []uint8{x.to[0].state(), x.to[1].state()})
	x.from[1].post(ctrl(wqe.OpSend), []byte("x"))
	x.settle()
	require.Equal(t, []uint16{1}, indices(x.c.all()))
	require.Equal(t, uint16(1), x.s.s.Ready())
	x.to[1].toState(control.StateERR)
	x.settle()
	x.c.none()
	require.Equal(t, []happening{{control.EventLastWQE, x.to[1].num}}, happened(next))
}

// When fewer entries than the limit are ready, there is one event, and then none until the
// limit is set again. If fewer are ready when the limit is set, the event comes at once.
func TestSRQLimit(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{Limit: 3})
	x.fill()
	h := x.to[0].h
	next := h.events()
	x.s.post(5)
	limit := func() uint32 {
		var ans control.SRQLimit
		h.call(control.OpQuerySRQ, &control.SRQN{SRQN: x.s.num}, &ans)
		return ans.Limit
	}
	for left := 4; left >= 0; left-- {
		x.from[0].post(ctrl(wqe.OpSend))
		x.settle()
		if left == 2 {
			require.Equal(t, []happening{{control.EventSRQLimit, x.s.num}}, happened(next))
			require.Zero(t, limit())
		} else {
			require.Empty(t, happened(next), "%d are ready", left)
		}
	}
	x.s.post(3)
	arm := func(n uint32) {
		h.call(control.OpModifySRQ, &control.SRQLimit{SRQN: x.s.num, Limit: n}, &control.Empty{})
	}
	arm(3)
	require.Equal(t, uint32(3), limit())
	require.Empty(t, happened(next))
	arm(4)
	require.Equal(t, []happening{{control.EventSRQLimit, x.s.num}}, happened(next))
	require.Zero(t, limit())
	arm(2)
	arm(0) // no limit
	for range 3 {
		x.from[0].post(ctrl(wqe.OpSend))
	}
	x.settle()
	require.Empty(t, happened(next))
}

// Links out of range, cycles of links, and records that jump harm only their owner.
func TestSRQHostile(t *testing.T) {
	x := newShared(t, Config{Slice: 64}, control.SRQ{})
	x.fill()
	for i := range uint16(8) {
		x.s.link(i, i|0xfff8) // links the entry to itself, with bits that no index has
	}
	for round := range uint16(40) {
		shm.BE32At(x.s.rec, 0).Publish(uint32(round)*7919 | 0xabc00000)
		for _, p := range x.from {
			if p.state() != control.StateRTS || uint16(p.q.SQ.Done)+8 < p.sent {
				continue
			}
			p.post(ctrl(wqe.OpSend), x.from[0].h.full(64, byte(round)).data(0, 64), []byte("more"))
		}
		for range 20 {
			x.e.Step()
		}
		x.c.all()
		x.from[0].scq.all()
		x.from[1].scq.all()
		require.LessOrEqual(t, len(x.s.s.Returned), 8)
	}
	require.Equal(t, []uint8{control.StateRTS, control.StateRTS}, []uint8{x.to[0].state(), x.to[1].state()})
	// A record past the ring announces no entry.
	shm.BE32At(x.s.rec, 0).Publish(uint32(uint16(x.s.s.Taken) + 9))
	require.Equal(t, uint16(len(x.s.s.Returned)), x.s.s.Ready())
}

// A shared receive queue takes datagrams.
func TestSRQDatagram(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	s, box, c := b.srq(control.SRQ{}), b.full(512, 1), b.cq(control.CQ{LogSize: 4})
	p, _ := pairOf(control.QPTypeUD, a, a)
	q := s.on(control.QPTypeUD, c)
	q.up(q)
	s.put(0, box.data(0, 20)) // too short for a datagram: the receive stays
	s.post(1)
	p.post(ctrl(wqe.OpSend), q.to(), []byte("lost"))
	r.settle()
	p.good()
	c.none()
	require.Equal(t, uint16(1), s.s.Ready())
	s.put(0, box.data(0, 256))
	p.post(ctrl(wqe.OpSend), q.to(), []byte("here"))
	r.settle()
	p.good()
	require.Equal(t, uint32(44), c.one().ByteLen)
	require.Equal(t, "here", string(box.mem[40:44]))
}

func TestSRQRefusals(t *testing.T) {
	r := newRig(t, Config{Limits: Limits{QPs: 2}})
	h, other := r.host("a"), r.host("b")
	c := h.cq(control.CQ{LogSize: 2})
	before := h.population()
	_, ring := h.take(4096)
	_, rec := h.take(64)
	good := control.SRQ{PDN: h.pd, Ring: ring, DBRec: rec, LogSize: 3, LogStride: 6}
	bad := func(code control.Code, text string, change func(*control.SRQ)) {
		t.Helper()
		m := good
		change(&m)
		h.refused(code, text, control.OpCreateSRQ, &m, nil)
	}
	bad(control.CodeInvalid, "2^16", func(m *control.SRQ) { m.LogSize = 16 })
	bad(control.CodeInvalid, "2^255", func(m *control.SRQ) { m.LogSize = 255 })
	bad(control.CodeInvalid, "2^4 bytes", func(m *control.SRQ) { m.LogStride = 4 })
	bad(control.CodeInvalid, "2^11 bytes", func(m *control.SRQ) { m.LogStride = 11 })
	bad(control.CodeInvalid, "multiples", func(m *control.SRQ) { m.Ring += 32 })
	bad(control.CodeInvalid, "multiples", func(m *control.SRQ) { m.DBRec += 2 })
	bad(control.CodeInvalid, "limit 9", func(m *control.SRQ) { m.Limit = 9 })
	bad(control.CodeNotFound, "PD", func(m *control.SRQ) { m.PDN = 1 << 20 })
	bad(control.CodeInvalid, "shared receive queue", func(m *control.SRQ) { m.Ring = h.base + hostSize - 64 })
	bad(control.CodeInvalid, "doorbell record", func(m *control.SRQ) { m.DBRec = h.base - 8 })
	for _, op := range []control.Op{control.OpQuerySRQ, control.OpDestroySRQ} {
		h.refused(control.CodeNotFound, "SRQ", op, &control.SRQN{SRQN: 5}, nil)
	}
	h.refused(control.CodeNotFound, "SRQ", control.OpModifySRQ, &control.SRQLimit{SRQN: 5}, nil)
	require.Equal(t, before, h.population())

	s := h.srq(control.SRQ{})
	h.refused(control.CodeInvalid, "limit 9", control.OpModifySRQ, &control.SRQLimit{SRQN: s.num, Limit: 9}, nil)
	other.refused(control.CodeNotFound, "SRQ", control.OpModifySRQ, &control.SRQLimit{SRQN: s.num}, nil)
	other.refused(control.CodeNotFound, "SRQ", control.OpDestroySRQ, &control.SRQN{SRQN: s.num}, nil)
	oc := other.cq(control.CQ{LogSize: 2})
	other.refused(control.CodeNotFound, "SRQ", control.OpCreateQP, &control.QP{PDN: other.pd, SendCQN: oc.num, RecvCQN: oc.num,
		SQ: other.base, DBRec: other.base, NoReceive: 1, SRQN: s.num}, nil)
	second := h.srq(control.SRQ{})
	bad(control.CodeLimit, "shared receive queues", func(*control.SRQ) {})
	p := s.on(control.QPTypeRC, c)
	h.refused(control.CodeBusy, "1 queue pair", control.OpDestroySRQ, &control.SRQN{SRQN: s.num}, nil)
	h.refused(control.CodeBusy, "", control.OpDropRegion, &control.RegionID{ID: h.region}, nil)
	h.refused(control.CodeBusy, "", control.OpDeallocPD, &control.PD{PDN: h.pd}, nil)
	p.destroy()
	h.call(control.OpDestroySRQ, &control.SRQN{SRQN: s.num}, &control.Empty{})
	h.call(control.OpDestroySRQ, &control.SRQN{SRQN: second.num}, &control.Empty{})
	after := h.population()
	after["client cqs"], after["cqs"] = before["client cqs"], before["cqs"]
	before["region users"], after["region users"] = 0, 0
	require.Equal(t, before, after)
}
