package verbs

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The fabric gets the devices' own addresses at the start, and those of namespaces when they come and go.
// Loopback addresses are left out, and addresses that others have too are not sent again.
func TestAnnouncedAddresses(t *testing.T) {
	e := (&cable{mtu: 4096}).server(t)
	ports := func(devices []*device, ips ...string) (list []RemotePort) {
		for _, d := range devices {
			list = append(list, RemotePort{GID: d.local, LID: d.lid})
		}
		for _, ip := range ips {
			list = append(list, RemotePort{GID: netip.MustParseAddr(ip).As16()})
		}
		return list
	}
	all := e.s.devices
	own := ports(all)
	for _, d := range all { // of the server's own namespace, which no program has reported
		own = append(own, RemotePort{GID: d.made})
	}
	require.Equal(t, [][]RemotePort{own}, e.heard())

	first, second := e.s.rig(t), e.s.rig(t)
	first.p.key, second.p.key = netnsKey{uid: 1, cookie: 7}, netnsKey{uid: 1, cookie: 8}
	first.tell("lo", "127.0.0.1/8", "eth0", "192.0.2.1/24", "eth0", "fe80::7/64")
	one := slices.Concat(own, ports(nil, "192.0.2.1", "fe80::7"))
	require.Equal(t, [][]RemotePort{own, one}, e.heard())
	second.tell("lo", "127.0.0.1/8", "eth0", "192.0.2.1/24")
	require.Len(t, e.heard(), 2, "nothing is new")
	second.tell("lo", "127.0.0.1/8", "eth0", "192.0.2.1/24", "eth1", "192.0.2.2/24")
	first.tell("lo", "127.0.0.1/8", "eth0", "fe80::7/64")
	two := slices.Concat(own, ports(nil, "192.0.2.1", "fe80::7", "192.0.2.2"))
	require.Equal(t, two, e.heard()[2])
	require.Equal(t, slices.Concat(own, ports(nil, "fe80::7", "192.0.2.1", "192.0.2.2")), e.heard()[3])

	// The GID of an InfiniBand port is of no namespace.
	all[0].linked(InfiniBand, firstLID)
	e.s.announce()
	require.Equal(t, RemotePort{GID: all[0].local, LID: firstLID}, e.heard()[4][0])
	all[1].linked(InfiniBand, firstLID)
	e.s.announce()
	require.Equal(t, ports(all), e.heard()[5])
}
