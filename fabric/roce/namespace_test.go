//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A pair is two carriers in two network namespaces with a veth device between them. The
// carrier b is in the test's namespace too: only its sockets were made in the other one.
type pair struct {
	a, b  *host
	other netns
}

var (
	a4, b4 = netip.MustParseAddr("10.5.0.1"), netip.MustParseAddr("10.5.0.2")
	a6, b6 = netip.MustParseAddr("fd05::1"), netip.MustParseAddr("fd05::2")
)

func newPair(t *testing.T) *pair {
	p := &pair{other: newNetns(t)}
	p.plug(t)
	p.a, p.b = startHost(t, Config{lookEvery: 10 * time.Millisecond}, a4, a6), startHost(t, Config{})
	p.open(t, b4)
	p.open(t, b6)
	return p
}

// plug makes the devices.
func (p *pair) plug(t *testing.T) {
	addVeth(t, "a0", "b0", p.other)
	setLink(t, "a0", true, 0)
	setAddress(t, true, "a0", a4.String()+"/24")
	setAddress(t, true, "a0", a6.String()+"/64")
	p.other.do(func() {
		setLink(t, "b0", true, 0)
		setAddress(t, true, "b0", b4.String()+"/24")
		setAddress(t, true, "b0", b6.String()+"/64")
	})
	await.Until(t, "the kernel takes packets for the IPv6 addresses", func() bool {
		there := false
		p.other.do(func() { there = isLocal(b6) })
		return there && isLocal(a6)
	})
}

// addLinkLocal gives the devices link-local addresses that can be used at once.
func (p *pair) addLinkLocal(t *testing.T) {
	setAddress(t, true, "a0", "fe80::a/64")
	p.other.do(func() { setAddress(t, true, "b0", "fe80::b/64") })
}

// open opens sockets in the other namespace and gives them to carrier b.
func (p *pair) open(t *testing.T, a netip.Addr) {
	t.Helper()
	var s *Sockets
	var err error
	p.other.do(func() { s, err = OpenSockets(a, 2) })
	require.NoError(t, err)
	require.Equal(t, "b0", s.Device)
	require.NoError(t, p.b.AddSockets(s))
}

// exchange sends packets both ways and checks each.
func exchange(t *testing.T, a, b *host, from, to netip.Addr, packets, size int) {
	t.Helper()
	for _, way := range []struct {
		a, b     *host
		from, to netip.Addr
	}{{a, b, from, to}, {b, a, to, from}} {
		path := way.a.to(way.from, way.to)
		source := way.b.to(way.to, way.from).Source
		for i := range uint32(packets) {
			way.a.send(path.Number, head(writeMiddle, i), content(size, i))
		}
		for i := range uint32(packets) {
			got := way.b.next()
			require.Equal(t, source, got.path)
			require.Equal(t, i, packet.ParseBTH((*[packet.BTHSize]byte)(got.head)).PSN)
			require.Equal(t, content(size, i), got.payload)
		}
	}
}

// Two namespaces exchange packets over IPv4, IPv6 and link-local addresses. One carrier has
// sockets that were made in the other namespace.
func TestTwoNamespaces(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	exchange(t, p.a, p.b, a4, b4, 300, 1024)
	exchange(t, p.a, p.b, a6, b6, 300, 1023)
	p.addLinkLocal(t)
	require.NoError(t, p.a.AddAddress(netip.MustParseAddr("fe80::a%a0")))
	p.open(t, netip.MustParseAddr("fe80::b%b0"))
	exchange(t, p.a, p.b, netip.MustParseAddr("fe80::a"), netip.MustParseAddr("fe80::b"), 10, 1000)
	assert.Equal(t, 1024, p.a.to(a4, b4).MTU)
	for _, h := range []*host{p.a, p.b} {
		for _, s := range h.Addresses() {
			assert.Equal(t, 1500, s.DeviceMTU, "%+v", s)
			assert.Equal(t, 1024, s.MTU)
			assert.True(t, s.Segments && s.Joins && s.Up)
			assert.NotEmpty(t, s.SourcePorts)
		}
		assert.Zero(t, h.Stats().Received.Dropped)
		assert.Zero(t, h.Stats().Received.Weak)
	}

	// Sockets whose maker does not name the device.
	require.NoError(t, p.b.RemoveAddress(b4))
	var s *Sockets
	var err error
	p.other.do(func() { s, err = OpenSockets(b4, 1) })
	require.NoError(t, err)
	s.MTU, s.Device = 0, ""
	require.NoError(t, p.b.AddSockets(s))
	assert.Equal(t, 1024, p.b.to(b4, a4).MTU)
}

// The segments that the kernel cuts out of a message have the identifications with which they
// were sealed.
func TestSegmentsOnTheWire(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	rtnetlink(t, unix.RTM_NEWLINK, 0, join(link(indexOf(t, "a0"), 0, 0), attr32(unix.IFLA_GSO_MAX_SEGS, 1)))
	wire, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(swap16(unix.ETH_P_ALL)))
	require.NoError(t, err)
	defer unix.Close(wire)
	require.NoError(t, unix.SetsockoptTimeval(wire, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
	for _, addresses := range [][2]netip.Addr{{a4, b4}, {a6, b6}} {
		p.b.to(addresses[1], addresses[0])
		path := p.a.to(addresses[0], addresses[1])
		const packets = 40
		highest := uint16(0)
		for i := range uint32(packets) {
			// All are in the ring before the sender wakes.
			h, payload, ok := p.a.port.Send.Reserve(packet.BTHSize, 64)
			require.True(t, ok)
			copy(h, head(writeMiddle, i))
			copy(payload, content(64, i))
			p.a.port.Send.Publish(path.Number)
		}
		p.a.port.Wake()
		for range packets {
			b := sniff(t, wire)
			at, id := 40, uint16(0)
			if addresses[0].Is4() {
				at, id = ipv4Header, binary.BigEndian.Uint16(b[4:])
			}
			highest = max(highest, id)
			flow := packet.MakeFlow(netip.AddrPortFrom(addresses[0], binary.BigEndian.Uint16(b[at:])), netip.AddrPortFrom(addresses[1], packet.Port))
			bits, _ := flow.Check(b[at+udpHeader:], id)
			require.Equal(t, 32, bits)
		}
		for i := range uint32(packets) {
			require.Equal(t, content(64, i), p.b.next().payload)
		}
		if addresses[0].Is4() {
			assert.Equal(t, uint16(packets-1), highest, "all were one message")
		}
	}
	assert.Zero(t, p.b.Stats().Received.Weak)
}

// works sends packets from a to b until one arrives, waits until all that were sent after it have come, and
// returns how many were sent. The first ones may be lost without a word: the carrier drops packets for 100 ms
// after one that the kernel has refused, and the kernel drops them until its work queue has activated the
// device. Where one has arrived, those after it do, in order.
func (p *pair) works(path uint32) (sent uint32) {
	send := func() {
		sent++
		p.a.send(path, head(writeOnly, sent), content(9, 9))
	}
	number := func(r received) uint32 { return packet.ParseBTH((*[packet.BTHSize]byte)(r.head)).PSN }
	for number(p.b.comes(send)) == 0 { // a packet from before
	}
	send()
	for number(p.b.next()) != sent {
	}
	return sent
}

// A device that goes down or vanishes, and an address that is removed, are noticed, named, and
// survived: when they come back, the paths work again.
func TestVanishedDevice(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	exchange(t, p.a, p.b, a4, b4, 10, 100)
	require.True(t, p.a.nextUp())
	path := p.a.to(a4, b4)
	state := func() AddressState { return p.a.Addresses()[0] }
	for _, c := range []struct {
		what, reason string
		away, back   func()
	}{
		{"down", "network device a0 is down", func() { setLink(t, "a0", false, 0) }, func() {
			setLink(t, "a0", true, 0)
			setAddress(t, true, "a0", a6.String()+"/64") // the kernel removes IPv6 addresses
		}},
		{"no address", "no network device has the address 10.5.0.1", func() {
			setAddress(t, false, "a0", a4.String()+"/24")
			setAddress(t, false, "a0", a6.String()+"/64")
		}, func() {
			setAddress(t, true, "a0", a4.String()+"/24")
			setAddress(t, true, "a0", a6.String()+"/64")
		}},
		{"gone", "no network device has the address 10.5.0.1", func() { deleteLink(t, "a0") }, func() { p.plug(t) }},
	} {
		before := p.a.Stats().Sent.NoWay
		c.away()
		await.Until(t, c.what+": packets are dropped", func() bool {
			p.a.send(path.Number, head(writeOnly, 0), nil)
			return p.a.Stats().Sent.NoWay > before
		})
		require.False(t, p.a.nextUp(), c.what)
		await.Until(t, c.what+": the reason is known", func() bool { return !state().Up && state().Since.Unix() > 0 })
		await.Until(t, c.what+": the reason is "+c.reason, func() bool {
			return len(state().Reason) >= len(c.reason) && state().Reason[:len(c.reason)] == c.reason
		})
		c.back()
		t.Log(c.what, "packets until it works again:", p.works(path.Number))
		await.Until(t, c.what+": the address is up", func() bool { return state().Up })
		require.True(t, p.a.nextUp(), c.what)
		exchange(t, p.a, p.b, a4, b4, 10, 100)
	}
}

// An address that is removed and comes back is noticed at once, also if nobody looks at the devices and
// nothing is sent meanwhile: the engine sends nothing while the link is down. Packets go at once after that,
// also those of paths that could not send.
func TestAddressComesBackAtOnce(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	require.NoError(t, p.a.Close())
	p.a = startHost(t, Config{lookEvery: time.Hour}, a4) // only notifications say that an address has gone
	require.True(t, p.a.nextUp())
	exchange(t, p.a, p.b, a4, b4, 10, 100)
	path := p.a.paths.find(p.a.to(a4, b4).Number)
	for range maxRefused {
		setAddress(t, false, "a0", a4.String()+"/24")
		require.False(t, p.a.nextUp())
		before := p.a.Stats().Sent.NoWay
		for i := range uint32(10) { // all are in the ring before the sender wakes: one message
			h, payload, ok := p.a.port.Send.Reserve(packet.BTHSize, 100)
			require.True(t, ok)
			copy(h, head(writeMiddle, i))
			copy(payload, content(100, i))
			p.a.port.Send.Publish(path.number)
		}
		p.a.port.Wake()
		await.Until(t, "packets are dropped", func() bool { return p.a.Stats().Sent.NoWay == before+10 })
		require.NotNil(t, path.fault.Load())
		path.fault.Load().again.Store(int64(time.Hour)) // the next packet is not tried before that
		setAddress(t, true, "a0", a4.String()+"/24")
		require.True(t, p.a.nextUp())
		p.works(path.number) // the kernel makes the route after it has notified
		exchange(t, p.a, p.b, a4, b4, 10, 100)
	}
	require.True(t, p.a.Addresses()[0].Segments, "the kernel still cuts messages")
}

// A link-local address is that of a device. When the device is made again, new sockets are
// opened.
func TestLinkLocalDeviceComesBack(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	p.addLinkLocal(t)
	require.NoError(t, p.a.AddAddress(netip.MustParseAddr("fe80::a%a0")))
	p.open(t, netip.MustParseAddr("fe80::b%b0"))
	exchange(t, p.a, p.b, netip.MustParseAddr("fe80::a"), netip.MustParseAddr("fe80::b"), 3, 100)
	old := indexOf(t, "a0")
	deleteLink(t, "a0")
	await.Until(t, "the address is lost", func() bool { return !p.a.Addresses()[2].Up })
	require.NoError(t, p.b.RemoveAddress(netip.MustParseAddr("fe80::b")))
	p.plug(t)
	p.addLinkLocal(t)
	p.open(t, netip.MustParseAddr("fe80::b%b0"))
	require.NotEqual(t, old, indexOf(t, "a0"))
	await.Until(t, "there are new sockets", func() bool {
		list := p.a.Addresses() // once: the old address goes before the new one comes
		return len(list) == 3 && list[2].Up
	})
	exchange(t, p.a, p.b, netip.MustParseAddr("fe80::a"), netip.MustParseAddr("fe80::b"), 3, 100)
}

// A packet that is too long for the network is dropped, and makes the MTU of its path smaller. A new
// MTU of the device is noticed.
func TestMTU(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	setLink(t, "a0", true, 9000)
	p.other.do(func() { setLink(t, "b0", true, 9000) })
	await.Until(t, "the device's MTU is noticed", func() bool { return p.a.Addresses()[0].MTU == 4096 })
	for _, addresses := range [][2]netip.Addr{{a4, b4}, {a6, b6}} {
		exchange(t, p.a, p.b, addresses[0], addresses[1], 20, 4096)
		limitRoute(t, "a0", addresses[1], 1500)
		path := p.a.to(addresses[0], addresses[1])
		before := p.a.Stats().Sent
		for i := range uint32(6) {
			_, payload, _ := p.a.port.Send.Reserve(packet.BTHSize, 4096)
			copy(payload, content(4096, i))
			h, _, ok := p.a.port.Send.Reserve(packet.BTHSize, 4096)
			require.True(t, ok)
			copy(h, head(writeMiddle, i))
			p.a.port.Send.Publish(path.Number)
		}
		p.a.port.Wake()
		p.a.send(path.Number, head(writeMiddle, 7), content(1024, 7))
		require.Equal(t, content(1024, 7), p.b.next().payload, "others go on")
		sent := p.a.Stats().Sent
		require.Equal(t, before.TooLong+6, sent.TooLong)
		require.Greater(t, sent.Refused, before.Refused, "a message of several")
		require.Equal(t, 1024, p.a.to(addresses[0], addresses[1]).MTU, "a new connection")
	}
}

// A remote address to which there is no route harms only its path.
func TestNoRoute(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPair(t)
	away := netip.MustParseAddr("198.51.100.1")
	lost := p.a.to(a4, away)
	p.a.send(lost.Number, head(writeOnly, 1), nil)
	exchange(t, p.a, p.b, a4, b4, 5, 100)
	require.Equal(t, uint64(1), p.a.Stats().Sent.NoWay)
	for _, s := range p.a.Paths() {
		if s.Remote == away {
			require.Equal(t, "cannot send: network is unreachable", s.Reason)
		} else {
			require.Empty(t, s.Reason)
		}
	}
	require.True(t, p.a.Addresses()[0].Up)
	rtnetlink(t, unix.RTM_NEWROUTE, unix.NLM_F_CREATE, join(
		[]byte{unix.AF_INET, 32, 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_BOOT, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0},
		attr(unix.RTA_DST, away.AsSlice()), attr(unix.RTA_GATEWAY, b4.AsSlice())))
	await.Until(t, "the path works again", func() bool {
		p.a.send(lost.Number, head(writeOnly, 1), nil)
		for _, s := range p.a.Paths() {
			if s.Remote == away {
				return s.Reason == "" && s.Sent > 0
			}
		}
		return false
	})
}

// An address that is local by a route, and that no device has, is not taken for lost.
func TestAddressOfNoDevice(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	a := netip.MustParseAddr("10.7.0.5")
	rtnetlink(t, unix.RTM_NEWROUTE, unix.NLM_F_CREATE, join(
		[]byte{unix.AF_INET, 24, 0, 0, unix.RT_TABLE_LOCAL, unix.RTPROT_BOOT, unix.RT_SCOPE_HOST, unix.RTN_LOCAL, 0, 0, 0, 0},
		attr(unix.RTA_DST, []byte{10, 7, 0, 0}), attr32(unix.RTA_OIF, uint32(indexOf(t, "lo")))))
	p := newPair(t)
	require.NoError(t, p.a.AddAddress(a))
	setLink(t, "a0", false, 0)
	await.Until(t, "the devices are looked at", func() bool { return !p.a.Addresses()[0].Up })
	state := p.a.Addresses()[2]
	require.True(t, state.Up, state.Reason)
	require.Empty(t, state.Device)
	h := p.a
	h.send(h.to(a, a).Number, head(writeOnly, 1), content(10, 1))
	require.Equal(t, content(10, 1), h.next().payload)
}
