package verbs

import (
	"net/netip"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/nicless/nicless/verbs/internal/cm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A device of each kind: the attributes of its port, and which addresses it takes.
func TestLinkLayers(t *testing.T) {
	s := newServing(t)
	s.devices = []*device{newDevice(0, "nicless0", 0x5a4e4cfffe000001, pciPlace{}).linked(InfiniBand, firstLID), newDevice(1, "nicless1", 0x5a4e4cfffe000001, pciPlace{}).linked(Ethernet, firstLID)}
	r := s.rig(t)
	r.tell("eth0", "192.0.2.1/24")
	ib, _ := r.open(0)
	eth, _ := r.open(1)
	port := func(ctx uint64) []byte {
		return r.ok(r.ioctl(ctx, abi.ObjectDevice, abi.MethodQueryPort, number(abi.AttrQueryPortPortNum, 1),
			arg{id: abi.AttrQueryPortResp, out: abi.QueryPortRespExSize})).bytes[abi.AttrQueryPortResp]
	}
	b := port(ib)
	require.Equal(t, []any{byte(abi.LinkLayerInfiniBand), uint16(firstLID), uint16(subnetManagerLID), uint32(8), byte(activeMTU)},
		[]any{b[abi.QueryPortRespLinkLayer], le.Uint16(b[abi.QueryPortRespLID:]), le.Uint16(b[abi.QueryPortRespSMLID:]),
			le.Uint32(b[abi.QueryPortRespGIDTableLen:]), b[abi.QueryPortRespActiveMTU]})
	b = port(eth)
	require.Equal(t, []any{byte(abi.LinkLayerEthernet), uint16(0), uint16(0), uint32(gidTableSize), byte(activeMTU)},
		[]any{b[abi.QueryPortRespLinkLayer], le.Uint16(b[abi.QueryPortRespLID:]), le.Uint16(b[abi.QueryPortRespSMLID:]),
			le.Uint32(b[abi.QueryPortRespGIDTableLen:]), b[abi.QueryPortRespActiveMTU]})

	entry := func(ctx, index uint64) answer {
		return r.ioctl(ctx, abi.ObjectDevice, abi.MethodQueryGIDEntry, number(abi.AttrQueryGIDEntryPort, 1),
			number(abi.AttrQueryGIDEntryGIDIndex, index), word(abi.AttrQueryGIDEntryFlags, 0), arg{id: abi.AttrQueryGIDEntryRespEntry, out: abi.GIDEntrySize})
	}
	b = r.ok(entry(ib, 0)).bytes[abi.AttrQueryGIDEntryRespEntry]
	require.Equal(t, s.devices[0].local[:], b[abi.GIDEntryGID:][:gidSize])
	require.Equal(t, []uint32{abi.GIDTypeIB, 0}, []uint32{le.Uint32(b[abi.GIDEntryGIDType:]), le.Uint32(b[abi.GIDEntryNetdevIfindex:])})
	require.Equal(t, unix.Errno(eNODATA), entry(ib, 1).errno)
	require.Equal(t, eINVAL, entry(ib, 8).errno)

	x, y := s.context(ib), s.context(eth)
	own := s.devices[1].local
	for name, c := range map[string]struct {
		x           *uctx
		to          peerAddress
		check, peer unix.Errno
	}{
		"LID":                     {x, peerAddress{port: 1, lid: 2}, 0, 0},
		"LID of nobody":           {x, peerAddress{port: 1, lid: 3}, 0, unix.EHOSTUNREACH},
		"LID 0, of Ethernet":      {x, peerAddress{port: 1}, 0, unix.EHOSTUNREACH},
		"LID and GID":             {x, peerAddress{port: 1, lid: 2, global: 1}, 0, 0},
		"empty GID":               {x, peerAddress{port: 1, lid: 2, global: 1, sourceGID: 1}, eINVAL, 0},
		"another port":            {x, peerAddress{port: 2, lid: 2}, eINVAL, 0},
		"Ethernet":                {y, peerAddress{port: 1, global: 1, sourceGID: 3, gid: own}, 0, 0},
		"Ethernet without a GID":  {y, peerAddress{port: 1, lid: 2}, eINVAL, unix.EHOSTUNREACH},
		"Ethernet, GID of nobody": {y, peerAddress{port: 1, global: 1, gid: [gidSize]byte{0xfd}}, 0, unix.EHOSTUNREACH},
	} {
		errno := func(err error) unix.Errno {
			if err == nil {
				return 0
			}
			return refusalOf(err).errno
		}
		require.Equal(t, []unix.Errno{c.check, c.peer}, []unix.Errno{errno(c.x.checkAddress(c.to)), errno(c.x.connectElsewhere(&qp{object: &object{}}, c.to))}, name)
	}

	files := s.devices[0].files(r.p.net)
	for name, want := range map[string]string{"link_layer": "InfiniBand", "lid": "0x2", "sm_lid": "0x1",
		"gid_attrs/types/0": "IB/RoCE v1", "gid_attrs/ndevs/0": "", "gids/0": gidText(s.devices[0].local), "gids/7": gidText([gidSize]byte{})} {
		require.Equal(t, want, files[s.devices[0].ibDir()+"/ports/1/"+name], name)
	}

	e, err := engine.New(engine.Config{})
	require.NoError(t, err)
	_, err = newServer(nic.Of(e), Config{Links: []Link{"token-ring"}})
	require.ErrorContains(t, err, `link layer "token-ring"`)
}

// An IP address of the namespace leads to the first device, of either kind. A GID leads to the
// device that has it.
func TestAddressesOfInfiniBand(t *testing.T) {
	s := newServing(t)
	s.devices = []*device{newDevice(0, "nicless0", 0x5a4e4cfffe000001, pciPlace{}).linked(InfiniBand, firstLID), newDevice(1, "nicless1", 0x5a4e4cfffe000001, pciPlace{}).linked(Ethernet, firstLID)}
	here := s.rig(t)
	here.p.key = netnsKey{uid: 1, cookie: 7}
	here.tell("lo", "127.0.0.1/8", "eth0", "192.0.2.1/24", "eth0", "fe80::7/64")
	there := s.rig(t)
	there.p.key = netnsKey{uid: 1, cookie: 8}
	there.tell("eth0", "192.0.2.2/24")
	n := cmNetwork{s, here.p.net}
	ib := cm.PortAddress{GID: s.devices[0].local, LID: firstLID}
	eth := func(ip string) cm.PortAddress { return cm.PortAddress{GID: netip.MustParseAddr(ip).As16()} }
	name := func(ip string) cm.Name { return cm.Name{IP: netip.MustParseAddr(ip)} }
	gid := func(g [gidSize]byte) cm.Name { return cm.Name{IP: netip.AddrFrom16(g).Unmap(), IsGID: true} }
	scoped := func(scope uint32) cm.Name { return cm.Name{IP: netip.MustParseAddr("fe80::7"), Scope: scope} }
	index := here.p.net.slots[0].ifindex
	for _, c := range []struct {
		name  cm.Name
		local cm.PortAddress // none: the namespace does not have it
		owner cm.PortAddress // none: no device has it
		in    *netns
	}{
		{name("192.0.2.1"), ib, ib, n.net},
		{name("127.0.0.1"), ib, ib, n.net},
		{name("127.0.0.2"), cm.PortAddress{}, ib, n.net},
		{name("192.0.2.2"), cm.PortAddress{}, ib, there.p.net},
		{name("192.0.2.3"), cm.PortAddress{}, cm.PortAddress{}, nil},
		{scoped(0), ib, ib, n.net},
		{scoped(index), ib, ib, n.net},
		{scoped(index + 9), cm.PortAddress{}, cm.PortAddress{}, nil},
		{gid(s.devices[0].local), ib, ib, n.net},
		{gid(s.devices[1].local), cm.PortAddress{GID: s.devices[1].local}, cm.PortAddress{GID: s.devices[1].local}, n.net},
		{gid(eth("192.0.2.1").GID), eth("192.0.2.1"), eth("192.0.2.1"), n.net},
		{gid(eth("192.0.2.2").GID), cm.PortAddress{}, eth("192.0.2.2"), there.p.net},
	} {
		local, ok := n.Local(c.name)
		require.Equal(t, c.local != cm.PortAddress{}, ok, "%v", c.name)
		require.Equal(t, c.local, local.PortAddress, "%v", c.name)
		space, owner, ok := n.Owner(c.name)
		require.Equal(t, c.in != nil, ok, "%v", c.name)
		require.Equal(t, c.owner, owner, "%v", c.name)
		if ok {
			require.Equal(t, namespaceOf(c.in), space, "%v", c.name)
		}
	}
}
