//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/vectors"
	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The requests that a Linux host with Soft-RoCE sent, once it had been recorded, are served: the program gets
// the data of rping, and the answers are such as that host has to get.
func TestRecordedRequest(t *testing.T) {
	reqs := make(map[uint16]vectors.Packet)
	vectors.Packets(t, "roce", func(t *testing.T, p vectors.Packet) {
		if b := recordedMAD(p); b != nil && be.Uint16(b[16:]) == attributeIDs[kindREQ] {
			reqs[uint16(be.Uint64(b.body()[8:]))] = p
		}
	})
	p := reqs[7171] // rping's port
	require.NotEmpty(t, p.Bytes, "ports: %v", reqs)
	w := newWorld(t, 2)
	server := w.rigs[1].host(p.IP.Dst.String()).open()
	w.rigs[0].host(p.IP.Src.String()) // not the host that sent the request
	server.listens("0.0.0.0", 7171)
	from, to := PortAddress{GID: gidOf(p.IP.Src)}, PortAddress{GID: gidOf(p.IP.Dst)}
	mad := recordedMAD(p)
	server.m.ReceiveMAD(from, to, mad[:], true)
	e := w.next(server, connectRequest, 100, 0)
	require.Equal(t, uint32(0x1f), le.Uint32(e[abi.CMEventRespParam:][abi.CMConnParamQPNum:]))
	passive := idOf(e)
	b := server.query(passive, abi.CMQueryAddr, abi.CMQueryAddrRespSize)
	src, dst := parseSockaddr(b[abi.CMQueryAddrRespSrcAddr:]), parseSockaddr(b[abi.CMQueryAddrRespDstAddr:])
	require.Equal(t, []netip.Addr{p.IP.Dst, p.IP.Src}, []netip.Addr{src.addr, dst.addr})

	server.m.ReceiveMAD(from, to, mad[:], true) // rxe has not got an answer yet
	require.Len(t, messages[*MRA](w), 1)
	require.Zero(t, server.accept(passive, 2, params(0x222, "")))
	a := server.attributes(passive, qpRTS)
	require.Equal(t, uint32(0xd34780), le.Uint32(a[abi.UQPAttrSQPSN:]), "bytes 44 to 46 of the message")
	require.Equal(t, byte(19), a[abi.UQPAttrTimeout])
	a = server.attributes(passive, qpRTR)
	require.Equal(t, []uint32{0x1f, 3}, []uint32{le.Uint32(a[abi.UQPAttrDestQPNum:]), le.Uint32(a[abi.UQPAttrPathMTU:])})
	require.Equal(t, from.GID, GID(a[abi.UQPAttrAHAttr+abi.AHAttrGRHDGID:][:16]))
	for _, s := range w.sent {
		require.Equal(t, []PortAddress{to, from}, []PortAddress{s.from, s.to})
		require.Equal(t, mad[8:16], s.bytes[8:16], "the transaction of the request")
		require.Equal(t, mad.body()[0:4], s.bytes.body()[4:8], "the number that the sender chose")
		require.NotZero(t, be.Uint32(s.bytes.body()[0:4]))
	}
	require.Equal(t, le.Uint32(a[abi.UQPAttrRQPSN:]), messages[*REP](w)[0].PSN)

	rtu := &RTU{messages[*REP](w)[0].To, messages[*REP](w)[0].From}
	server.m.ReceiveMAD(from, to, newMAD(be.Uint64(mad[8:16]), rtu)[:], true)
	w.next(server, established, 2, 0)
	server.m.ReceiveMAD(from, to, newMAD(8, &DREQ{rtu.From, rtu.To, 0x222})[:], true)
	w.next(server, disconnected, 2, 0)
	drep := w.sent[len(w.sent)-1]
	require.Equal(t, &DREP{rtu.To, rtu.From}, drep.message)
	require.Equal(t, uint64(8), be.Uint64(drep.bytes[8:16]))
	w.ends(server)
}

// Datagrams of strangers change nothing, and are counted.
func TestStrangers(t *testing.T) {
	w := newWorld(t, 2)
	client, server, active, passive := w.farPair()
	there := w.rigs[0].m.links[w.rigs[0].m.ids[active].link.number].link
	here := server.m.ids[passive].link
	from, to := there.self.PortAddress, there.other.PortAddress
	other := PortAddress{GID: gidOf(netip.MustParseAddr("10.9.9.9"))}
	sent := len(w.sent)
	before := server.m.WireStats()
	received := 0
	take := func(from PortAddress, b []byte) {
		received++
		server.m.ReceiveMAD(from, to, b, true)
	}
	good := newMAD(1, &DREQ{there.number, here.number, here.qpn})
	take(from, nil)
	take(from, good[:MADSize-1])
	take(from, append(good[:], 0))
	for i, v := range map[int]byte{0: 0x80, 1: 4, 2: 1, 3: 0x81, 17: 0x19} {
		bad := *good
		bad[i] = v
		take(from, bad[:])
	}
	require.Equal(t, uint64(8), server.m.WireStats().Malformed)
	for _, s := range []struct {
		from PortAddress
		m    Message
	}{
		{other, &DREP{there.number, here.number}},
		{other, &RTU{there.number, here.number}},
		{from, &DREQ{there.number + 1, here.number, here.qpn}}, // a wrong number
		{from, &DREQ{there.number, here.number, here.qpn + 1}}, // of another queue pair
		{from, &REJ{From: there.number + 1, To: here.number}},
		{from, &REJ{From: 0, To: here.number}},
		{from, &MRA{From: there.number, To: here.number + 1}},
		{from, &SIDRREP{To: here.number + 1}},
	} {
		take(s.from, newMAD(1, s.m)[:])
	}
	require.Equal(t, before.Strangers+8, server.m.WireStats().Strangers)
	require.Len(t, w.sent, sent, "no answer to them")
	// No address of ours.
	server.m.ReceiveMAD(from, other, newMAD(1, &REQ{From: 1, QPType: qptRC, MTU: 1, Service: serviceOfTCP | 7000})[:], true)
	take(from, newMAD(1, &SIDRREP{To: here.number, Status: sidrReject})[:])
	take(from, newMAD(1, &REP{From: there.number, To: here.number})[:]) // in a state in which there is none
	require.Equal(t, before.Received+uint64(received)+1, server.m.WireStats().Received)
	require.Equal(t, connected, here.state)
	server.quiet()

	// A DREQ or a REP for an unknown link is answered, so that its sender does not wait.
	take(other, newMAD(5, &DREQ{7, 8, 9})[:])
	require.Equal(t, &DREP{8, 7}, w.sent[len(w.sent)-1].message)
	take(other, newMAD(5, &REP{From: 7, To: 8})[:])
	require.Equal(t, &REJ{From: 8, To: 7, Refused: aboutREP, Reason: rejNumber}, w.sent[len(w.sent)-1].message)
	require.Equal(t, other, w.sent[len(w.sent)-1].to)
	take(from, good[:])
	w.next(server, disconnected, 2, 0)
	w.ends(client, server)
}

// In the recordings of Linux, all messages between the same two links but DREQ and DREP have the
// transaction of the request.
func TestRecordedTransactions(t *testing.T) {
	type pair struct{ a, b uint32 }
	requests, transactions := make(map[uint32]uint64), make(map[pair]uint64)
	later := 0
	vectors.Packets(t, "roce", func(t *testing.T, p vectors.Packet) {
		b := recordedMAD(p)
		if b == nil {
			return
		}
		tid, from, to := be.Uint64(b[8:16]), be.Uint32(b.body()[0:4]), be.Uint32(b.body()[4:8])
		switch be.Uint16(b[16:]) {
		case attributeIDs[kindREQ]:
			requests[from] = tid
		case attributeIDs[kindREP], attributeIDs[kindRTU], attributeIDs[kindMRA], attributeIDs[kindREJ]:
			key := pair{min(from, to), max(from, to)}
			if old, ok := transactions[key]; ok {
				require.Equal(t, old, tid, p.Name)
				later++
			}
			transactions[key] = tid
			if asked, ok := requests[to]; ok {
				require.Equal(t, asked, tid, p.Name)
				later++
			}
		}
	})
	require.Positive(t, later)
}

// A stranger on the other end's host, or one that forges its address, and that knows all but the transaction:
// its messages are ignored, both by the end that requests and by the one that answers.
func TestWrongTransactions(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	w.eat = func(msg Message) bool { return msg.kind() != kindREQ } // nothing else arrives by itself
	active := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
	require.Zero(t, client.connect(active, ""))
	passive := idOf(w.next(server, connectRequest, 100, 0))
	a, p := client.m.ids[active].link, server.m.ids[passive].link
	here, there := a.self.PortAddress, p.self.PortAddress
	require.Equal(t, a.tid, p.tid)
	toActive := func(tid uint64, m Message) { client.m.ReceiveMAD(there, here, newMAD(tid, m)[:], true) }
	toPassive := func(tid uint64, m Message) { server.m.ReceiveMAD(here, there, newMAD(tid, m)[:], true) }
	wrong := a.tid ^ 1<<63

	toActive(wrong, &REP{From: 4711, To: a.number, QPN: 0x666})
	toActive(wrong, &REJ{From: 4711, To: a.number, Reason: rejConsumer})
	toActive(wrong, &MRA{From: 4711, To: a.number, Received: aboutREQ, Timeout: 24})
	require.Equal(t, reqSent, a.state)
	require.Zero(t, a.peer)
	// A request is taken back without the receiver's number.
	toPassive(wrong, &REJ{From: a.number, Reason: rejTimeout})
	toPassive(wrong, &REJ{From: a.number, To: p.number, Reason: rejConsumer})
	require.Equal(t, requested, p.state)
	require.Zero(t, server.accept(passive, 2, params(0x222, "")))
	toPassive(wrong, &RTU{a.number, p.number})
	require.Equal(t, repSent, p.state)
	require.Equal(t, uint64(3), client.m.WireStats().Strangers)
	require.Equal(t, uint64(3), server.m.WireStats().Strangers)

	toActive(a.tid, messages[*REP](w)[0])
	require.Equal(t, repReceived, a.state)
	toPassive(p.tid, &RTU{a.number, p.number})
	require.Equal(t, connected, p.state)
	w.eat = nil
	w.ends(client, server)
}

// A request that waits is taken back by its sender only.
func TestWaitingRequestIsTakenBack(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	late := server.create(abi.CMPSTCP, 101)
	require.Zero(t, server.bind(late, inet("10.0.0.2", 7002)))
	from, to := PortAddress{GID: gidOf(client.ip)}, PortAddress{GID: gidOf(server.ip)}
	q := &REQ{From: 5, Service: serviceOfTCP | 7002, QPType: qptRC, MTU: 3, Path: RequestPath{LocalGID: from.GID, RemoteGID: to.GID}}
	putIPHeader(q.Data[:], &sockaddr{family: afINET, addr: client.ip, port: 9}, &sockaddr{family: afINET, addr: server.ip})
	server.m.ReceiveMAD(from, to, newMAD(77, q)[:], true)
	require.Len(t, server.m.waiting, 1)
	server.m.ReceiveMAD(from, to, newMAD(78, &REJ{From: 5, Reason: rejTimeout})[:], true)
	require.Len(t, server.m.waiting, 1)
	server.m.ReceiveMAD(from, to, newMAD(77, &REJ{From: 5, Reason: rejTimeout})[:], true)
	require.Empty(t, server.m.waiting)
	w.ends(client, server)
}

// A stranger sends the longest times that fit into a request, and then no more: its links are
// gone after minutes, not after days.
func TestLinksOfStrangersEnd(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	from, to := PortAddress{GID: gidOf(netip.MustParseAddr("10.9.9.9"))}, PortAddress{GID: gidOf(server.ip)}
	ask := func(n linkNumber) (id uint32) {
		q := &REQ{From: n, Service: serviceOfTCP | 7000, QPType: qptRC, MTU: 3, Timeout: 31, CM: CMTimeouts{31, 31, 15},
			Path: RequestPath{LocalGID: from.GID, RemoteGID: to.GID}}
		putIPHeader(q.Data[:], &sockaddr{family: afINET, addr: netip.MustParseAddr("10.9.9.9"), port: 9}, &sockaddr{family: afINET, addr: server.ip})
		server.m.ReceiveMAD(from, to, newMAD(uint64(n), q)[:], true)
		return idOf(w.next(server, connectRequest, 100, 0))
	}
	first := ask(1)
	require.Zero(t, server.accept(first, 2, params(0x222, "")))
	begin := w.now
	w.next(server, unreachable, 2, failed(unix.ETIMEDOUT)) // no RTU
	require.Less(t, w.now-begin, 5*time.Minute)

	second := ask(2)
	require.Zero(t, server.accept(second, 3, params(0x223, "")))
	l := server.m.ids[second].link
	server.m.ReceiveMAD(from, to, newMAD(2, &RTU{2, l.number})[:], true)
	w.next(server, established, 3, 0)
	begin = w.now
	server.m.ReceiveMAD(from, to, newMAD(9, &DREQ{2, l.number, 0x223})[:], true)
	w.next(server, disconnected, 3, 0)
	w.ends(client, server)
	require.Less(t, w.now-begin, 5*time.Minute)
}

// Impossible requests are rejected with the reason.
func TestMisfits(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	from, to := PortAddress{GID: gidOf(netip.MustParseAddr("10.9.9.9"))}, PortAddress{GID: gidOf(server.ip)}
	good := REQ{Service: serviceOfTCP | 7000, QPType: qptRC, MTU: 3, Path: RequestPath{LocalGID: from.GID, RemoteGID: to.GID}, CM: CMTimeouts{20, 20, 2}}
	putIPHeader(good.Data[:], &sockaddr{family: afINET, addr: netip.MustParseAddr("10.9.9.9"), port: 9}, &sockaddr{family: afINET, addr: server.ip})
	number := linkNumber(100)
	ask := func(q REQ, spoil func(*MAD)) rejectReason {
		number++
		q.From = number
		b := newMAD(1, &q)
		spoil(b)
		server.m.ReceiveMAD(from, to, b[:], true)
		if rejs := messages[*REJ](w); len(rejs) > 0 && rejs[len(rejs)-1].To == number {
			return rejs[len(rejs)-1].Reason
		}
		return 0
	}
	with := func(change func(*REQ)) REQ {
		q := good
		change(&q)
		return q
	}
	nothing := func(*MAD) {}
	require.Equal(t, rejTransport, ask(good, func(b *MAD) { b.body()[43] |= 2 << 1 })) // RD
	require.Equal(t, rejGID, ask(with(func(q *REQ) { q.Path.LocalGID = to.GID }), nothing))
	require.Equal(t, rejGID, ask(with(func(q *REQ) { q.Path.RemoteGID = from.GID }), nothing))
	require.Equal(t, rejMTU, ask(with(func(q *REQ) { q.MTU = 0 }), nothing))
	require.Equal(t, rejMTU, ask(with(func(q *REQ) { q.MTU = 4 }), nothing))
	require.Equal(t, rejConsumer, ask(with(func(q *REQ) { q.QPType = qptUC }), nothing), "the listener is for RC")
	require.Equal(t, rejService, ask(with(func(q *REQ) { q.Service++ }), nothing))
	w.path.MTU = 0
	require.Equal(t, rejMTU, ask(with(func(q *REQ) { q.MTU = 6 }), nothing))
	w.path.MTU, w.broken = 3, errNoPath
	require.Equal(t, rejGID, ask(good, nothing))
	w.broken = nil
	require.Equal(t, uint64(7), server.m.WireStats().Refused)
	server.quiet()
	require.Zero(t, ask(good, nothing))
	w.next(server, connectRequest, 100, 0)

	// It is taken back.
	server.m.ReceiveMAD(from, to, newMAD(1, &REJ{From: number, Reason: rejTimeout})[:], true)
	w.ends(client, server)
	require.Empty(t, messages[*REP](w))
}

// Strangers cannot make many requests wait.
func TestRequestsThatWaitAreBounded(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	late := server.create(abi.CMPSTCP, 101)
	require.Zero(t, server.bind(late, inet("10.0.0.2", 7002)))
	to := PortAddress{GID: gidOf(server.ip)}
	for n := range maxWaiting + 5 {
		from := PortAddress{GID: GID{15: byte(n), 14: byte(n >> 8)}}
		q := &REQ{From: 1, Service: serviceOfTCP | 7002, QPType: qptRC, MTU: 3, Path: RequestPath{LocalGID: from.GID, RemoteGID: to.GID}}
		putIPHeader(q.Data[:], &sockaddr{family: afINET, addr: netip.MustParseAddr("10.9.9.9"), port: 9}, &sockaddr{family: afINET, addr: server.ip})
		for range 2 {
			server.m.ReceiveMAD(from, to, newMAD(1, q)[:], true)
		}
	}
	require.Len(t, server.m.waiting, maxWaiting)
	require.Equal(t, WireStats{Sent: 10, Received: 2*maxWaiting + 10, Duplicates: maxWaiting, Refused: 10}, server.m.WireStats())
	w.run(time.Second)
	require.Empty(t, server.m.waiting)
	require.Len(t, messages[*REJ](w), maxWaiting+10)
	w.ends(client, server)
}

// Without a wire, nothing goes to other engines, and nothing comes.
func TestNoWire(t *testing.T) {
	r := newRig(t)
	client, server, _ := r.pair()
	r.elsewhere = func(Name) (PortAddress, bool) { return PortAddress{GID: GID{15: 9}}, true }
	h := client.create(abi.CMPSTCP, 1)
	client.ok(abi.CMCmdResolveAddr, 0, resolveRequest(h, sockaddr{}, inet("10.7.0.1", 7000)))
	client.expect(addrResolved, 1, 0)
	client.ok(abi.CMCmdResolveRoute, 0, words(h, 2000))
	client.expect(routeError, 1, -113)
	r.m.ReceiveMAD(PortAddress{GID: GID{15: 9}}, PortAddress{GID: gidOf(server.ip)}, newMAD(1, &REQ{From: 1, Service: serviceOfTCP | 7000})[:], true)
	r.m.ReceiveMAD(PortAddress{GID: GID{15: 9}}, PortAddress{GID: gidOf(server.ip)}, newMAD(1, &DREQ{1, 2, 3})[:], true)
	require.Equal(t, uint64(2), r.m.WireStats().Strangers)
	client.close()
	server.close()
	r.ends()
}

// The manager survives whatever comes from a wire, between the messages of programs that
// connect, and nothing is left in the end. The input is a list of datagrams: what to do before,
// how many of the bytes that follow replace those of a good datagram, and from which byte on.
func FuzzReceiveMAD(f *testing.F) {
	for _, m := range full() {
		b := newMAD(1, m)
		f.Add(append([]byte{0, 255, 0}, b[:255]...))
		f.Add([]byte{byte(m.kind()), 1, 43, 6, 3, 1, 8, 0})
	}
	f.Add([]byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 6, 0, 0, 7, 0, 0, 8, 0, 0, 9, 0, 0})
	f.Fuzz(func(t *testing.T, input []byte) {
		w := newWorld(t, 2)
		client, server, _ := w.pair()
		a := client.resolved(abi.CMPSTCP, 1, inet("10.0.0.2", 7000))
		require.Zero(t, client.connect(a, ""))
		peers := []*peer{{file: client, uids: make(map[uint64]*fate)}, {file: server, uids: make(map[uint64]*fate)}}
		for range mostCalls {
			if len(input) < 3 {
				break
			}
			what, n, at := input[0], int(input[1]), int(input[2])
			input = input[3:]
			change := input[:min(n, len(input))]
			input = input[len(change):]
			old := w.sent[int(what)%len(w.sent)]
			b := *old.bytes
			copy(b[at:], change)
			w.rigs[int(what>>6)%2].m.ReceiveMAD(old.from, old.to, b[:], true)
			if what&0x20 != 0 {
				w.run(time.Duration(at) * 100 * time.Millisecond)
			}
			for _, p := range peers {
				for len(p.ch.events) > 0 {
					e := p.event()
					kind := eventKind(le.Uint32(e[abi.CMEventRespEvent:]))
					switch {
					case kind == connectRequest:
						p.accept(idOf(e), 5, params(1, ""))
					case kind == connectResponse && at&1 == 0:
						p.accept(idOf(e), 0, none)
					case kind == connectResponse:
						p.call(abi.CMCmdDisconnect, 0, words(idOf(e)))
					}
				}
			}
		}
		w.ends(client, server)
	})
}
