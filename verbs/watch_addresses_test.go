//go:build linux && (amd64 || arm64)

package verbs

import (
	"net"
	"net/netip"
	"reflect"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// The server finds the addresses that a program would send: those of the interfaces, with their prefixes.
func TestOwnAddresses(t *testing.T) {
	await.Until(t, "both have the same", func() bool { // unless addresses change meanwhile
		found, err := ownAddresses()
		require.NoError(t, err)
		got := make(map[string]bool)
		for _, a := range found {
			got[a.ifname+" "+netip.PrefixFrom(a.ip(), int(a.prefix)).String()] = true
		}
		return reflect.DeepEqual(got, ofInterfaces(t))
	})
	require.NotZero(t, ownNetns())
}

// ofInterfaces returns the addresses of the interfaces with their prefixes, as Go's library finds them.
func ofInterfaces(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	for _, i := range interfaces {
		list, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range list {
			all[i.Name+" "+a.String()] = true
		}
	}
	return all
}

// In the server's own namespace a list that a program sends does not replace the addresses that the server
// finds; in others it counts.
func TestListsOfTheOwnNamespace(t *testing.T) {
	s := newServing(t)
	s.watch.cookie = 7
	claimed := address{ifname: "eth9", ifindex: 9, prefix: 24, gid: [gidSize]byte{10: 0xff, 0xff, 203, 0, 113, 9}}
	for cookie, is := range map[uint64]bool{7: false, 8: true} {
		n, err := s.join(netnsKey{uid: 4711, cookie: cookie})
		require.NoError(t, err)
		require.NoError(t, s.reported(n, []address{claimed}))
		require.Equal(t, is, n.deviceOf(s.devices, claimed.gid) != nil)
	}
	s.lookAll()
	s.watch.looks.Wait()
}
