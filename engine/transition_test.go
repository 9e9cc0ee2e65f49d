package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/engine/internal/states"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// unreliableTables has the transitions of unreliable transports (ibv_modify_qp): the
// attributes that each requires, and those that it may take.
var unreliableTables = map[uint8]map[[2]uint8][2]uint32{
	control.QPTypeUC: {
		{control.StateRST, control.StateINIT}:  {control.AttrAccess | control.AttrPKeyIndex | control.AttrPort, 0},
		{control.StateINIT, control.StateINIT}: {0, control.AttrAccess | control.AttrPKeyIndex | control.AttrPort},
		{control.StateINIT, control.StateRTR}: {control.AttrAV | control.AttrPathMTU | control.AttrDestQPN | control.AttrRQPSN,
			control.AttrAccess | control.AttrPKeyIndex},
		{control.StateRTR, control.StateRTS}: {control.AttrSQPSN, control.AttrAccess},
		{control.StateRTS, control.StateRTS}: {0, control.AttrAccess},
		{control.StateRTS, control.StateSQD}: {},
		{control.StateSQD, control.StateRTS}: {0, control.AttrAccess},
		{control.StateSQD, control.StateSQD}: {0, control.AttrAccess | control.AttrPKeyIndex | control.AttrAV},
		{control.StateSQE, control.StateRTS}: {0, control.AttrAccess},
	},
	control.QPTypeUD: {
		{control.StateRST, control.StateINIT}:  {control.AttrQKey | control.AttrPKeyIndex | control.AttrPort, 0},
		{control.StateINIT, control.StateINIT}: {0, control.AttrQKey | control.AttrPKeyIndex | control.AttrPort},
		{control.StateINIT, control.StateRTR}:  {0, control.AttrQKey | control.AttrPKeyIndex},
		{control.StateRTR, control.StateRTS}:   {control.AttrSQPSN, control.AttrQKey},
		{control.StateRTS, control.StateRTS}:   {0, control.AttrQKey},
		{control.StateRTS, control.StateSQD}:   {},
		{control.StateSQD, control.StateRTS}:   {0, control.AttrQKey},
		{control.StateSQD, control.StateSQD}:   {0, control.AttrQKey | control.AttrPKeyIndex},
		{control.StateSQE, control.StateRTS}:   {0, control.AttrQKey},
	},
}

// Each pair of states of UC and UD is tried with each attribute. Required attributes must
// be there and optional ones may be. All others are refused, which changes nothing.
func TestUnreliableTransitions(t *testing.T) {
	r := newRig(t, Config{})
	a := r.host("a")
	c := a.cq(control.CQ{LogSize: 4})
	for transport, table := range unreliableTables {
		p := a.qp(control.QP{Type: transport}, c, c)
		// into puts p into a state by storing that state, even where no transition leads to
		// it.
		into := func(state uint8) {
			p.toState(control.StateRST)
			if state != control.StateRST {
				p.modify(p.toInit())
			}
			p.q.Attr.State, p.q.Attr.CurState = state, state
		}
		for _, from := range allStates {
			for _, to := range allStates {
				what := states.Transports[transport].Name + " " + states.Name(from) + " to " + states.Name(to)
				row, ok := table[[2]uint8{from, to}]
				ok = ok || to == control.StateRST || to == control.StateERR
				into(from)
				before := p.q.Attr
				a := p.everything(row[0], to)
				a.QKey = 9
				err := p.tryModify(a)
				if !ok {
					require.ErrorIs(t, err, &control.Error{Code: control.CodeState}, what)
					require.Equal(t, before, p.q.Attr, what)
					continue
				}
				require.NoError(t, err, what)
				for _, attr := range request.Attributes {
					into(from)
					a.Mask = (row[0] ^ attr.Bit) | control.AttrState
					a.CurState = from
					err := p.tryModify(a)
					if row[1]&attr.Bit != 0 {
						require.NoError(t, err, "%s, %s", what, attr.Name)
					} else {
						require.ErrorIs(t, err, &control.Error{Code: control.CodeInvalid}, "%s, %s", what, attr.Name)
						require.ErrorContains(t, err, attr.Name)
						require.Equal(t, from, p.state())
					}
				}
			}
		}
		into(control.StateRST)
	}
}

// In SQD, the event comes once, when the work that was begun has ended, and after its
// completion.
func TestDrainedEvent(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 64})
	src, dst := p.h.full(1000, 1), q.h.full(1000, 2)
	next, others := p.h.events(), q.h.events()
	p.toState(control.StateSQD)
	require.Equal(t, []happening{{control.EventDrained, p.num}}, happened(next), "nothing was begun")
	p.toState(control.StateRTS)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
	p.post(ctrl(wqe.OpNop))
	r.e.Step()
	p.toState(control.StateSQD)
	for p.q.Job != nil {
		require.Empty(t, happened(next))
		p.scq.none()
		r.e.Step()
	}
	p.good()
	require.Equal(t, []happening{{control.EventDrained, p.num}}, happened(next))
	r.settle()
	p.scq.none()
	require.Empty(t, happened(next))
	require.Empty(t, happened(others))
}

// A transfer that cannot be completed in SQD, because its key or its peer has gone, stops
// in SQD. It is checked again in RTS.
func TestDrainWithoutAKey(t *testing.T) {
	for _, what := range []string{"key", "peer"} {
		r, p, q := duo(t, Config{Slice: 64})
		src, dst := p.h.full(1000, 1), q.h.full(1000, 2)
		next := p.h.events()
		index := p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
		r.e.Step()
		p.toState(control.StateSQD)
		require.Empty(t, happened(next))
		want := cqe.RemoteAccess
		if what == "key" {
			q.h.dereg(dst.key)
		} else {
			q.destroy()
			want = cqe.TransportRetry
		}
		r.settle()
		require.Equal(t, []happening{{control.EventDrained, p.num}}, happened(next))
		p.scq.none()
		p.toState(control.StateRTS)
		r.expire()
		r.failed(p.scq.one(), want, index)
		require.Empty(t, happened(next))
	}
}

// An error during draining does not count as the end of draining.
func TestErrorWhileDraining(t *testing.T) {
	r := newRig(t, Config{Slice: 64})
	a := r.host("a")
	c, d := a.cq(control.CQ{}), a.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, d), a.qp(control.QP{}, d, d)
	p.up(q)
	q.up(p)
	src, dst := a.full(1000, 1), a.full(1000, 2)
	p.post(ctrl(wqe.OpNop)) // fills the completion queue
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
	r.e.Step()
	r.e.Step()
	require.NotNil(t, p.q.Job)
	next := a.events()
	p.toState(control.StateSQD)
	r.settle()
	require.Equal(t, control.StateERR, p.state())
	require.Equal(t, []happening{{control.EventCQError, c.num}}, happened(next))
}

// In SQD a client turns posted WQEs into NOPs in place, whatever their size. In RTS they
// are executed as NOPs.
func TestNopsInPlace(t *testing.T) {
	r := newRig(t, Config{})
	p, q := pair(r.host("a"), r.host("b"))
	far := q.h.full(256, 1)
	was := append([]byte(nil), far.mem...)
	p.toState(control.StateSQD)
	first := p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), pattern(200, 3)) // 4 blocks
	second := p.post(ctrl(wqe.OpSend))
	p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), []byte("yes"))
	r.settle()
	for _, index := range []uint16{first, second} {
		b := p.sq[int(index)*64:]
		b[0], b[3] = 0, byte(wqe.OpNop) // changes opmod and opcode, but not ds
	}
	p.toState(control.StateRTS)
	r.settle()
	list := p.scq.all()
	require.Equal(t, []uint16{0, 4, 5}, indices(list))
	for _, w := range list {
		require.Equal(t, unharmed, w.Syndrome)
	}
	require.Equal(t, "yes", string(far.mem[:3]))
	r.same(was[3:], far.mem[3:], "what the NOPs were once to write")
}

// A stall ends in SQD. In RTS it begins again, with all its tries.
func TestStalledQueueDrains(t *testing.T) {
	s := newScene(t, Config{})
	next := s.p.h.events()
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.settle()
	require.Len(t, stalledQueues(s.e), 1)
	s.p.toState(control.StateSQD)
	require.Empty(t, stalledQueues(s.e))
	require.Equal(t, []happening{{control.EventDrained, s.p.num}}, happened(next))
	s.q.recv(s.far.data(0, 8))
	s.settle()
	s.p.scq.none()
	s.p.toState(control.StateRTS)
	s.settle()
	s.p.good()
}

// Queue pairs of different transports cannot send to each other.
func TestTransportsDoNotMix(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, _ := pair(a, b)
	q, _ := pairOf(control.QPTypeUC, b, a)
	q.reset(p)
	p.reset(q)
	p.post(ctrl(wqe.OpRDMAWrite), b.full(8, 1).raddr(0), []byte("x"))
	q.post(ctrl(wqe.OpRDMAWrite), a.full(8, 1).raddr(0), []byte("x"))
	r.expire()
	require.Equal(t, cqe.TransportRetry, p.scq.one().Syndrome)
	q.good() // the message is lost
}
