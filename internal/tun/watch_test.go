//go:build linux && (amd64 || arm64)

package tun

import (
	"context"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
)

// Addresses that an interface gets and loses later are seen; those of other interfaces are not.
func TestWatch(t *testing.T) {
	needDevice(t)
	if !inside(t) {
		return
	}
	c := Config{Name: "watched", MTU: 1500, Addresses: prefixes("10.77.9.1/24")}
	d, err := Open(c)
	require.NoError(t, err)
	seen := make(chan []netip.Addr, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		d.Watch(ctx, func(list []netip.Addr) { seen <- list })
		close(ended)
	}()
	next := func(want ...string) {
		t.Helper()
		list := []netip.Addr{}
		for _, s := range want {
			list = append(list, netip.MustParseAddr(s))
		}
		require.ElementsMatch(t, list, await.Receive(t, "the addresses are seen", seen))
	}
	next("10.77.9.1")
	link, err := netlink.LinkByName("watched")
	require.NoError(t, err)
	lo, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	address := func(s string) *netlink.Addr {
		a, err := netlink.ParseAddr(s)
		require.NoError(t, err)
		return a
	}
	require.NoError(t, netlink.AddrAdd(lo, address("10.77.8.1/32")))
	require.NoError(t, netlink.AddrAdd(link, address("10.77.9.5/24")))
	next("10.77.9.1", "10.77.9.5")
	require.NoError(t, netlink.AddrDel(link, address("10.77.9.5/24")))
	next("10.77.9.1")
	stop()
	await.Receive(t, "Watch ends", ended)
	require.Empty(t, seen)
	require.NoError(t, d.Close())
}
