//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"testing"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// infiniband returns two hosts' programs whose devices have InfiniBand ports.
func (r *rig) infiniband() (client, server *file) {
	r.Helper()
	for i, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		r.host(ip).port = PortAddress{GID: GID{0: 0xfe, 1: 0x80, 8: 0x58, 15: byte(i + 1)}, LID: uint16(i + 2)}
	}
	return r.hosts[netip.MustParseAddr("10.0.0.1")].open(), r.hosts[netip.MustParseAddr("10.0.0.2")].open()
}

func (f *file) query(handle, option uint32, room int) []byte {
	f.Helper()
	req := make([]byte, abi.CMQuerySize)
	le.PutUint32(req[abi.CMQueryID:], handle)
	le.PutUint32(req[abi.CMQueryOption:], option)
	return f.ok(abi.CMCmdQuery, room, req)
}

// The program sees its IP addresses, and paths by LIDs between the GIDs of the ports.
func TestInfiniBandConnection(t *testing.T) {
	r := newRig(t)
	client, server := r.infiniband()
	listener := server.create(abi.CMPSTCP, 100)
	require.Zero(t, server.bind(listener, inet("0.0.0.0", 7000)))
	require.Zero(t, server.listen(listener, 0))
	active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	client.ok(abi.CMCmdSetOption, 0, tos(active, 0x20))
	require.Zero(t, client.connect(active, "hello"))
	passive := idOf(server.expect(connectRequest, 100, 0))
	for _, end := range []struct {
		*file
		id  uint32
		far *file
	}{{client, active, server}, {server, passive, client}} {
		near, far := end.file.port, end.far.port
		b := end.query(end.id, abi.CMQueryAddr, abi.CMQueryAddrRespSize)
		src, dst := parseSockaddr(b[abi.CMQueryAddrRespSrcAddr:]), parseSockaddr(b[abi.CMQueryAddrRespDstAddr:])
		require.Equal(t, []netip.Addr{end.ip, end.far.ip}, []netip.Addr{src.addr, dst.addr})
		require.Equal(t, uint16(defaultPKey), be.Uint16(b[abi.CMQueryAddrRespPKey:]))

		b = end.query(end.id, abi.CMQueryGID, abi.CMQueryAddrRespSize)
		src, dst = parseSockaddr(b[abi.CMQueryAddrRespSrcAddr:]), parseSockaddr(b[abi.CMQueryAddrRespDstAddr:])
		require.Equal(t, []GID{near.GID, far.GID}, []GID{gidOf(src.addr), gidOf(dst.addr)})

		b = end.query(end.id, abi.CMQueryPath, 512)
		require.Equal(t, uint32(1), le.Uint32(b[abi.CMQueryPathRespNumPaths:]))
		p := b[abi.CMQueryPathRespSize+abi.PathRecDataPathRec:]
		require.Equal(t, []GID{far.GID, near.GID}, []GID{GID(p[8:24]), GID(p[24:40])})
		require.Equal(t, []uint16{far.LID, near.LID, defaultPKey}, []uint16{be.Uint16(p[40:]), be.Uint16(p[42:]), be.Uint16(p[50:])})
		require.Equal(t, []byte{0, 0, 0, 0, 0}, p[44:49], "flow label, hop limit, traffic class")

		p = end.ok(abi.CMCmdQueryRoute, abi.CMQueryRouteRespSize, append(make([]byte, 8), words(end.id, 0)...))[abi.CMQueryRouteRespIBRoute:]
		require.Equal(t, []GID{far.GID, near.GID}, []GID{GID(p[abi.UserPathRecDGID:][:16]), GID(p[abi.UserPathRecSGID:][:16])})
		require.Equal(t, []uint16{far.LID, near.LID}, []uint16{be.Uint16(p[abi.UserPathRecDLID:]), be.Uint16(p[abi.UserPathRecSLID:])})
		require.Zero(t, p[abi.UserPathRecHopLimit])
	}
	require.Zero(t, server.accept(passive, 2, params(0x222, "welcome")))
	client.expect(connectResponse, 1, 0)
	for lid, b := range map[byte][]byte{3: client.attributes(active, qpRTR), 2: server.attributes(passive, qpRTR)} {
		want := make([]byte, abi.AHAttrSize) // no GRH
		want[abi.AHAttrDLID], want[abi.AHAttrPortNum] = lid, 1
		require.Equal(t, want, b[abi.UQPAttrAHAttr:][:abi.AHAttrSize])
	}
	require.Zero(t, client.accept(active, 0, none))
	server.expect(established, 2, 0)
	client.close()
	server.expect(disconnected, 2, 0)
	server.close()
	r.ends()
}

// tos is a request to set the type of service.
func tos(handle uint32, v uint64) []byte {
	req := make([]byte, abi.CMSetOptionSize)
	le.PutUint64(req[abi.CMSetOptionOptval:], v)
	le.PutUint32(req[abi.CMSetOptionID:], handle)
	le.PutUint32(req[abi.CMSetOptionOptname:], abi.CMOptionTOS)
	le.PutUint32(req[abi.CMSetOptionOptlen:], 1)
	return req
}

// A program reaches a port by the port's GID too, but an IP address is no GID of the port.
func TestInfiniBandGIDs(t *testing.T) {
	r := newRig(t)
	client, server := r.infiniband()
	gid := func(g GID) sockaddr {
		return sockaddr{family: afIB, addr: netip.AddrFrom16(g), sid: serviceOfIB | 7000, mask: ^uint64(0)}
	}
	listener := server.create(abi.CMPSIB, 100)
	require.Equal(t, unix.EADDRNOTAVAIL, server.bind(listener, gid(gidOf(server.ip))))
	require.Equal(t, unix.EADDRNOTAVAIL, server.bind(listener, gid(client.port.GID)))
	require.Zero(t, server.bind(listener, gid(server.port.GID)))
	require.Zero(t, server.listen(listener, 0))
	active := server.resolved(abi.CMPSIB, 1, gid(server.port.GID))
	require.Zero(t, server.connect(active, "hello"))
	e := server.expect(connectRequest, 100, 0)
	require.Equal(t, "hello", string(e[abi.CMEventRespParam:][abi.CMConnParamPrivateData:][:5]), "no IP header before it")
	b := server.query(idOf(e), abi.CMQueryAddr, abi.CMQueryAddrRespSize)
	src := parseSockaddr(b[abi.CMQueryAddrRespSrcAddr:])
	require.Equal(t, server.port.GID, gidOf(src.addr))
	client.close()
	server.close()
	r.ends()
}

// Datagrams to a port are addressed by its LID alone.
func TestInfiniBandDatagrams(t *testing.T) {
	r := newRig(t)
	client, server := r.infiniband()
	listener := server.create(abi.CMPSUDP, 100)
	require.Zero(t, server.bind(listener, inet("10.0.0.2", 7000)))
	require.Zero(t, server.listen(listener, 0))
	a := client.resolved(abi.CMPSUDP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, "who"))
	require.Zero(t, server.accept(idOf(server.expect(connectRequest, 100, 0)), 2, params(0x333, "me")))
	p := client.expect(established, 1, 0)[abi.CMEventRespParam:]
	want := make([]byte, abi.AHAttrSize)
	want[abi.AHAttrDLID], want[abi.AHAttrPortNum] = 3, 1
	require.Equal(t, want, p[abi.CMUDParamAHAttr:][:abi.AHAttrSize])
	require.Equal(t, uint32(defaultQKey), le.Uint32(p[abi.CMUDParamQKey:]))
	client.close()
	server.close()
	r.ends()
}

// No packet gets from a port of one kind to one of the other kind.
func TestInfiniBandAndEthernet(t *testing.T) {
	r := newRig(t)
	client, server := r.infiniband()
	server.port = PortAddress{}
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	client.expect(unreachable, 1, failed(unix.ETIMEDOUT))
	require.Contains(t, client.said[0], "InfiniBand")
	client.close()
	server.close()
	r.ends()
}

// Groups have the addresses that IPoIB gives them.
func TestInfiniBandGroups(t *testing.T) {
	for name, c := range map[string]struct {
		space uint16
		group sockaddr
		want  string // "": made by the subnet manager
		qkey  uint32
	}{
		"IPv4":          {abi.CMPSUDP, inet("239.1.2.3", 0), "ff12:4001:ffff::f01:203", defaultQKey},
		"IPv4 of IPoIB": {abi.CMPSIPOIB, inet("239.1.2.3", 0), "ff12:401b:ffff::f01:203", ipoibQKey},
		"IPv6":          {abi.CMPSUDP, inet("ff0e::1:7", 0), "ff12:6001:ffff::1:7", defaultQKey},
		"IPv6 of IPoIB": {abi.CMPSIPOIB, inet("ff0e:1:2:3:4:5:6:7", 0), "ff12:601b:ffff:3:4:5:6:7", ipoibQKey},
		"made IPv6":     {abi.CMPSUDP, inet("ff12:a01b:fe80::5", 0), "ff12:a01b:fe80::5", defaultQKey},
		"GID":           {abi.CMPSUDP, sockaddr{family: afIB, addr: netip.MustParseAddr("ff12:401b:ffff::5")}, "ff12:401b:ffff::5", defaultQKey},
		"any":           {abi.CMPSUDP, inet("0.0.0.0", 0), "", defaultQKey},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			f, other := r.infiniband()
			h := f.create(c.space, 1)
			require.Zero(t, f.bind(h, inet("10.0.0.1", 0)))
			gid, to := f.joins(h, c.group)
			if c.want == "" {
				again, _ := f.joins(h, c.group)
				require.NotEqual(t, gid, again, "a new group")
				require.True(t, isMade(netip.AddrFrom16(gid)))
			} else {
				require.Equal(t, c.want, netip.AddrFrom16(gid).String())
			}
			a := to[abi.CMUDParamAHAttr:]
			require.Equal(t, []byte{1, 0}, []byte{a[abi.AHAttrIsGlobal], a[abi.AHAttrGRHSGIDIndex]})
			lid := le.Uint16(a[abi.AHAttrDLID:])
			require.True(t, lid >= multicastLID && lid < 0xffff, "%#x", lid)
			require.Equal(t, []uint32{multicastQPN, c.qkey}, []uint32{le.Uint32(to[abi.CMUDParamQPNum:]), le.Uint32(to[abi.CMUDParamQKey:])})
			f.close()
			other.close()
			r.ends()
		})
	}
}

// joins joins a group and returns its GID and the struct rdma_ucm_ud_param of the event.
func (f *file) joins(handle uint32, group sockaddr) (GID, []byte) {
	f.Helper()
	req := make([]byte, abi.CMJoinMcastSize)
	le.PutUint64(req[abi.CMJoinMcastUID:], 9)
	le.PutUint32(req[abi.CMJoinMcastID:], handle)
	le.PutUint16(req[abi.CMJoinMcastAddrSize:], uint16(group.size()))
	group.put(req[abi.CMJoinMcastAddr:])
	f.ok(abi.CMCmdJoinMcast, 4, req)
	p := f.expect(multicastJoin, 9, 0)[abi.CMEventRespParam:]
	return GID(p[abi.CMUDParamAHAttr:][:16]), p
}
