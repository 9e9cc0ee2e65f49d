package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// requests are work requests that need the peer, of every kind.
var requests = map[string]func(s *scene){
	"WRITE": func(s *scene) { s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8)) },
	"READ":  func(s *scene) { s.p.post(ctrl(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 8)) },
	"SEND":  func(s *scene) { s.p.post(ctrl(wqe.OpSend), s.local.data(0, 8)) },
	"FETCH_ADD": func(s *scene) {
		s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{SwapAdd: 5}, s.local.data(0, 8))
	},
}

// An outage that is shorter than all retries is not seen by a queue pair: its requests wait, and are executed
// once when the port is up.
func TestPortComesBackInTime(t *testing.T) {
	for name, post := range requests {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s *scene) {
				holdClock(s.e)
				before := bytes.Clone(s.far.mem)
				s.q.recv(s.far.data(0, 8))
				s.d.nic().SetPort(0, false)
				post(s)
				s.p.post(ctrl(wqe.OpNop))
				s.steps(2000)
				s.p.scq.none()
				s.q.rcq.none()
				require.Equal(t, before, s.far.mem, "nothing crosses")
				s.d.nic().SetPort(0, true)
				s.passTimeout()
				require.Len(t, s.p.scq.all(), 2)
				require.Equal(t, control.StateRTS, s.p.state())
				if name == "FETCH_ADD" {
					was := binary.LittleEndian.Uint64(before)
					require.Equal(t, was+5, binary.LittleEndian.Uint64(s.far.mem), "executed once")
				}
				if name == "WRITE" || name == "SEND" {
					require.Equal(t, s.local.mem[:8], s.far.mem[:8])
				}
				s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(16), s.local.data(0, 8))
				s.settle()
				s.p.good()
			})
		})
	}
}

// An outage that lasts longer than all retries fails the request, as a cable does that was pulled.
func TestPortStaysDown(t *testing.T) {
	for name, post := range requests {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, s *scene) {
				holdClock(s.e)
				next := s.p.h.events()
				s.d.nic().SetPort(0, false)
				post(s)
				for range 64 {
					s.passTimeout()
				}
				s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
				require.Equal(t, control.StateERR, s.p.state())
				require.Equal(t, control.StateRTS, s.q.state(), "the responder has seen nothing")
				said := explanations(next)
				require.Contains(t, said, codes.PortDown.String())
				require.Contains(t, said, "is down; gave up after retry_cnt 2")
			})
		})
	}
}

// explanations returns what was explained, with its codes.
func explanations(next func() *control.Event) (said string) {
	for ev := next(); ev != nil; ev = next() {
		if ev.Kind == control.EventExplanation {
			said += fmt.Sprintf("%s: %s\n", bytes.TrimRight(ev.Code[:], "\x00"), ev.Text)
		}
	}
	return said
}

// steps makes steps, whether there is something to do or not.
func (r *rig) steps(n int) {
	for range n {
		r.step()
	}
}

// passTimeout lets the time of one try pass, of queue pairs whose timeout is that of toRTS.
func (s *scene) passTimeout() {
	for _, q := range s.stalled() {
		q.Stall.Deadline = 0
	}
	if s.cable != nil {
		s.cable.rounds = 0
		s.cable.timeOut()
	}
	s.steps(4000)
}

// A request that needs no port is executed.
func TestPortIsNotNeeded(t *testing.T) {
	s := newScene(t, Config{})
	s.d.nic().SetPort(0, false)
	s.p.post(ctrl(wqe.OpNop))
	s.settle()
	s.p.good()
}

// A long transfer that an outage interrupts is made again from the beginning.
func TestPortGoesDuringATransfer(t *testing.T) {
	roomy(t)
	s := newScene(t, Config{Slice: 4096})
	src, dst := s.p.h.full(1<<20, 3), s.q.h.full(1<<20, 9)
	s.p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1<<20))
	for s.p.q.Job == nil {
		s.step()
	}
	s.d.nic().SetPort(0, false)
	s.steps(500)
	require.Nil(t, s.p.q.Job)
	require.Equal(t, object.NoPeer, s.p.q.Stall.Kind)
	require.NotEqual(t, src.mem, dst.mem)
	s.d.nic().SetPort(0, true)
	s.settle()
	s.p.good()
	require.Equal(t, src.mem, dst.mem)
}

// Messages without acknowledgement are lost, and their sender is not told.
func TestPortLosesMessages(t *testing.T) {
	s := newScene(t, Config{})
	for _, transport := range []uint8{control.QPTypeUC, control.QPTypeUD} {
		p, q := s.transport(transport)
		send := func() {
			segments := []any{s.local.data(0, 8)}
			if transport == control.QPTypeUD {
				segments = []any{q.to(), s.local.data(0, 8)}
			}
			p.post(ctrl(wqe.OpSend), segments...)
			s.settle()
			p.good()
		}
		next := p.h.events()
		q.recv(s.far.data(0, 128))
		s.d.nic().SetPort(0, false)
		send()
		q.rcq.none()
		require.Contains(t, explanations(next), codes.PortDown.String())
		s.d.nic().SetPort(0, true)
		send()
		q.rcq.one()
	}
}

// A datagram to a group does not leave a port that is down, and does not reach one.
func TestPortLosesMulticast(t *testing.T) {
	s := newScene(t, Config{})
	p, q := s.transport(control.QPTypeUD)
	q.recv(s.far.data(0, 128))
	require.NoError(t, q.h.c.Join(q.num, gid(groupA), 0))
	for _, up := range []bool{false, true} {
		s.d.nic().SetPort(0, up)
		p.post(ctrl(wqe.OpSend), toGroup(groupA, 0), s.local.data(0, 8))
		s.settle()
		p.good()
		require.Equal(t, up, len(q.rcq.all()) == 1)
	}
}

// A DCI waits for its target as long as the port is down.
func TestPortOfATarget(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	p, d := a.dci(0), b.dct()
	src, dst := a.full(64, 1), b.full(64, 2)
	post := func() {
		p.post(ctrl(wqe.OpRDMAWrite), d.at(), dst.raddr(0), src.data(0, 8))
		r.settle()
	}
	post()
	p.good()
	r.d.nic().SetPort(0, false)
	post()
	p.scq.none()
	require.Equal(t, object.NoPeer, p.q.Stall.Kind)
	r.d.nic().SetPort(0, true)
	r.settle()
	p.good()
	r.d.nic().SetPort(0, false)
	next := a.events()
	post()
	r.expire()
	r.failed(p.scq.one(), cqe.TransportRetry, 4)
	require.Contains(t, explanations(next), codes.PortDown.String())
}

// A queue pair can be connected while the port is down, and reaches its peer when the port is up.
func TestConnectWhilePortIsDown(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		s.d.nic().SetPort(0, false)
		p, q := pair(s.p.h, s.q.h)
		p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		s.steps(2000)
		p.scq.none()
		if q.q.Wire == nil { // it resets and comes back meanwhile
			q.toState(control.StateRST)
			q.modify(q.toInit())
			q.modify(q.toRTR(p.num))
		}
		if p.q.Wire != nil { // a transition that is refused later can set a path at any time
			require.NoError(t, s.p.h.c.SetPath(p.num, nic.Path{}))
		}
		s.d.nic().SetPort(0, true)
		s.passTimeout()
		p.good()
	})
}

// A link that is closed while the port is down is closed afterwards, too.
func TestLinkEndsWhilePortIsDown(t *testing.T) {
	overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{}, nil) }
	defer func() { overCable = nil }()
	s := newScene(t, Config{})
	next := s.p.h.events()
	s.d.nic().SetPort(0, false)
	for _, p := range s.cable.ports {
		require.NoError(t, p.Close())
	}
	s.d.nic().SetPort(0, true)
	s.put()
	for range 64 {
		s.passTimeout()
	}
	s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
	require.Contains(t, explanations(next), "has been closed")
	s.p.toState(control.StateRST)
}

// Clients of the port, and only those, get one event for each change, and can ask for the state.
func TestPortEvents(t *testing.T) {
	r := newRig(t, Config{})
	a, b := r.host("a"), r.host("b")
	other, err := r.d.nic().Attach("other", 0, nic.Hosted{Port: 7})
	require.NoError(t, err)
	defer other.Close()
	next, alsoNext := a.events(), b.events()
	var before, down, after control.Port
	a.call(control.OpQueryPort, &control.Empty{}, &before)
	require.Equal(t, control.Port{State: control.PortActive, GID: r.e.GID()}, before)
	for range 2 { // the second time nothing changes
		r.d.nic().SetPort(0, false)
	}
	a.call(control.OpQueryPort, &control.Empty{}, &down)
	require.Equal(t, control.PortDown, down.State)
	require.Equal(t, nic.PortState{Down: true}, r.d.nic().PortState(0))
	r.d.nic().SetPort(7, false)
	for range 2 {
		r.d.nic().SetPort(0, true)
	}
	r.d.nic().ChangeGID(0)
	a.call(control.OpQueryPort, &control.Empty{}, &after)
	require.Equal(t, control.Port{State: control.PortActive, Changes: 1,
		GID: nic.PortState{Changes: 1}.GID(before.GID)}, after)
	require.NotEqual(t, before.GID, after.GID)
	want := []happening{{control.EventPortError, 1}, {control.EventPortActive, 1}, {control.EventGIDChange, 1}}
	require.Equal(t, want, happened(next))
	require.Equal(t, want, happened(alsoNext))
	require.Equal(t, after.GID, r.host("c").c.Hosted.GID, "of a client that comes later")
}

// The outage of one port does not concern another.
func TestOtherPort(t *testing.T) {
	s := newScene(t, Config{})
	s.d.nic().SetPort(7, false)
	s.d.nic().ChangeGID(7)
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	s.settle()
	s.p.good()
	s.d.nic().SetPort(0, false)
	s.d.nic().SetPort(7, true)
	s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	s.settle()
	s.p.scq.none()
}

// After the GID has changed, connected queue pairs reach their peers only when both are connected anew. Work
// that waits fails; a port that goes down and up meanwhile changes nothing.
func TestGIDChanges(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		holdClock(s.e)
		next := s.p.h.events()
		s.d.nic().ChangeGID(0)
		s.d.nic().SetPort(0, false)
		s.d.nic().SetPort(0, true)
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		for range 64 {
			s.passTimeout()
		}
		s.failed(s.p.scq.one(), cqe.TransportRetry, 0)
		require.Contains(t, explanations(next), codes.GIDChanged.String())
		s.p.reset(s.q)
		s.q.reset(s.p)
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		s.steps(2000)
		s.p.good()
	})
}

// A datagram to the old GID of a port is dropped, and one to the new GID arrives.
func TestGIDOfDatagrams(t *testing.T) {
	s := newScene(t, Config{})
	p, q := s.transport(control.QPTypeUD)
	old, renewed := gid("fe80::1"), gid("fe80::2")
	for _, h := range []*host{p.h, q.h} {
		require.NoError(t, h.c.SetGIDs([]nic.GID{{Addr: old}}))
	}
	q.recv(s.far.data(0, 128))
	q.recv(s.far.data(0, 128))
	send := func(to [16]byte) int {
		av := q.to()
		av.RGID = to
		p.post(ctrl(wqe.OpSend), av, s.local.data(0, 8))
		s.settle()
		p.good()
		return len(q.rcq.all())
	}
	require.Equal(t, 1, send(old))
	s.d.nic().ChangeGID(0)
	for _, h := range []*host{p.h, q.h} {
		require.NoError(t, h.c.SetGIDs([]nic.GID{{Addr: renewed}}))
	}
	require.Equal(t, 0, send(old))
	require.Equal(t, 1, send(renewed))
}

// A port that comes and goes while queue pairs work loses nothing and does nothing twice.
func TestPortFlaps(t *testing.T) {
	everywhere(t, func(t *testing.T, s *scene) {
		holdClock(s.e)
		s.p.q.Attr.RetryCount = 7
		clear(s.far.mem[:8])
		want := uint64(0)
		for i := range 200 {
			if i%3 == 0 {
				s.p.post(ctrl(wqe.OpAtomicFA), s.far.raddr(0), wqe.Atomic{SwapAdd: 1}, s.local.data(0, 8))
				want++
			}
			s.d.nic().SetPort(0, i%2 == 1)
			s.steps(i % 7)
			if i%10 == 9 {
				s.passTimeout()
				for _, w := range s.p.scq.all() {
					require.Equal(t, unharmed, w.Syndrome)
				}
			}
		}
		s.passTimeout()
		require.Equal(t, want, binary.LittleEndian.Uint64(s.far.mem))
	})
}
