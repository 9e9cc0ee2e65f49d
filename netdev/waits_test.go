//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packets for a peer that answers no dial leave room for those of others.
func TestOneWaitsForAll(t *testing.T) {
	socket := serve(t)
	a := start(t, socket, "10.1.0.1")
	c := client(t, socket) // answers no dial
	said := announcement{life: 1, mtu: 1500, area: -1, name: "x", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	require.NoError(t, c.Announce(said.put(nil)))
	b := start(t, socket, "10.1.0.2")
	a.peer(said.addresses[0])
	a.peer(b.addr)
	for i := range uint32(mostWaiting) {
		a.sends(said.addresses[0], 65000, i)
	}
	for i := range uint32(4) {
		a.sends(b.addr, 65000, i)
	}
	for i := range uint32(4) {
		require.Equal(t, packet(a.addr, b.addr, 65000, i), b.gets())
	}
}

// A packet for which there is no room to wait opens a session for all that.
func TestDroppedPacketOpens(t *testing.T) {
	socket := serve(t)
	a, b := start(t, socket, "10.1.0.1"), start(t, socket, "10.1.0.2")
	a.peer(b.addr)
	a.in.waiting.bytes.Add(waitingBytes)
	a.sends(b.addr, 100, 1)
	a.until("there is a session", func(s Stats) bool { return s.Peers[0].Up })
	a.until("the packet is counted, which may be later", func(s Stats) bool { return s.Dropped == 1 })
}
