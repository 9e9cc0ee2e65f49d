//go:build linux && (amd64 || arm64)

package cm

import (
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"github.com/stretchr/testify/require"
)

// asks sends a request for a connection at port 7000 of a server, from an address and a link that do not
// exist.
func (w *world) asks(server *file, from string, number linkNumber) {
	w.Helper()
	ip := netip.MustParseAddr(from)
	there, here := PortAddress{GID: gidOf(ip)}, PortAddress{GID: gidOf(server.ip)}
	q := &REQ{
		From: number, Service: serviceOfTCP | 7000, QPType: qptRC, MTU: 3,
		Path: RequestPath{LocalGID: there.GID, RemoteGID: here.GID}, CM: CMTimeouts{20, 20, 2},
	}
	putIPHeader(q.Data[:], &sockaddr{family: afINET, addr: ip, port: 9}, &sockaddr{family: afINET, addr: server.ip})
	server.m.ReceiveMAD(there, here, newMAD(uint64(number), q)[:], true)
}

// A program gets the next request from elsewhere when it has used the id of the last one, or after
// a while: rping -P keeps the last id in one variable, and ended when two came at once.
func TestRequestsComeOneAfterTheOther(t *testing.T) {
	w := newWorld(t, 2)
	client, server, listener := w.pair()
	for n := range linkNumber(5) {
		w.asks(server, "10.9.9.9", 100+n)
	}
	e := server.event()
	require.NotNil(t, e)
	first := idOf(e)
	require.Nil(t, server.event(), "the program has not used the first id")
	// Which librdmacm does before the program knows the id.
	server.query(first, abi.CMQueryAddr, abi.CMQueryAddrRespSize)
	require.Nil(t, server.event())
	server.attributes(first, qpInit)
	second := server.event()
	require.NotNil(t, second)
	require.Nil(t, server.event())
	require.Zero(t, server.accept(idOf(second), 3, params(1, "")))
	third := server.event()
	require.NotNil(t, third)
	w.run(useTime - time.Microsecond)
	require.Nil(t, server.event())
	w.run(time.Microsecond)
	fourth := server.event()
	require.NotNil(t, fourth, "a program that does not use its ids gets the next one after a while")
	server.destroy(idOf(fourth))
	fifth := server.event()
	require.NotNil(t, fifth)

	for n := range linkNumber(8) { // the program takes them all before it uses one
		w.asks(server, "10.9.9.9", 150+n)
	}
	for range mostLate {
		require.Nil(t, server.event())
		w.run(useTime)
		require.NotNil(t, server.event())
	}
	for range 8 - mostLate {
		require.Nil(t, server.event())
		w.run(shortUseTime)
		require.NotNil(t, server.event())
	}
	w.run(shortUseTime)

	for n := range linkNumber(5) {
		w.asks(server, "10.9.9.9", 200+n)
	}
	require.NotNil(t, server.event())
	server.destroy(listener) // requests that wait look for another listener
	require.NotZero(t, server.listens("0.0.0.0", 7000))
	require.NotNil(t, server.event())
	w.ends(client, server)
}

// An address that asks for more than it may is not answered, and another one has its turn.
func TestRequestsHaveABudget(t *testing.T) {
	w := newWorld(t, 2)
	client, server, _ := w.pair()
	now := time.Now()
	server.m.Now = func() time.Time { return now }
	sent := len(w.sent)
	for n := range linkNumber(3000) {
		w.asks(server, "10.9.9.9", 1000+n)
		w.asks(server, "10.9.9.9", 1000) // again and again: that costs nothing
	}
	require.Len(t, server.m.waiting, maxQueuedFrom-1)
	s := server.m.WireStats()
	require.Equal(t, uint64(3000-maxQueuedFrom), s.OverBudget)
	require.Less(t, len(w.sent)-sent, 3010, "what is over the budget is not answered")

	served := 0
	answer := func(e []byte) { require.Zero(t, server.accept(idOf(e), 9, params(5, ""))) }
	for e := server.event(); e != nil; e = server.event() {
		served++
		answer(e)
	}
	require.Equal(t, maxQueuedFrom, served)

	// Incomplete connections fill only what one address may have.
	now = now.Add(time.Hour)
	for n := range linkNumber(1000) {
		w.asks(server, "10.9.9.9", 9000+n)
		if e := server.event(); e != nil {
			served++
			answer(e)
		}
	}
	require.Equal(t, maxHalfOpen, served)
	require.Equal(t, maxHalfOpen, server.m.halfOpen[PortAddress{GID: gidOf(netip.MustParseAddr("10.9.9.9"))}])

	// Beside them others connect.
	w.connected(client, server, 1, 2)
	w.run(time.Hour)
	require.Empty(t, server.m.halfOpen, "what its sender has not completed ends")
	w.ends(client, server)
}
