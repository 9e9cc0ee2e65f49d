//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// farPair returns both ends of a connection between two managers.
func (w *world) farPair() (client, server *file, active, passive uint32) {
	w.Helper()
	client, server, _ = w.pair()
	active, passive = w.connected(client, server, 1, 2)
	return client, server, active, passive
}

// connected connects two programs; uids are their names for their ends.
func (w *world) connected(client, server *file, uid, uid2 uint64) (active, passive uint32) {
	w.Helper()
	active = client.resolved(abi.CMPSTCP, uid, inet(server.ip.String(), 7000))
	require.Zero(w, client.connect(active, "hello"))
	passive = idOf(w.next(server, connectRequest, 100, 0))
	require.Zero(w, server.accept(passive, uid2, params(0x222, "welcome")))
	w.next(client, connectResponse, uid, 0)
	require.Zero(w, client.accept(active, 0, none))
	w.next(server, established, uid2, 0)
	return active, passive
}

// A connection over a wire is made and ended, and each side gets what it needs for its queue pair.
func TestFarConnection(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	client.ok(abi.CMCmdSetOption, 0, tos(active, 0x20))
	b := client.query(active, abi.CMQueryPath, 512)[abi.CMQueryPathRespSize+abi.PathRecDataPathRec:]
	require.Equal(t, byte(exactly<<6|3), b[54], "the MTU is that of the path")
	require.Equal(t, gidOf(server.ip), GID(b[8:24]))
	require.Zero(t, client.connect(active, "hello"))
	require.Empty(t, server.ch.events, "messages take their time")

	e := w.next(server, connectRequest, 100, 0)
	passive, p := idOf(e), e[abi.CMEventRespParam:]
	require.Equal(t, uint32(0x111), le.Uint32(p[abi.CMConnParamQPNum:]))
	require.Equal(t, byte(reqData-ipHeader), p[abi.CMConnParamPrivateDataLen])
	require.Equal(t, "hello\x00", string(p[abi.CMConnParamPrivateData:][:6]))
	require.Equal(t, []byte{5, 3}, p[abi.CMConnParamResponderResources:][:2], "swapped")
	require.Equal(t, uint32(0x15b3), le.Uint32(e[abi.CMEventRespECE:]))
	require.Zero(t, server.accept(passive, 2, params(0x222, "welcome")))
	e = w.next(client, connectResponse, 1, 0)
	p = e[abi.CMEventRespParam:]
	require.Equal(t, uint32(0x222), le.Uint32(p[abi.CMConnParamQPNum:]))
	require.Equal(t, "welcome\x00", string(p[abi.CMConnParamPrivateData:][:8]))

	for _, end := range []struct {
		*file
		id    uint32
		qpn   uint32
		far   *file
		farID uint32
		reads byte
	}{{client, active, 0x222, server, passive, 5}, {server, passive, 0x111, client, active, 3}} {
		a, far := end.attributes(end.id, qpRTR), end.far.attributes(end.farID, qpRTS)
		require.Equal(t, le.Uint32(a[abi.UQPAttrRQPSN:]), le.Uint32(far[abi.UQPAttrSQPSN:]), "each sends with the number that the other expects")
		require.Equal(t, end.qpn, le.Uint32(a[abi.UQPAttrDestQPNum:]))
		require.Equal(t, uint32(3), le.Uint32(a[abi.UQPAttrPathMTU:]))
		ah := a[abi.UQPAttrAHAttr:]
		require.Equal(t, gidOf(end.far.ip), GID(ah[abi.AHAttrGRHDGID:][:16]))
		require.Equal(t, []byte{3, hopLimit, 0x20, 1}, []byte{ah[abi.AHAttrGRHSGIDIndex], ah[abi.GlobalRouteHopLimit], ah[abi.GlobalRouteTrafficClass], ah[abi.AHAttrIsGlobal]})
		require.Equal(t, end.reads, a[abi.UQPAttrMaxDestRDAtomic])
		require.Equal(t, []byte{18, 7, 6}, []byte{far[abi.UQPAttrTimeout], far[abi.UQPAttrRetryCnt], far[abi.UQPAttrRNRRetry]})
	}
	q, r := messages[*REQ](w)[0], messages[*REP](w)[0]
	ours, theirs := client.attributes(active, qpRTS), server.attributes(passive, qpRTS)
	require.Equal(t, q.PSN, le.Uint32(theirs[abi.UQPAttrSQPSN:]), "the receiver of a REQ sends with its number")
	require.Equal(t, r.PSN, le.Uint32(ours[abi.UQPAttrSQPSN:]))

	require.Zero(t, client.accept(active, 0, none))
	w.next(server, established, 2, 0)
	client.ok(abi.CMCmdDisconnect, 0, words(active))
	client.quiet()
	w.next(server, disconnected, 2, 0)
	w.next(client, disconnected, 1, 0)
	server.ok(abi.CMCmdDisconnect, 0, words(passive))
	w.next(server, timewaitExit, 2, 0)
	w.next(client, timewaitExit, 1, 0)
	require.Less(t, w.now, 2*time.Second)
	require.Equal(t, WireStats{Sent: 3, Received: 2}, client.m.WireStats())
	require.Equal(t, WireStats{Sent: 2, Received: 3}, server.m.WireStats())
	require.Empty(t, w.said())
	w.ends(client, server)
	require.Len(t, w.sent, 5)
}

// XRC: the request names the transport, and the answer has the number in a field of its own.
func TestFarXRC(t *testing.T) {
	w := newWorld(t, 2)
	client, server := w.rigs[0].host("10.0.0.1").open(), w.rigs[1].host("10.0.0.2").open()
	create := func(f *file, uid uint64, qpType byte) uint32 {
		req := make([]byte, abi.CMCreateIDSize)
		le.PutUint64(req[abi.CMCreateIDUID:], uid)
		le.PutUint16(req[abi.CMCreateIDPS:], abi.CMPSIB)
		req[abi.CMCreateIDQPType] = qpType
		return le.Uint32(f.ok(abi.CMCmdCreateID, 4, req))
	}
	gid := func(f *file) sockaddr {
		return sockaddr{family: afIB, addr: netip.AddrFrom16(gidOf(f.ip)), sid: serviceOfIB | 7000, mask: ^uint64(0)}
	}
	listener := create(server, 100, qptXRCRecv)
	require.Zero(t, server.bind(listener, gid(server)))
	require.Zero(t, server.listen(listener, 0))
	active := create(client, 1, qptXRCSend)
	client.ok(abi.CMCmdResolveAddr, 0, resolveRequest(active, sockaddr{}, gid(server)))
	client.expect(addrResolved, 1, 0)
	client.ok(abi.CMCmdResolveRoute, 0, words(active, 2000))
	client.expect(routeResolved, 1, 0)
	require.Zero(t, client.connect(active, "srq"))
	e := w.next(server, connectRequest, 100, 0)
	require.Equal(t, "srq", string(e[abi.CMEventRespParam:][abi.CMConnParamPrivateData:][:3]))
	require.Zero(t, server.accept(idOf(e), 2, params(0x222, "")))
	p := w.next(client, connectResponse, 1, 0)[abi.CMEventRespParam:]
	require.Equal(t, uint32(0x222), le.Uint32(p[abi.CMConnParamQPNum:]))
	require.Equal(t, uint32(0x222), le.Uint32(client.attributes(active, qpRTR)[abi.UQPAttrDestQPNum:]))
	require.Equal(t, []uint32{0, 0x222}, []uint32{messages[*REP](w)[0].QPN, messages[*REP](w)[0].EECN})
	require.Zero(t, client.accept(active, 0, none))
	w.next(server, established, 2, 0)
	server.close() // its DREQ has the number of the send queue pair
	w.next(client, disconnected, 1, 0)
	w.ends(client)
}

// Datagrams: the client gets the queue pair of the service, and how to reach it.
func TestFarDatagrams(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	l := server.create(abi.CMPSUDP, 101)
	require.Zero(t, server.bind(l, inet("10.0.0.2", 7000)))
	require.Zero(t, server.listen(l, 0))
	lost := 0
	w.eat = func(msg Message) bool { // the first answers
		_, ok := msg.(*SIDRREP)
		lost++
		return ok && lost < 6
	}
	a := client.resolved(abi.CMPSUDP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, "who"))
	e := w.next(server, connectRequest, 101, 0)
	require.Equal(t, "who", string(e[abi.CMEventRespParam:][abi.CMUDParamPrivateData:][:3]))
	w.run(5 * time.Second) // the request comes again meanwhile
	require.Zero(t, server.accept(idOf(e), 2, params(0x333, "me")))
	p := w.next(client, established, 1, 0)[abi.CMEventRespParam:]
	require.Equal(t, []uint32{0x333, defaultQKey}, []uint32{le.Uint32(p[abi.CMUDParamQPNum:]), le.Uint32(p[abi.CMUDParamQKey:])})
	require.Equal(t, gidOf(server.ip), GID(p[abi.CMUDParamAHAttr:][:16]))
	require.Equal(t, "me\x00", string(p[abi.CMUDParamPrivateData:][:3]))
	require.GreaterOrEqual(t, len(messages[*SIDRREP](w)), 2, "the answer was sent again")
	server.quiet()

	w.eat = nil
	a = client.resolved(abi.CMPSUDP, 3, inet("10.0.0.2", 7001))
	require.Zero(t, client.connect(a, ""))
	w.next(client, unreachable, 3, int32(sidrUnsupported))
	a = client.resolved(abi.CMPSUDP, 4, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(a, ""))
	rejected := idOf(w.next(server, connectRequest, 101, 0))
	server.destroy(rejected)
	w.next(client, unreachable, 4, int32(sidrReject))
	w.ends(client, server)
}

// A refused request comes back with its reason, which is explained to the user.
func TestFarRefusals(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	try := func(port uint16, uid uint64) uint32 {
		a := client.resolved(abi.CMPSTCP, uid, inet("10.0.0.2", port))
		require.Zero(t, client.connect(a, ""))
		return a
	}
	try(7001, 1)
	w.next(client, rejected, 1, int32(rejService))
	require.Contains(t, strings.Join(w.said(), "\n"), "the host of 10.0.0.2:7001 refuses the connection (service 0x1061b59): no program listens there")

	try(7000, 2)
	req := make([]byte, abi.CMRejectSize)
	le.PutUint32(req[abi.CMRejectID:], idOf(w.next(server, connectRequest, 100, 0)))
	req[abi.CMRejectReason] = byte(rejVendor)
	req[abi.CMRejectPrivateDataLen] = byte(copy(req[abi.CMRejectPrivateData:], "no"))
	server.ok(abi.CMCmdReject, 0, req)
	e := w.next(client, rejected, 2, int32(rejVendor))
	require.Equal(t, "no\x00", string(e[abi.CMEventRespParam:][abi.CMConnParamPrivateData:][:3]))

	w.path.MTU = 5 // the client's side is set to longer packets
	try(7000, 3)
	w.path.MTU = 3
	w.next(client, rejected, 3, int32(rejMTU))
	require.Contains(t, strings.Join(w.said(), "\n"), "a request for a connection from 10.0.0.1 is rejected: its MTU is 5")

	l := server.create(abi.CMPSTCP, 101)
	require.Zero(t, server.bind(l, inet("10.0.0.2", 7003)))
	require.Zero(t, server.listen(l, 1))
	try(7003, 4)
	try(7003, 5)
	w.next(client, rejected, 5, int32(rejConsumer))
	require.Equal(t, uint32(0), server.destroy(l))
	w.next(client, rejected, 4, int32(rejConsumer))

	late := server.create(abi.CMPSTCP, 102) // bound, and listening soon
	require.Zero(t, server.bind(late, inet("10.0.0.2", 7004)))
	try(7004, 6)
	w.run(patience / 2)
	client.quiet()
	require.Zero(t, server.listen(late, 0))
	w.next(server, connectRequest, 102, 0)
	require.Equal(t, uint64(2), server.m.WireStats().Refused+1)
	w.ends(client, server)
}

// A listener at a loopback address opens no link, and one at another address does, until it ends.
func TestListenersHoldTheirAddress(t *testing.T) {
	w := newWorld(t, 2)
	f := w.rigs[0].host("10.0.0.1").open()
	f.listens("127.0.0.1", 7000)
	require.Zero(t, w.held)
	h := f.listens("10.0.0.1", 7000)
	f.listens("0.0.0.0", 7001)
	require.Equal(t, 2, w.held)
	f.destroy(h)
	require.Equal(t, 1, w.held)
	w.ends(f)
}

// A program that listens on one address is not reached by another, nor one that listens on all addresses
// by those that are not open for it. The sender of a request cannot choose another address in its data.
func TestListenersAreReachedWhereTheyListen(t *testing.T) {
	w := newWorld(t, 2)
	h := w.rigs[1].host("10.0.0.2")
	public := netip.MustParseAddr("203.0.113.2")
	w.rigs[1].hosts[public] = h // the address is open for another program
	w.public = []GID{gidOf(public)}
	w.missing = "not open on 203.0.113.2"
	server := h.open()
	server.listens("10.0.0.2", 7000)
	server.listens("0.0.0.0", 7001)
	require.Contains(t, strings.Join(w.said(), "\n"), "is reached by programs of this engine, but not by other hosts at all addresses: not open on 203.0.113.2")
	number := linkNumber(0)
	ask := func(at, says netip.Addr, port uint16, network bool) uint64 {
		number++
		from := netip.MustParseAddr("10.0.0.1")
		q := &REQ{From: number, QPType: qptRC, MTU: 3, Service: serviceOfTCP | uint64(port), Path: RequestPath{LocalGID: gidOf(from), RemoteGID: gidOf(at)}}
		putIPHeader(q.Data[:], &sockaddr{family: afINET, addr: from, port: 9}, &sockaddr{family: afINET, addr: says, port: port})
		before := len(server.ch.events)
		server.m.ReceiveMAD(PortAddress{GID: gidOf(from)}, PortAddress{GID: gidOf(at)}, newMAD(1, q)[:], network)
		n := uint64(len(server.ch.events) - before)
		for e := server.event(); e != nil; e = server.event() { // the next one comes when this one is used
			server.destroy(idOf(e))
		}
		return n
	}
	for _, row := range []struct {
		name     string
		at, says netip.Addr
		port     uint16
		network  bool
		want     uint64
	}{
		{"at its address", h.ip, h.ip, 7000, true, 1},
		{"at another address", public, h.ip, 7000, true, 0},
		{"at another address, in a pool", public, h.ip, 7000, false, 0},
		{"on all addresses", h.ip, h.ip, 7001, true, 1},
		{"on all addresses, at one that is not open for it", public, public, 7001, true, 0},
		{"on all addresses, with another address in the data", public, h.ip, 7001, true, 0},
		{"on all addresses, with the other address in the data", h.ip, public, 7001, true, 0},
		{"on all addresses, in a pool", public, public, 7001, false, 1},
	} {
		require.Equal(t, row.want, ask(row.at, row.says, row.port, row.network), row.name)
	}
	w.ends(server)
}

// A message for a connection counts only at the address of the connection.
func TestMessageAtAnotherAddress(t *testing.T) {
	w := newWorld(t, 2)
	client, server, active, passive := w.farPair()
	there := w.rigs[0].m.ids[active].link
	here := server.m.ids[passive].link
	public := netip.MustParseAddr("203.0.113.2")
	w.rigs[1].hosts[public] = w.rigs[1].hosts[server.ip]
	bye := newMAD(1, &DREQ{there.number, here.number, here.qpn})[:]
	before := server.m.WireStats().Strangers
	server.m.ReceiveMAD(here.other.PortAddress, PortAddress{GID: gidOf(public)}, bye, true)
	require.Equal(t, before+1, server.m.WireStats().Strangers)
	require.Equal(t, connected, here.state)
	w.ends(client, server)
}

// Without a path there is no connection.
func TestNoPath(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	w.broken = errNoPath
	require.Zero(t, client.connect(a, ""))
	w.next(client, unreachable, 1, failed(unix.ETIMEDOUT))
	require.Contains(t, strings.Join(w.said(), "\n"), "address 10.0.0.2: no link leads there: the cable is cut")
	h := client.create(abi.CMPSTCP, 2)
	client.ok(abi.CMCmdResolveAddr, 0, resolveRequest(h, sockaddr{}, inet("10.0.0.2", 7000)))
	client.expect(addrResolved, 2, 0)
	client.ok(abi.CMCmdResolveRoute, 0, words(h, 2000))
	client.expect(routeError, 2, failed(unix.EHOSTUNREACH))
	require.Empty(t, w.sent)
	w.ends(client, server)
}

// A wire that takes nothing for a while is as one that loses everything. It is explained to the user once.
func TestWireThatRefuses(t *testing.T) {
	w := newWorld(t, 2)
	client, server, active, _ := w.farPair()
	w.broken = errNoPath
	client.ok(abi.CMCmdDisconnect, 0, words(active))
	w.run(20 * time.Second)
	require.Equal(t, uint64(5), client.m.WireStats().Unsent)
	require.Equal(t, []string{"a message to the other end of id 0 is not sent: the cable is cut"}, client.said)
	w.broken = nil
	w.next(server, disconnected, 2, 0)
	w.next(client, disconnected, 1, 0)
	w.ends(client, server)
}

// InfiniBand: the request has LIDs, and the namespace follows from the IP address in it.
func TestFarInfiniBand(t *testing.T) {
	w := newWorld(t, 2)
	for k, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		w.rigs[k].host(ip).port = PortAddress{GID: GID{0: 0xfe, 1: 0x80, 8: 0x58, 15: byte(k + 1)}, LID: uint16(k + 2)}
	}
	client, server := w.rigs[0].hosts[netip.MustParseAddr("10.0.0.1")].open(), w.rigs[1].hosts[netip.MustParseAddr("10.0.0.2")].open()
	server.listens("0.0.0.0", 7000)
	active, passive := w.connected(client, server, 1, 2)
	for lid, b := range map[byte][]byte{3: client.attributes(active, qpRTR), 2: server.attributes(passive, qpRTR)} {
		require.Equal(t, lid, b[abi.UQPAttrAHAttr+abi.AHAttrDLID])
	}
	require.Equal(t, RequestPath{LocalLID: 2, RemoteLID: 3, LocalGID: client.port.GID, RemoteGID: server.port.GID, Rate: rate100, SubnetLocal: true},
		messages[*REQ](w)[0].Path)

	q := *messages[*REQ](w)[0] // one that would send its data to another peer
	q.From++
	q.Path.LocalLID = 9
	server.m.ReceiveMAD(client.port, server.port, newMAD(1, &q)[:], true)
	require.Equal(t, rejGID, messages[*REJ](w)[0].Reason)
	w.ends(client, server)
}
