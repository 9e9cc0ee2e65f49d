//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Packets that are on the way when a session fails are counted: those that wait for receives of the peer, and
// those in slots that the peer has not given back.
func TestPacketsOnTheWayAreCounted(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			socket := serve(t)
			with := func(*Config) {}
			if way == "slots" {
				with = slotsOf(t, filepath.Join(filepath.Dir(socket), "slots"), 0)
			}
			a := start(t, socket, "10.1.0.1", with)
			ip := netip.MustParseAddr("10.1.0.66")
			newStranger(t, a, announcement{life: 1, mtu: 65520, area: -1, name: "x", addresses: []netip.Addr{ip}},
				noReceives)
			p := a.peer(ip)
			a.until("there is a session", func(s Stats) bool { return s.Peers[0].Up })
			p.mu.Lock()
			p.readsOurs = way == "slots"
			p.mu.Unlock()
			const packets = 5
			for i := range uint32(packets) {
				a.sends(ip, 1000, i)
			}
			poll(t, "they are on the way", func() bool { return a.in.held(ip) == packets })
			require.Zero(t, a.in.Stats().Dropped)
			p.fail()
			poll(t, "the session has ended", func() bool { return a.in.held(ip) == 0 })
			require.EqualValues(t, packets, a.in.Stats().Dropped)
		})
	}
}
