//go:build linux && (amd64 || arm64)

package engine

import (
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// told requires that the client of h has an event of this kind, and an explanation that a rule was obeyed.
func (h *host) told(next func() *control.Event, kind control.EventKind) {
	h.Helper()
	var event, injected bool
	for e := next(); e != nil; e = next() {
		event = event || e.Kind == kind
		injected = injected || strings.HasPrefix(string(e.Code[:]), codes.FaultInjected.String())
	}
	require.True(h, event, "event")
	require.True(h, injected, "explanation")
}

// The work request is executed, and its completion overruns the send CQ.
func TestRuleOverrunsTheSendCQ(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.setFaults(fault.Rule{Match: s.of(2), Overrun: fault.Send})
		next := s.p.h.events()
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		clear(s.far.mem)
		s.put()
		s.settle()
		require.Equal(t, s.local.mem[:8], s.far.mem[:8])
		require.Equal(t, control.StateERR, s.p.state())
		require.Equal(t, control.StateRTS, s.q.state())
		s.p.h.told(next, control.EventCQError)
		s.put() // is flushed, which nobody can see
		s.settle()
		s.p.scq.none()
		s.others()
	})
}

// of is the match of one WQE of s.p, by its number.
func (s *scene) of(nth uint64) fault.Match { return fault.Match{QP: fault.Number(s.p.num), Nth: nth} }

// others requires that queue pairs of the same clients work which are new.
func (s *scene) others() {
	s.Helper()
	s.p, s.q = pair(s.p.h, s.q.h)
	s.works()
	s.q.recv(s.far.data(0, 64))
	s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	s.settle()
	require.Equal(s, cqe.StatusSuccess, s.p.scq.one().Status)
	require.Equal(s, cqe.StatusSuccess, s.q.rcq.one().Status)
}

// The message arrives, and the completion of its receive overruns. The requester hears that the responder
// has failed. On a link it is the CQ of the requester's own receives.
func TestRuleOverrunsTheReceiveCQ(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.setFaults(fault.Rule{Match: s.of(1), Overrun: fault.Receive})
		next := s.q.h.events()
		mine := s.p.h.events()
		for range 2 {
			s.q.recv(s.far.data(0, 64))
		}
		index := s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
		s.settle()
		require.Equal(t, s.local.mem[:8], s.far.mem[:8])
		require.Equal(t, control.StateERR, s.p.state())
		if s.p.q.Wire != nil {
			s.p.h.told(mine, control.EventCQError)
			require.Equal(t, cqe.StatusSuccess, s.q.rcq.one().Status)
			s.p.scq.none() // p's CQ is one for both sides
		} else {
			s.failed(s.p.scq.one(), cqe.RemoteOperation, index)
			require.Equal(t, control.StateERR, s.q.state())
			s.q.rcq.none()
			found := false
			for e := next(); e != nil; e = next() {
				found = found || e.Kind == control.EventCQError
			}
			require.True(t, found)
		}
		s.others()
	})
}

// The peer goes to error as if its owner had moved it: its receives are flushed, and the requester gets no
// answer any more, so that its retries run out.
func TestRuleDisconnects(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.timed(2)
		s.setFaults(fault.Rule{Name: "cut", Match: fault.Match{Nth: 2}, Disconnect: true})
		s.put()
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		s.q.recv(s.far.data(0, 64))
		clear(s.far.mem)
		index := s.put()
		s.settle()
		for _, d := range s.tries(3) {
			s.p.scq.none()
			s.later(d)
		}
		require.Equal(t, make([]byte, 8), s.far.mem[:8])
		w := s.p.scq.one()
		s.failed(w, cqe.TransportRetry, index)
		if s.p.q.Wire == nil {
			require.Equal(t, control.StateERR, s.q.state())
			w := s.q.rcq.one()
			require.Equal(t, cqe.Flush, w.Syndrome)
			r, _ := s.q.h.reasonOf(w)
			require.Equal(t, codes.FaultInjected.String(), r.Code)
			require.Contains(t, r.Text, `injected by rule "cut"`)
		}
		require.Equal(t, control.StateERR, s.p.state())
		later := s.put()
		s.settle()
		s.failed(s.p.scq.one(), cqe.Flush, later)
		s.p.scq.none()
	})
}

// A rule of a user who may not fault the peer's client does the peer no harm.
func TestRulesSpareOtherUsers(t *testing.T) {
	for _, rule := range []fault.Rule{{Disconnect: true}, {Overrun: fault.Receive}, {Deregister: fault.Remote}} {
		s := newScene(t, Config{})
		set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{rule}})
		require.NoError(t, err)
		s.p.h.asUser(4711)
		d := s.p.h.c.Device
		r := d.SetFaults(set, s.p.h.c.Client)
		defer d.EndFaults(r)
		s.q.recv(s.far.data(0, 64))
		s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
		s.settle()
		require.Equal(t, cqe.StatusSuccess, s.p.scq.one().Status)
		require.Equal(t, cqe.StatusSuccess, s.q.rcq.one().Status)
		require.EqualValues(t, 1, set.Acted(0))
	}
}

// idle requires that the client of h has been told once that a rule does nothing, and why.
func (h *host) idle(next func() *control.Event, why string) {
	h.Helper()
	n := 0
	for e := next(); e != nil; e = next() {
		if strings.Contains(e.Text, "does nothing here: "+why) {
			n++
		}
	}
	require.Equal(h, 1, n)
}

// A rule does no harm to an XSRQ's CQ, or to a client that has opened a target, if they are of another user.
func TestRulesSpareOtherUsersOfXRC(t *testing.T) {
	for _, rule := range []fault.Rule{{Disconnect: true}, {Overrun: fault.Receive}} {
		r := newRig(t, Config{})
		a, b, c := r.host("a"), r.host("b"), r.host("c")
		x := newXRCWith(a, b, c)
		if rule.Disconnect {
			c.openTarget(x.domain, x.q)
		}
		a.asUser(4711)
		b.asUser(4711)
		c.asUser(4712)
		set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{rule}})
		require.NoError(t, err)
		next := a.events()
		d := b.c.Device
		f := d.SetFaults(set, a.c.Client)
		defer d.EndFaults(f)
		far := c.full(64, 1)
		x.s.put(0, far.data(0, 64))
		x.s.post(1)
		x.p.post(ctrl(wqe.OpSend), x.to(), pattern(8, 1))
		r.settle()
		require.False(t, r.e.CQs[x.cq.num].Dead)
		require.Equal(t, control.StateRTS, x.q.state())
		require.Equal(t, cqe.StatusSuccess, x.p.scq.one().Status)
		a.idle(next, "it must not harm programs of another user")
	}
}

// A datagram that a queue pair does not take does it no harm: one for another host, for another transport, or
// with another qkey.
func TestRulesHarmOnlyWhoTakesADatagram(t *testing.T) {
	r := newRig(t, Config{})
	r.d.nic().SetRouter(oneWay{r.newCable(nic.PortConfig{MTU: 256}, nil).ports[0]})
	h, own := r.host("a"), gid("192.0.2.1")
	require.NoError(t, h.c.SetGIDs([]nic.GID{{Addr: own, UDP: true}}))
	require.NoError(t, h.c.SetSources([]nic.Source{{GID: own}}))
	native, other := r.host("native"), r.host("other")
	p, q := pair(h, h)
	u, v := pairOf(control.QPTypeUD, native, other)
	away := h.qp(control.QP{Type: control.QPTypeUD}, h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 4}))
	away.up(away)
	s := &scene{rig: r, p: u, q: v}
	s.setFaults(fault.Rule{Disconnect: true})
	send := func(from *end, to wqe.AV) {
		from.post(ctrl(wqe.OpSend), to, from.h.full(8, 1).data(0, 8))
		s.settle()
		from.good()
	}
	to := v.to()
	to.DQP, to.RGID = q.num, gid("192.0.2.9")
	send(away, to) // for another host
	to = v.to()
	to.DQP = p.num
	send(u, to) // for an RC queue pair
	to = v.to()
	to.Key ^= 1 << 32
	send(u, to) // with another qkey
	for _, e := range []*end{p, q, u, v, away} {
		require.Equal(t, control.StateRTS, e.state())
	}
	send(u, v.to())
	require.Equal(t, control.StateERR, v.state())
}

// A DCT stays, and that is explained.
func TestRuleDoesNotDisconnectADCT(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, d := a.dci(0), b.dct()
	s := &scene{rig: r, p: p, q: d.end}
	s.setFaults(fault.Rule{Disconnect: true})
	next := a.events()
	far := b.full(64, 1)
	d.s.put(0, far.data(0, 64))
	d.s.post(1)
	p.post(ctrl(wqe.OpSend), d.at(), pattern(9, 1))
	s.settle()
	require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
	a.idle(next, "a DCT serves many, and stays")
}
