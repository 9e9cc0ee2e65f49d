//go:build linux && (amd64 || arm64)

package roce

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Packets of all opcodes and of many lengths cross between two carriers as they are, except that
// the pad count is set.
func TestPacketsCross(t *testing.T) {
	for _, threads := range []int{1, 2} {
		addr := freeport.Loopback(t, 2)
		a, b := startHost(t, Config{Threads: threads}, addr[0]), startHost(t, Config{Threads: threads}, addr[1])
		ab, ba := a.to(addr[0], addr[1]), b.to(addr[1], addr[0])
		assert.Equal(t, maxMTU, ab.MTU)
		assert.Equal(t, ab.Number, ab.Source, "class and hop limit are the default ones")
		psn := uint32(0)
		for _, o := range opcodes() {
			for _, n := range []int{0, 1, 2, 3, 4, 63, 255, 256, 257, 1000, 1023, 1024, 4093, 4096} {
				if n > 0 && !o.Info().Payload {
					continue
				}
				psn++
				h, payload := head(o, psn), content(n, psn)
				a.send(ab.Number, h, payload)
				got := b.next()
				require.Equal(t, ba.Source, got.path)
				h[1] |= byte(-n&3) << 4
				require.Equal(t, h, got.head, "%v, %d bytes", o, n)
				if o.Info().DETH {
					require.Greater(t, len(got.payload), grhSize-1)
					got.payload = got.payload[grhSize:]
				}
				require.Equal(t, payload, got.payload, "%v, %d bytes", o, n)
			}
		}
		b.counted(int(psn))
		await.Until(t, "all are counted", func() bool { return a.Stats().Sent.Packets == uint64(psn) })
		assert.Zero(t, b.Stats().Received.Dropped)
		assert.Zero(t, b.Stats().Received.Strangers)
	}
}

// A burst on one path goes in messages that the kernel cuts. All packets arrive, in order.
func TestBurst(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	a, b := newHost(t, Config{}), startHost(t, Config{}, addr[1])
	require.NoError(t, a.AddAddress(addr[0]))
	stopped(t, a)
	b.to(addr[1], addr[0])
	path := a.to(addr[0], addr[1])
	const packets = 200
	sizes := []int{1024, 1024, 1024, 5, 1021, 0, 0, 4096, 4096, 17, 16, 15}
	for i := range uint32(packets) {
		a.send(path.Number, head(writeMiddle, i), content(sizes[int(i)%len(sizes)], i))
	}
	require.NoError(t, a.Start(enginePort{a}))
	for i := range uint32(packets) {
		got := b.next()
		require.Equal(t, i, packet.ParseBTH((*[packet.BTHSize]byte)(got.head)).PSN)
		require.Equal(t, content(sizes[int(i)%len(sizes)], i), got.payload)
	}
	sent, taken := a.Stats().Sent, b.Stats().Received
	assert.Less(t, sent.Messages, uint64(packets))
	assert.Greater(t, sent.Segmented, uint64(packets/2))
	assert.Less(t, sent.Calls, sent.Messages)
	assert.Greater(t, taken.Joined, uint64(packets/2))
	assert.Zero(t, taken.Dropped)
	assert.Zero(t, taken.Weak, "identifications are guessed")
}

// Each packet says on which path it comes, and answers on that path arrive, also if no path was requested.
func TestPathsOfStrangers(t *testing.T) {
	addr := freeport.Loopback(t, 6)
	server := startHost(t, Config{}, addr[0], addr[1], addr[2])
	for _, own := range addr[3:] {
		client := startHost(t, Config{}, own)
		for i, there := range addr[:3] {
			path := client.to(own, there)
			client.send(path.Number, head(udSend, uint32(i)), nil)
			got := server.next()
			server.send(got.path, head(udSend, uint32(i)), nil)
			answer := client.next()
			assert.Equal(t, path.Source, answer.path)
			assert.Equal(t, head(udSend, uint32(i)), answer.head)
		}
	}
	assert.Equal(t, uint64(9), server.Stats().Received.Strangers)
	assert.Equal(t, 9, server.Stats().Paths)
	assert.Zero(t, server.Stats().Held)
	assert.Equal(t, 9, server.Stats().Strangers)
	assert.Empty(t, server.Peers())
	// The carrier counts a datagram after it has sent it: the client may have it already.
	for i := range server.Paths() {
		await.Until(t, "both are counted", func() bool { p := server.Paths()[i]; return p.Sent == 1 && p.Received == 1 })
	}
	assert.EqualValues(t, 9, server.Stats().StrangerPackets)
}

// A stranger stands among the peers only once this engine has requested a path to it.
func TestStrangersAreNoPeers(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	server := startHost(t, Config{}, addr[0])
	for _, own := range addr[1:] {
		client := startHost(t, Config{}, own)
		client.send(client.to(own, addr[0]).Number, head(udSend, 1), nil)
		server.next()
	}
	once, err := server.FindOnce(addressOf(addr[2], 0x20, 0)) // such as the answer to a request of rdma_cm
	require.NoError(t, err)
	server.send(once.Number, head(udSend, 2), nil)
	assert.Empty(t, server.Peers())
	assert.Equal(t, 2, server.Stats().Strangers)

	server.to(addr[0], addr[1])
	require.Len(t, server.Peers(), 1)
	assert.Equal(t, addr[1].String(), server.Peers()[0].Name)
	assert.EqualValues(t, 1, server.Peers()[0].Stats.Received)
	assert.Equal(t, 1, server.Stats().Strangers)
}

// Traffic class and hop limit are part of a path; the paths of one address have one source.
func TestRoute(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, addr[0])
	route := func(a nic.Address) nic.Path {
		t.Helper()
		p, err := h.Hold(a)
		require.NoError(t, err)
		return p
	}
	to := nic.Address{GID: gid(addr[1]), From: gid(addr[0])}
	base := route(to)
	require.Equal(t, base, route(nic.Address{GID: gid(addr[1])}), "the only local address")
	to.Class = 3
	require.Equal(t, base, route(to), "ECN bits are not the program's")
	to.Class, to.HopLimit = 0x20, 1
	other := route(to)
	require.NotEqual(t, base.Number, other.Number)
	require.Equal(t, base.Source, other.Source)
	require.Equal(t, 2, h.Stats().Held)
	for range 3 {
		h.Release(base)
	}
	require.Equal(t, 1, h.Stats().Held)
	h.Release(base)
	for _, p := range h.Paths() {
		require.NotNil(t, h.paths.find(p.Source), "the other path holds its source")
	}
	h.Release(other)
	h.Release(other)
	require.Zero(t, h.Stats().Held)
	to.Class = 0x40
	again, err := h.Find(to)
	require.NoError(t, err)
	same, ok := h.Route(to)
	require.True(t, ok)
	require.Equal(t, again, same)
	require.Equal(t, base.Source, again.Source)
	require.Zero(t, h.Stats().Held)

	for text, a := range map[string]nic.Address{
		"roce: a device is reached by its IP address, not by its GUID":                            {GUID: 1, GID: gid(addr[1])},
		"roce: invalid IP is not the address of a host":                                           {},
		"roce: 224.0.0.1 is not the address of a host":                                            {GID: gid(netip.MustParseAddr("224.0.0.1"))},
		"roce: 10.0.0.1 is not among the allowed peers":                                           {GID: gid(netip.MustParseAddr("10.0.0.1"))},
		"roce: 127.9.9.9 is not a local address of the carrier (cannot assign requested address)": {GID: gid(addr[1]), From: gid(netip.MustParseAddr("127.9.9.9"))},
	} {
		if text == "roce: invalid IP is not the address of a host" {
			text = "roce: :: is not the address of a host"
		}
		_, err := h.Hold(a)
		assert.EqualError(t, err, text)
	}
	v6 := startHost(t, Config{}, addr[1])
	_, err = v6.Hold(nic.Address{GID: gid(netip.MustParseAddr("fd00::1")), From: gid(addr[1])})
	assert.ErrorContains(t, err, "one is IPv4, the other IPv6")
	_, err = v6.Hold(nic.Address{GID: gid(netip.MustParseAddr("fd00::1"))})
	assert.ErrorContains(t, err, "no local address of that kind")
}

// The port 4791 can have one owner for each address. The error says who it may be.
func TestPortIsTaken(t *testing.T) {
	addr := freeport.Loopback(t, 1)
	h := startHost(t, Config{}, addr[0])
	assert.ErrorContains(t, h.AddAddress(addr[0]), "UDP port 4791 of "+addr[0].String()+" is taken by ")
	err := newHost(t, Config{}).AddAddress(addr[0])
	assert.ErrorIs(t, err, unix.EADDRINUSE)
	assert.ErrorContains(t, err, "rdma_rxe")
	require.NoError(t, h.RemoveAddress(addr[0]))
	require.NoError(t, newHost(t, Config{}).AddAddress(addr[0]))
}

func TestAddressMistakes(t *testing.T) {
	h := startHost(t, Config{})
	err := h.AddAddress(netip.MustParseAddr("203.0.113.77"))
	assert.ErrorIs(t, err, unix.EADDRNOTAVAIL)
	assert.ErrorContains(t, err, "no network device has the address 203.0.113.77")
	assert.ErrorContains(t, h.AddAddress(netip.MustParseAddr("fe80::1")), "without a network device")
	assert.ErrorIs(t, h.AddAddress(netip.MustParseAddr("fe80::1%none")), unix.ENODEV)
	assert.ErrorContains(t, h.AddAddress(netip.MustParseAddr("0.0.0.0")), "not the address of a host")
	assert.ErrorContains(t, h.AddAddress(netip.Addr{}), "not the address of a host")
	assert.ErrorIs(t, h.RemoveAddress(netip.MustParseAddr("203.0.113.77")), unix.EADDRNOTAVAIL)

	// Sockets of others.
	fds := func(network netip.AddrPort, kind int) int {
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: network.Addr().As4(), Port: int(network.Port())}))
		return fd
	}
	addr := freeport.Loopback(t, 2)
	at := func(i int, port uint16) netip.AddrPort { return netip.AddrPortFrom(addr[i], port) }
	for text, s := range map[string]*Sockets{
		"is no UDP socket":                {Receive: fds(at(0, 0), unix.SOCK_STREAM)},
		"port 4791 are needed":            {Receive: fds(at(0, 4792), unix.SOCK_DGRAM)},
		"no socket to send from":          {Receive: fds(at(0, packet.Port), unix.SOCK_DGRAM)},
		"is bound to " + addr[1].String(): {Receive: fds(at(1, packet.Port), unix.SOCK_DGRAM), Send: []int{fds(at(0, 0), unix.SOCK_DGRAM)}},
	} {
		if text == "is bound to "+addr[1].String() {
			text = "a socket of " + addr[1].String() + " is bound to " + addr[0].String()
		}
		assert.ErrorContains(t, h.AddSockets(s), text)
		assert.Equal(t, -1, s.Receive, "closed")
	}
}

// After RemoveAddress, packets on its paths are dropped, and its number leads nowhere even if a
// new path has its place. The address can come back.
func TestRemoveAddress(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	a, b := startHost(t, Config{}, addr[0]), startHost(t, Config{}, addr[1])
	require.True(t, a.nextUp())
	b.to(addr[1], addr[0])
	b.to(addr[1], addr[2])
	old := a.to(addr[0], addr[1])
	a.send(old.Number, head(writeOnly, 1), nil)
	b.next()
	require.NoError(t, a.RemoveAddress(addr[0]))
	require.False(t, a.nextUp())
	_, err := a.Hold(nic.Address{GID: gid(addr[1]), From: gid(addr[0])})
	require.ErrorIs(t, err, unix.EADDRNOTAVAIL)
	a.send(old.Number, head(writeOnly, 2), nil)
	require.NoError(t, a.AddAddress(addr[2]))
	path := a.to(addr[2], addr[1])
	require.NotEqual(t, old.Number, path.Number)
	a.send(old.Number, head(writeOnly, 3), nil)
	a.send(path.Number, head(writeOnly, 4), nil)
	require.Equal(t, head(writeOnly, 4), b.next().head)
	require.Equal(t, uint64(2), a.Stats().Sent.NoPath)
	require.True(t, a.nextUp())
	require.NoError(t, a.AddAddress(addr[0]))
	a.send(a.to(addr[0], addr[1]).Number, head(writeOnly, 5), nil)
	require.Equal(t, head(writeOnly, 5), b.next().head)
	a.Release(old)
}

// Many local addresses: epoll says which of them have datagrams.
func TestManyAddresses(t *testing.T) {
	addr := freeport.Loopback(t, 41)
	a, b := startHost(t, Config{}, addr[40]), startHost(t, Config{}, addr[:40]...)
	for _, there := range addr[:40] {
		b.to(there, addr[40])
	}
	for round := range uint32(3) {
		for i, there := range addr[:40] {
			number := round*100 + uint32(i)
			a.send(a.to(addr[40], there).Number, head(writeOnly, number), content(100, number))
		}
		seen := map[uint32]bool{}
		for range 40 {
			got := b.next()
			number := packet.ParseBTH((*[packet.BTHSize]byte)(got.head)).PSN
			require.Equal(t, content(100, number), got.payload)
			require.False(t, seen[number])
			seen[number] = true
		}
	}
	for _, s := range b.Addresses() {
		assert.True(t, s.Up)
		assert.Equal(t, uint64(3), s.Received)
		assert.Equal(t, "lo", s.Device)
	}
}

// The engine's ring is full: the carrier waits and loses no datagram that the socket's buffer holds.
func TestFullRing(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	a, b := startHost(t, Config{}, addr[0]), startHost(t, Config{}, addr[1])
	b.to(addr[1], addr[0])
	path := a.to(addr[0], addr[1])
	const packets = defaultSlots + 40
	for i := range uint32(packets) {
		a.send(path.Number, head(writeMiddle, i), content(64, i))
	}
	await.Until(t, "the ring is full", func() bool { return b.Stats().Received.Full > 0 })
	for i := range uint32(packets) {
		require.Equal(t, content(64, i), b.next().payload)
	}
	assert.Zero(t, b.Stats().Received.KernelDropped)
}

// Close closes the engine's port and can be called again; no work starts after it.
func TestClose(t *testing.T) {
	addr := freeport.Loopback(t, 1)
	h := startHost(t, Config{}, addr[0])
	require.Error(t, h.Start(enginePort{h}), "started already")
	require.NoError(t, h.Close())
	require.True(t, h.closed.Load())
	require.NoError(t, h.Close())
	require.ErrorIs(t, h.AddAddress(addr[0]), errClosed)
	require.ErrorIs(t, h.Start(enginePort{h}), errClosed)
	idle := newHost(t, Config{})
	_, err := idle.Hold(addressOf(addr[0], 0, 0))
	require.ErrorContains(t, err, "not started")
	_, ok := idle.Route(addressOf(addr[0], 0, 0))
	require.False(t, ok)
	require.NoError(t, idle.Close(), "never started")
	_, err = New(Config{Send: h.cfg.Send, Receive: h.cfg.Receive})
	require.NoError(t, err)
	small := h.cfg.Send
	small.Data = 4096
	_, err = New(Config{Send: small})
	require.ErrorContains(t, err, "does not hold two packets")
	small.Slots = 3
	_, err = New(Config{Send: small})
	require.Error(t, err)
	require.False(t, errors.Is(err, errClosed))
}

// When a network device is back, the next packet is tried: the engine gets the event that the link is up, and
// packets that it sends then must not be dropped because one from before had failed.
func TestPacketsAreTriedOnceTheDeviceIsBack(t *testing.T) {
	a := freeport.Loopback(t, 1)[0]
	h := startHost(t, Config{lookEvery: time.Hour, deaf: true}, a)
	path := h.to(a, a)
	failed := func() *fault {
		f := &fault{errno: unix.ENETUNREACH, since: time.Now()}
		f.again.Store(int64(time.Hour))
		return f
	}
	p := h.paths.find(path.Number)
	p.fault.Store(failed())
	p.from.fault.Store(failed())
	p.from.lost.Store(&lost{reason: "down", since: time.Now()})
	h.send(path.Number, head(writeOnly, 1), nil)
	await.Until(t, "a packet is dropped", func() bool { return h.Stats().Sent.NoWay == 1 })
	h.look(p.from)
	h.send(path.Number, head(writeOnly, 2), content(10, 2))
	require.Equal(t, content(10, 2), h.next().payload)
	require.Equal(t, uint64(1), h.Stats().Sent.NoWay)
	await.Until(t, "the address works again, which is noted after the packet was sent", p.from.up)
}

// An address that could not send, and of which nothing says that it was lost, is probed: the engine sends
// nothing while the link is down.
func TestAddressIsProbed(t *testing.T) {
	a := freeport.Loopback(t, 1)[0]
	h := startHost(t, Config{lookEvery: time.Hour, deaf: true}, a)
	p := h.paths.find(h.to(a, a).Number)
	f := &fault{errno: unix.EINVAL, since: time.Now()}
	p.from.fault.Store(f)
	good := p.nameLen
	p.nameLen = 1 // the kernel says EINVAL, as for an address that is not this host's
	p.from.probe(h.Carrier)
	require.Equal(t, f, p.from.fault.Load())
	p.nameLen = good
	p.from.probe(h.Carrier)
	require.True(t, p.from.up())

	p.from.fault.Store(f)
	h.Release(nic.Path{Number: p.number})
	require.NoError(t, h.RemoveAddress(a))
	require.NoError(t, h.AddAddress(a))
	l := (*h.locals.Load())[0]
	l.fault.Store(f)
	l.probe(h.Carrier)
	require.True(t, l.up(), "without a peer nothing can be tried, and nothing is lost")
}

// The carrier lets the engine give back memory now and then.
func TestCarrierTrimsThePort(t *testing.T) {
	h := startHost(t, Config{lookEvery: time.Millisecond, deaf: true})
	await.Until(t, "the port is trimmed", func() bool { return h.trims.Load() >= 2 })
}
