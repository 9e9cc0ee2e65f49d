//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// An address that an interface gets later is one that its peers reach, as they do those that it has kept; one
// that it has given up is not.
func TestAddressIsAdded(t *testing.T) {
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			a, b := two(t, way, "10.1.0.1", "10.1.0.2")
			later := netip.MustParseAddr("10.1.0.9")
			knows := func(list ...netip.Addr) {
				t.Helper()
				a.until("it knows the addresses", func(s Stats) bool {
					return len(s.Peers) == 1 && s.Peers[0].Up && len(s.Peers[0].Addresses) == len(list) && s.Peers[0].Addresses[0] == list[0]
				})
				b.meets(a)
			}
			require.NoError(t, b.in.SetAddresses([]netip.Addr{b.addr, later}))
			require.Equal(t, []netip.Addr{b.addr, later}, b.in.Stats().Addresses)
			knows(b.addr, later)
			for i, to := range []netip.Addr{later, b.addr} {
				a.sends(to, 3000, uint32(i))
				require.Equal(t, packet(a.addr, to, 3000, uint32(i)), b.gets())
			}
			require.NoError(t, b.in.SetAddresses([]netip.Addr{later}))
			knows(later)
			a.sends(b.addr, 100, 3)
			a.gets() // the error of ICMP
			require.EqualValues(t, 1, a.in.Stats().Unreachable)
		})
	}
}

// An address that another interface has, or that none can have, changes nothing.
func TestAddressCannotBeAdded(t *testing.T) {
	a, b := two(t, ways[0], "10.1.0.1", "10.1.0.2")
	for _, c := range []struct {
		list []string
		why  string
	}{
		{nil, "0 addresses; 1 to 4 are possible"},
		{[]string{"10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.6"}, "5 addresses; 1 to 4 are possible"},
		{[]string{"10.1.0.2", "10.1.0.1"}, "address 10.1.0.1 is taken: interface test1 of engine"},
		{[]string{"10.1.0.2", "224.0.0.1"}, "224.0.0.1: no interface can have this address"},
		{[]string{"10.1.0.2", "10.1.0.3", "10.1.0.3"}, "address 10.1.0.3 is named twice"},
	} {
		var list []netip.Addr
		for _, s := range c.list {
			list = append(list, netip.MustParseAddr(s))
		}
		require.ErrorContains(t, b.in.SetAddresses(list), c.why)
		require.Equal(t, []netip.Addr{b.addr}, b.in.Stats().Addresses)
	}
	a.sends(b.addr, 100, 1)
	require.Equal(t, packet(a.addr, b.addr, 100, 1), b.gets())
}
