//go:build linux && (amd64 || arm64)

package roce

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/packet"
)

// A rack is a carrier and many others, each with its own address, sockets, tables and rings. No loop runs:
// the test makes the steps, so that it can count them.
type rack struct {
	t      *testing.T
	hub    *host
	own    netip.Addr
	others []*other
}

// An other is a carrier that exchanges packets with the hub.
type other struct {
	*host
	addr    netip.Addr
	path    uint32 // to the hub
	fromHub uint32 // the hub's path to it
	psn     uint32
}

// small is a ring for a few packets, because there are many rings.
var small = packetring.Geometry{Slots: 64, Data: 16 << 10}

func newRack(t *testing.T, others int) *rack {
	t.Helper()
	const net = 250
	r := &rack{t: t, own: freeport.Loopback(t, 1)[0]}
	r.hub = r.newHost(Config{Threads: 1}, r.own)
	var addresses []netip.Addr
	for len(addresses) < others {
		addresses = append(addresses, freeport.Loopback(t, min(net, others-len(addresses)))...)
	}
	for _, a := range addresses {
		r.others = append(r.others, r.newOther(a))
	}
	return r
}

func (r *rack) newHost(cfg Config, a netip.Addr) *host {
	r.t.Helper()
	h := newHost(r.t, cfg)
	stopped(r.t, h)
	require.NoError(r.t, h.AddAddress(a))
	return h
}

// newOther returns a carrier that is connected with the hub.
func (r *rack) newOther(a netip.Addr) *other {
	r.t.Helper()
	o := &other{addr: a}
	o.host = r.newHost(Config{Threads: 1, SourcePorts: 1, Send: small, Receive: small}, a)
	o.path = o.to(a, r.own).Number
	o.fromHub = r.hub.to(r.own, a).Number
	return o
}

// exchange sends a packet to the hub and one back, and compares both.
func (r *rack) exchange(o *other) {
	r.t.Helper()
	o.psn++
	there, back := content(100+int(o.psn)%900, o.fromHub+o.psn), content(200+int(o.psn)%800, o.fromHub-o.psn)
	got := arrives(o.host, r.hub, o.path, o.psn, there)
	require.Equal(r.t, o.fromHub, got.path)
	require.Equal(r.t, there, got.payload)
	got = arrives(r.hub, o.host, o.fromHub, o.psn, back)
	require.Equal(r.t, o.path, got.path)
	require.Equal(r.t, back, got.payload)
}

// arrives sends a packet from one carrier to another, and returns it as it has come.
func arrives(from, to *host, path, psn uint32, payload []byte) received {
	from.t.Helper()
	from.send(path, head(writeOnly, psn), payload)
	from.sender.step()
	got := to.comes(func() { to.receiver.step() })
	require.Equal(from.t, psn, packet.ParseBTH((*[packet.BTHSize]byte)(got.head)).PSN)
	return got
}

// rests requires that a carrier has nothing to do and that nothing will end the sleep of its loop.
func (h *host) rests() {
	h.t.Helper()
	sent, blocked := h.sender.step()
	got, full := h.receiver.step()
	require.Zero(h.t, sent+got)
	require.False(h.t, blocked || full)
	require.Empty(h.t, h.receiveWaiter.ready(), "what wakes the loop")
}

// A thousand carriers are connected with one, exchange packets with it, and cost it nothing while they rest.
// One of them ends, which no other notices, and another carrier with its address takes its place.
func TestManyCarriers(t *testing.T) {
	r := newRack(t, explore.Rounds(50, 1000))
	for range 2 {
		for _, o := range r.others {
			r.exchange(o)
		}
	}
	require.Equal(t, len(r.others), r.hub.Stats().Paths)
	require.Zero(t, r.hub.Stats().Received.Strangers)
	for _, o := range r.others {
		o.rests()
	}
	r.hub.rests()

	// Only one talks: the hub makes the system calls of one, and touches no other path.
	const packets = 100
	busy := r.others[0]
	before := r.hub.Stats()
	steps := r.hub.receiver.steps
	for range packets {
		r.exchange(busy)
	}
	after := r.hub.Stats()
	require.Equal(t, uint64(packets), after.Sent.Calls-before.Sent.Calls)
	require.LessOrEqual(t, after.Received.Calls-before.Received.Calls, 2*uint64(r.hub.receiver.steps-steps),
		"one call for each of the two sockets in a step")
	for _, o := range r.others[1:] {
		o.rests()
		require.Equal(t, uint64(2), r.hub.paths.find(o.fromHub).sent.Load())
	}
	require.Zero(t, r.hub.idleWithoutTable(), "work of idle steps")

	// One dies while the hub sends to it, and all others go on.
	dead := r.others[1]
	require.NoError(t, dead.Close())
	r.hub.send(dead.fromHub, head(writeOnly, 1), content(500, 1))
	r.hub.sender.step()
	for _, o := range r.others {
		if o != dead {
			r.exchange(o)
		}
	}
	require.Equal(t, len(r.others), r.hub.Stats().Paths)

	// Another takes its place. The hub's path to the address is the same, and works.
	next := r.newOther(dead.addr)
	require.Equal(t, dead.fromHub, next.fromHub)
	r.exchange(next)
	require.Equal(t, len(r.others), r.hub.Stats().Paths)
	require.Zero(t, r.hub.Stats().Sent.NoPath+r.hub.Stats().Sent.NoWay)
	require.Zero(t, r.hub.Stats().Received.Strangers)
}
