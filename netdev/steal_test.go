//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless"
)

// An interface that announces something else keeps its addresses and its life, also if another client
// announces them at the same time.
func TestAddressesAreKept(t *testing.T) {
	socket := serve(t)
	ours, err := nicless.Dial(socket)
	require.NoError(t, err)
	a := openOn(t, ours, "10.1.0.1") // does not run: the test says when it looks
	defer a.c.Close()
	thief, owner := client(t, socket), client(t, socket)
	ip, other := netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("10.1.0.3")
	said := announcement{life: 7, mtu: 1500, area: -1, name: "owner", addresses: []netip.Addr{ip}}
	steals := announcement{life: 8, mtu: 1500, area: -1, name: "thief", addresses: []netip.Addr{netip.MustParseAddr("10.1.0.66")}}
	require.NoError(t, thief.Announce(steals.put(nil)))
	require.NoError(t, owner.Announce(said.put(nil)))
	require.NoError(t, a.in.readBoard())
	require.Equal(t, "owner", a.in.taken[ip].announced.name)

	for _, life := range []uint64{8, 7} {
		said.addresses = []netip.Addr{ip, other}
		steals.life, steals.addresses = life, append(steals.addresses[:1:1], ip)
		if life == said.life {
			said.addresses, steals.addresses = said.addresses[:1], steals.addresses[:1]
		}
		require.NoError(t, thief.Announce(steals.put(nil)))
		require.NoError(t, owner.Announce(said.put(nil)))
		require.NoError(t, a.in.readBoard())
		require.NotNil(t, a.in.taken[ip])
		require.Equal(t, "owner", a.in.taken[ip].announced.name)
		require.Len(t, a.in.peers, 1)
	}
	// When the owner gives it up, another may have it.
	steals.life, steals.addresses = 8, []netip.Addr{ip}
	said.addresses = []netip.Addr{other}
	require.NoError(t, thief.Announce(steals.put(nil)))
	require.NoError(t, owner.Announce(said.put(nil)))
	require.NoError(t, a.in.readBoard())
	require.Equal(t, "thief", a.in.taken[ip].announced.name)
	require.Equal(t, "owner", a.in.taken[other].announced.name)
}
