//go:build linux && (amd64 || arm64)

package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// The send ring cannot be read: the queue pair goes to error with an event, and its work is flushed. Work of
// before is done; the peer stays.
func TestRuleMakesTheSendRingUnreadable(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		set := s.setFaults(fault.Rule{Name: "dimm", Match: s.of(2), Unreadable: fault.Send})
		next := s.p.h.events()
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		clear(s.far.mem)
		index := s.put()
		s.settle()
		w := s.p.scq.one()
		s.failed(w, cqe.Flush, index)
		r, _ := s.p.h.reasonOf(w)
		require.Equal(t, codes.FaultInjected.String(), r.Code)
		require.Contains(t, r.Text, `injected by rule "dimm" (the send ring cannot be read)`)
		require.Equal(t, make([]byte, 8), s.far.mem[:8])
		require.Equal(t, []happening{{control.EventQPFatal, s.p.num}}, happened(next))
		require.Equal(t, control.StateERR, s.p.state())
		require.Equal(t, control.StateRTS, s.q.state())
		require.EqualValues(t, 1, set.Acted(0))
		s.others()
	})
}

// The receive ring of the peer cannot be read: the peer gets the event, and answers no more. On a link it is
// the ring of the requester.
func TestRuleMakesTheReceiveRingUnreadable(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.setFaults(fault.Rule{Match: s.of(1), Unreadable: fault.Receive})
		victim := s.q
		if s.p.q.Wire != nil {
			victim = s.p
		}
		next := victim.h.events()
		index := s.put()
		s.settle()
		if victim == s.q {
			s.expireAll()
			s.failed(s.p.scq.one(), cqe.TransportRetry, index)
		} else {
			s.failed(s.p.scq.one(), cqe.Flush, index)
		}
		require.Equal(t, []happening{{control.EventQPFatal, victim.num}}, happened(next))
		require.Equal(t, control.StateERR, victim.state())
		s.others()
	})
}

// The ring of an SRQ cannot be read: all its queue pairs go to error, because all take receives from it.
func TestRuleMakesTheRingOfAnSRQUnreadable(t *testing.T) {
	x := newShared(t, Config{}, control.SRQ{})
	next := x.to[0].h.events()
	set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Match: fault.Match{QP: fault.Number(x.from[0].num)},
		Unreadable: fault.Receive}}})
	require.NoError(t, err)
	d := x.from[0].h.c.Device
	defer d.EndFaults(d.SetFaults(set, nil))
	x.from[0].post(ctrl(wqe.OpSend), pattern(8, 1))
	x.settle()
	last := func(i int) happening { return happening{control.EventLastWQE, x.to[i].num} }
	require.ElementsMatch(t, []happening{{control.EventSRQError, x.s.num}, last(0), last(1)}, happened(next))
	for i := range x.to {
		require.Equal(t, control.StateERR, x.to[i].state())
		require.Equal(t, control.StateRTS, x.from[i].state())
	}
}

// A rule harms no other user, and no peer that is not connected.
func TestRulesOfRingsHaveLimits(t *testing.T) {
	s := newScene(t, Config{})
	set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{{Unreadable: fault.Receive}}})
	require.NoError(t, err)
	s.p.h.asUser(4711)
	next := s.p.h.events()
	d := s.p.h.c.Device
	defer d.EndFaults(d.SetFaults(set, s.p.h.c.Client))
	s.q.recv(s.far.data(0, 64))
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.settle()
	require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
	s.p.h.idle(next, "it must not harm programs of another user")

	r := newRig(t, Config{})
	u, v := pairOf(control.QPTypeUD, r.host("a"), r.host("b"))
	next = u.h.events()
	d = u.h.c.Device
	defer d.EndFaults(d.SetFaults(set, nil))
	u.post(ctrl(wqe.OpSend), v.to(), u.h.full(8, 1).data(0, 8))
	r.settle()
	u.good()
	u.h.idle(next, "it is for peers that are connected")
}

// All clients of a port hear of the subnet manager, and nothing changes.
func TestRuleTellsOfTheSubnet(t *testing.T) {
	for change, kind := range map[fault.Subnet]control.EventKind{
		fault.ChangeLID: control.EventLIDChange, fault.ChangePKey: control.EventPKeyChange,
		fault.ChangeSM: control.EventSMChange, fault.Reregister: control.EventReregister,
	} {
		s := newScene(t, Config{})
		s.pass(0)
		next, others := s.p.h.events(), s.q.h.events()
		before := s.d.nic().PortState(0)
		s.setFaults(fault.Rule{Match: fault.Match{Device: "nicless1"}, Subnet: change},
			fault.Rule{Match: after(time.Second), Subnet: change})
		s.steps(200)
		require.Empty(t, happened(next))
		s.pass(time.Second)
		s.steps(200)
		require.Equal(t, []happening{{kind, 1}}, happened(next))
		require.Equal(t, []happening{{kind, 1}}, happened(others))
		require.Equal(t, before, s.d.nic().PortState(0))
		s.works()
	}
}
