package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/scan"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Faults on links: the code that explains each, to which client, in which words, and the syndrome
// of the requester's completion (0: it succeeds, or there is none).
var recognisedOverLinks = []struct {
	name     string
	code     codes.Code
	do       func(s *scene)
	toSender bool
	speaks   string
	syndrome cqe.Syndrome
}{
	{"no answer", codes.PeerSilent, func(s *scene) {
		s.q.destroy()
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	}, true, "does not answer packet 0x000007", cqe.TransportRetry},
	{"a link that is down", codes.LinkDown, func(s *scene) {
		s.cable.ports[0].SetUp(false)
		s.cable.ports[1].SetUp(false)
		s.p.post(ctrl(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 8))
	}, true, "link cable, to peer QP", cqe.TransportRetry},
	{"a link that is closed", codes.LinkDown, func(s *scene) {
		_ = s.cable.ports[0].Close()
		_ = s.cable.ports[1].Close()
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
	}, true, "has been closed", cqe.TransportRetry},
	{"a refusal, to the requester", codes.LinkRefused, func(s *scene) {
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(250), s.local.data(0, 8))
	}, true, "NAK: remote access error", cqe.RemoteAccess},
	{"a refusal, to the owner of the memory", codes.KeyRange, func(s *scene) {
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(250), s.local.data(0, 8))
	}, false, "are outside its 256 bytes", cqe.RemoteAccess},
	{"an answer in packets of another MTU", codes.LinkResponse, func(s *scene) {
		s.p.q.Wire.MTU = 64
		s.p.post(ctrl(wqe.OpRDMARead), s.far.raddr(0), s.local.data(0, 200))
	}, true, "64 bytes were expected", cqe.BadResponse},
	{"packets of another MTU", codes.LinkLength, func(s *scene) {
		s.p.q.Wire.MTU = 64
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 200))
	}, false, "has 64 bytes; 256 were expected", cqe.RemoteInvalidRequest},
	{"a packet out of place", codes.LinkPlace, func(s *scene) {
		s.inject(packet.WriteMiddle, make([]byte, 256))
	}, false, "RC_WRITE_MIDDLE", 0},
	{"a masked atomic without operands", codes.LinkLength, func(s *scene) {
		s.inject(packet.MaskedFetchAdd, nil)
	}, false, "is on a word of 0 bytes, with operands of 0; words have 4 or 8 bytes", 0},
	{"packets of somebody who tries PSNs", codes.LinkScan, func(s *scene) {
		w := s.p.q.Wire
		for i := range uint32(2 * scan.Burst) {
			h, _, ok := w.Port.Settings.Send.Reserve(rc(packet.WriteOnly).Info().HeaderSize, 0)
			require.True(s, ok)
			w.PutBTH(h, rc(packet.WriteOnly), w.Out.PSN+1_000_000+i, false, false)
			w.Port.Settings.Send.Publish(0)
			if i%16 == 15 {
				s.step()
			}
		}
	}, false, "somebody tries PSNs", 0},
	{"a WQE that changes", codes.WQEChanged, func(s *scene) {
		s.cable.ports[0].SetUp(false)
		s.cable.ports[1].SetUp(false)
		s.p.post(ctrl(wqe.OpRDMAWrite), s.far.raddr(0), s.local.data(0, 8))
		s.step()
		s.p.sq[7] ^= 1 // ds
		s.cable.ports[0].SetUp(true)
		s.cable.ports[1].SetUp(true)
	}, true, "was changed while it was being sent", cqe.LocalQPOp},
	{"a datagram that no link takes", codes.LinkNone, func(s *scene) {
		s.d.nic().SetRouter(nowhere{})
		// Without a table, addresses are not checked.
		require.NoError(s, s.p.h.c.SetGIDs([]nic.GID{{Addr: [16]byte{0: 0xfe, 1: 0x80, 15: 1}}}))
		c := s.p.h.cq(control.CQ{LogSize: 4})
		u := s.p.h.qp(control.QP{Type: control.QPTypeUD}, c, c)
		u.up(u)
		to := u.to()
		to.RGID = [16]byte{0: 0xfe, 1: 0x80, 15: 9}
		u.post(ctrl(wqe.OpSend), to, s.local.data(0, 8))
	}, true, "no way to fe80::9", 0},
}

// nowhere is a router without links.
type nowhere struct{}

func (nowhere) Route(nic.Address) (nic.Path, error) {
	return nic.Path{}, errors.New("no way to fe80::9")
}
func (nowhere) HoldPath(nic.Address, nic.User) (nic.Path, func(), error) {
	return nic.Path{}, nil, errors.New("no way at all")
}
func (nowhere) Own() (gid [16]byte) { return gid }

// inject puts a packet of the requester into the responder's port.
func (s *scene) inject(op packet.Operation, payload []byte) {
	w := s.p.q.Wire
	o := packet.MakeOpcode(packet.RC, op)
	h, to, ok := w.Port.Settings.Send.Reserve(o.Info().HeaderSize, len(payload))
	require.True(s, ok)
	w.PutBTH(h, o, w.Out.PSN, false, false)
	copy(to, payload)
	w.Port.Settings.Send.Publish(0)
}

func TestRecognisedOverALink(t *testing.T) {
	overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 256, Jumbo: true}, nil) }
	defer func() { overCable = nil }()
	for _, row := range recognisedOverLinks {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, Config{})
			sender, owner := s.p.h.events(), s.q.h.events()
			row.do(s)
			s.settle()
			next := owner
			if row.toSender {
				next = sender
			}
			found := false
			for ev := next(); ev != nil; ev = next() {
				code, _, _ := strings.Cut(string(ev.Code[:]), "\x00")
				require.NotContains(t, ev.Text, "%!")
				if code == row.code.String() {
					require.Contains(t, ev.Text, row.speaks)
					found = true
				}
			}
			require.True(t, found, "explained by %v", row.code)
			if row.syndrome != 0 {
				w := s.p.scq.one()
				require.Equal(t, row.syndrome, w.Syndrome)
			}
		})
	}
}

// changing is a router whose paths get other numbers.
type changing struct {
	nowhere
	port  nic.Port
	asked uint32
}

func (c *changing) Route(nic.Address) (nic.Path, error) {
	c.asked++
	return nic.Path{Port: c.port, Number: c.asked}, nil
}

// A datagram's path can end while it is used. So its address is queried again after a time, not for
// each datagram.
func TestPathIsAskedForAgain(t *testing.T) {
	r, p, _ := duo(t, Config{})
	sh := r.d.runner.Loops[0]
	router := &changing{port: &transport.PortHandle{Port: &object.Port{}}}
	sh.Router = router
	p.h.c.Sources = []nic.Source{{GID: p.h.c.Hosted.GID, Network: true}}
	p.q.Datagrams = new(object.Datagrams)
	av := &wqe.AV{RGID: [16]byte{0xfe, 0x80, 15: 9}}
	for range 3 {
		require.True(t, sh.RouteAway(p.q, av))
		require.EqualValues(t, 1, p.q.Datagrams.Away.Path.Number)
	}
	sh.StepClock = sh.Clock() + clock.Cycles(transport.PathTime) + 1
	for range 3 {
		require.True(t, sh.RouteAway(p.q, av))
		require.EqualValues(t, 2, p.q.Datagrams.Away.Path.Number)
	}
}
