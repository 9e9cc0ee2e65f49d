//go:build linux && (amd64 || arm64)

package engine

import (
	"errors"
	"testing"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
)

// A holder is a router that counts the paths which are held.
type holder struct {
	port  nic.Port
	held  map[[16]byte]int
	asked []nic.Address
}

func (h *holder) Route(nic.Address) (nic.Path, error) { return nic.Path{}, errors.New("no link") }
func (h *holder) Own() [16]byte                       { return address(1) }
func (h *holder) HoldPath(to nic.Address, _ nic.User) (nic.Path, func(), error) {
	if to.GID == ([16]byte{}) {
		return nic.Path{}, nil, errors.New("no address")
	}
	h.asked = append(h.asked, to)
	h.held[to.GID]++
	return nic.Path{Port: h.port, Number: uint32(to.GID[15]), MTU: 1024}, func() { h.held[to.GID]-- }, nil
}

// address returns an IPv4 address as a GID.
func address(n byte) [16]byte { return [16]byte{10: 0xff, 11: 0xff, 12: 192, 14: 2, 15: n} }

// setPeer asks for the path to device 9 at an address.
func (p *end) setPeer(to [16]byte) error {
	p.h.Helper()
	_, _, err := p.h.c.Call(control.OpSetPeer, control.Append(nil, control.OpSetPeer, 0, 0, &control.Peer{QPN: p.num, GUID: 9, GID: to})[control.HeaderSize:])
	return err
}

func TestAddress(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("a")
	var a control.Address
	h.call(control.OpAddress, &control.Empty{}, &a)
	require.Zero(t, a, "without links")
	r.d.nic().SetRouter(&holder{})
	h.call(control.OpAddress, &control.Empty{}, &a)
	require.Equal(t, address(1), a.GID)
}

// A queue pair holds the path to the peer that its client has set until it is reset, destroyed, or
// given another peer, and until its client ends. A user's path is charged once.
func TestSetPeer(t *testing.T) {
	r := newRig(t, Config{})
	p, q := duoOf(r)
	c := p.scq
	router := &holder{port: r.newCable(nic.PortConfig{MTU: 256}, nil).ports[0], held: make(map[[16]byte]int)}
	r.d.nic().SetRouter(router)
	paths := func() int { return r.owed()[quota.Paths] }

	one, two := p.h.in(control.StateINIT, c), p.h.in(control.StateRST, c)
	require.NoError(t, one.setPeer(address(2)))
	require.NoError(t, two.setPeer(address(2)))
	require.Equal(t, nic.Address{GUID: 9, GID: address(2)}, router.asked[0])
	require.Equal(t, 2, router.held[address(2)])
	require.Equal(t, 1, paths())

	require.NoError(t, one.setPeer(address(3)))
	require.Equal(t, map[[16]byte]int{address(2): 1, address(3): 1}, router.held)
	require.Equal(t, 2, paths())
	rtr := one.toRTR(77)
	for _, other := range []uint64{8, r.e.GUID} {
		rtr.GUID = other
		require.ErrorContains(t, one.tryModify(rtr), "but set_peer has named 0000000000000009")
	}
	rtr.GUID = 9
	one.modify(rtr)
	require.NotNil(t, one.q.Wire, "the queue pair uses the path")
	require.EqualValues(t, 3, one.q.Conn.Path.Number)
	require.ErrorIs(t, one.setPeer(address(4)), &control.Error{Code: control.CodeState})
	one.toState(control.StateERR)
	require.Equal(t, 1, router.held[address(3)], "it may still be asked for what it has not acknowledged")
	one.toState(control.StateRST)
	require.Zero(t, router.held[address(3)])

	two.destroy()
	require.Zero(t, router.held[address(2)])
	require.Zero(t, paths())

	last := q.h.in(control.StateINIT, q.scq)
	require.NoError(t, last.setPeer(address(5)))
	require.Equal(t, 1, router.held[address(5)])
	require.NoError(t, q.h.c.Close())
	require.Zero(t, router.held[address(5)])
	require.Zero(t, paths())
}

// A fault of memory resets a queue pair in the middle of a step. Its path is let go by the client's next
// request that resets or destroys it, and is valid until then.
func TestSetPeerBeforeAFault(t *testing.T) {
	r, p, _ := duo(t, Config{})
	router := &holder{port: r.newCable(nic.PortConfig{MTU: 256}, nil).ports[0], held: make(map[[16]byte]int)}
	r.d.nic().SetRouter(router)
	x := p.h.in(control.StateINIT, p.scq)
	require.NoError(t, x.setPeer(address(2)))
	x.toState(control.StateERR)
	r.e.Do(func() { p.h.c.Loop().MemoryFault(x.q, 0) })
	require.Equal(t, control.StateRST, x.state())
	require.Empty(t, x.q.Client.After, "it belongs to requests")
	require.Equal(t, 1, router.held[address(2)])
	for _, a := range []control.QPAttr{x.toInit(), x.toRTR(77)} {
		a.GUID = 9
		x.modify(a)
	}
	require.NotNil(t, x.q.Wire)
	x.toState(control.StateRST)
	require.Zero(t, router.held[address(2)])
}

// A transition that is refused leaves no path behind, so the next one goes where it says.
func TestRefusedTransitionSetsNoPath(t *testing.T) {
	r, p, _ := duo(t, Config{})
	router := &linkTo{port: r.newCable(nic.PortConfig{MTU: 256}, nil).ports[0], guid: 9}
	r.d.nic().SetRouter(router)
	x := p.h.in(control.StateINIT, p.scq)
	require.NoError(t, x.setPeer(address(2)))
	require.Zero(t, r.owed()[quota.Paths], "a link that knows the device needs no path of RoCE")
	rtr := x.toRTR(77)
	rtr.GUID = 9
	r.e.Ledger.SetLimit(quota.Memory, r.owed()[quota.Memory], "a test")
	require.ErrorIs(t, x.tryModify(rtr), &control.Error{Code: control.CodeLimit})
	r.e.Ledger.SetLimit(quota.Memory, 1<<30, "a test")
	require.Zero(t, x.q.Conn.Path)
	rtr.GUID = 8
	require.ErrorContains(t, x.tryModify(rtr), "the peer's device is 0000000000000008")
	rtr.GUID = r.e.GUID
	x.modify(rtr)
	require.Nil(t, x.q.Wire)
}

// A linkTo is a router with a link that knows one device.
type linkTo struct {
	nowhere
	port nic.Port
	guid uint64
}

func (l *linkTo) Route(to nic.Address) (nic.Path, error) {
	if to.GUID != l.guid {
		return nic.Path{}, errors.New("no link leads to it")
	}
	return nic.Path{Port: l.port, Number: 1}, nil
}

// A peer on this device needs no path: the one before is let go.
func TestSetPeerHere(t *testing.T) {
	r, p, _ := duo(t, Config{})
	router := &holder{port: &transport.PortHandle{Port: &object.Port{}}, held: make(map[[16]byte]int)}
	r.d.nic().SetRouter(router)
	x := p.h.in(control.StateINIT, p.scq)
	require.NoError(t, x.setPeer(address(2)))
	p.h.call(control.OpSetPeer, &control.Peer{QPN: x.num, GUID: r.e.GUID, GID: address(3)}, &control.Empty{})
	require.Zero(t, router.held[address(2)])
	require.Nil(t, x.q.Conn.Set)
	require.Len(t, router.asked, 1)
}

func TestSetPeerRefused(t *testing.T) {
	r, p, _ := duo(t, Config{})
	x := p.h.in(control.StateINIT, p.scq)
	u := p.h.qp(control.QP{Type: control.QPTypeUD}, p.scq, p.rcq)
	refused := func(code control.Code, text string, m control.Peer) {
		t.Helper()
		p.h.refused(code, text, control.OpSetPeer, &m, nil)
	}
	refused(control.CodeInvalid, "the peer's device is 0000000000000009, this one is", control.Peer{QPN: x.num, GUID: 9, GID: address(2)})
	router := &holder{port: &transport.PortHandle{Port: &object.Port{}}, held: make(map[[16]byte]int)}
	r.d.nic().SetRouter(router)
	refused(control.CodeNotFound, "none with that number", control.Peer{QPN: 0xabcdef, GUID: 9, GID: address(2)})
	refused(control.CodeInvalid, "only queue pairs of type RC or UC", control.Peer{QPN: u.num, GUID: 9, GID: address(2)})
	refused(control.CodeInvalid, "; no address", control.Peer{QPN: x.num, GUID: 9})
	require.Zero(t, r.owed()[quota.Paths], "what was refused is not charged")
	r.e.Ledger.SetLimit(quota.Paths, 2, "a test")
	require.NoError(t, x.setPeer(address(2)))
	refused(control.CodeLimit, "", control.Peer{QPN: x.num, GUID: 9, GID: address(3)})
	require.Equal(t, 1, router.held[address(2)], "a refusal changes nothing")
	require.Zero(t, router.held[address(3)])
}
