//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/budget"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/mmsg"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// screened returns a carrier that is not started, and its local address: the test itself
// receives from the sockets. It skips the test if the kernel does not choose among them.
func screened(t *testing.T, cfg Config, a netip.Addr) (*host, *local) {
	t.Helper()
	h := newHost(t, cfg)
	require.NoError(t, h.AddAddress(a))
	l := (*h.locals.Load())[0]
	if l.group.strangers < 0 {
		t.Skip("the kernel does not choose among sockets (SO_ATTACH_REUSEPORT_CBPF)")
	}
	return h, l
}

// knows makes addresses known to a carrier that is not started.
func (h *host) knows(l *local, addresses ...netip.Addr) {
	h.t.Helper()
	for _, a := range addresses {
		_, err := h.paths.hold(key{local: l.number, remote: a.As16(), hops: defaultHops}, l)
		require.NoError(h.t, err)
	}
	h.screenAll()
}

// arrival waits for the one datagram that was sent, and returns where it arrived. On a busy machine the
// kernel delivers it later, on a thread of its own.
func arrival(t *testing.T, l *local) (n [classes]int) {
	t.Helper()
	buffer := make([]byte, 1<<16)
	await.Until(t, "the datagram arrives", func() bool {
		for c, fd := range []int{l.receiver, l.group.strangers} {
			for {
				if _, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT); err != nil {
					break
				}
				n[c]++
			}
		}
		dropped, ok := mmsg.Dropped(l.group.unfit)
		require.True(t, ok)
		n[unfit] += int(dropped - l.group.counts[unfit])
		l.group.counts[unfit] = dropped
		return n != [classes]int{}
	})
	return n
}

// Of each datagram the kernel finds out whether it can be a packet and which address has sent it.
func TestScreenSorts(t *testing.T) {
	addr := freeport.Loopback(t, 4)
	h, l := screened(t, Config{Allowed: []netip.Prefix{netip.PrefixFrom(addr[1], 32), netip.PrefixFrom(addr[2], 32)}}, addr[0])
	peer, other, refused := newForeigner(t, addr[1], addr[0]), newForeigner(t, addr[2], addr[0]), newForeigner(t, addr[3], addr[0])
	h.knows(l, addr[1])
	good := peer.seal(head(writeOnly, 1), content(100, 1))
	with := func(change func(b []byte)) []byte {
		b := append([]byte(nil), good...)
		change(b)
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		from *foreigner
		to   class
	}{
		"a packet of a peer":               {good, peer, fromKnown},
		"of a stranger":                    {good, other, unfit},
		"a stranger's acknowledgement":     {other.seal(head(acknowledge, 1), nil), other, unfit},
		"a stranger's notification":        {other.seal(head(packet.OpCNP, 1), content(16, 0)), other, unfit},
		"a stranger's datagram":            {other.seal(head(udSend, 1), nil), other, fromStranger},
		"of one that is not allowed":       {good, refused, unfit},
		"an acknowledgement":               {peer.seal(head(acknowledge, 1), nil), peer, fromKnown},
		"a wrong ICRC, which is not seen":  {with(func(b []byte) { b[len(b)-1] ^= 1 }), peer, fromKnown},
		"a manufacturer's opcode":          {with(func(b []byte) { b[0], b[1] = 0xc0, 0xff }), peer, fromKnown},
		"the last one, from a stranger":    {with(func(b []byte) { b[0] = 0xff })[:17], other, fromStranger},
		"a manufacturer's, not allowed":    {with(func(b []byte) { b[0] = 0xff }), refused, unfit},
		"a manufacturer's that is short":   {with(func(b []byte) { b[0] = 0xff })[:15], peer, unfit},
		"empty":                            {nil, peer, unfit},
		"15 bytes":                         {good[:15], peer, unfit},
		"no multiple of 4":                 {good[:len(good)-1], peer, unfit},
		"an opcode between the known ones": {with(func(b []byte) { b[0] = 0x15 }), peer, unfit},
		"a service that no device has":     {with(func(b []byte) { b[0] = 0x40 }), peer, unfit},
		"the last opcode of the standard":  {with(func(b []byte) { b[0] = 0xbf }), peer, unfit},
		"version 1":                        {with(func(b []byte) { b[1] |= 1 }), peer, unfit},
		"another partition":                {with(func(b []byte) { b[3] = 0xfe }), peer, unfit},
		"a partial member":                 {with(func(b []byte) { b[2] = 0x7f }), peer, fromKnown},
	} {
		c.from.send(c.b)
		var want [classes]int
		want[c.to] = 1
		require.Equal(t, want, arrival(t, l), name)
	}
	for _, o := range opcodes() {
		peer.send(peer.seal(head(o, 1), nil))
		require.Equal(t, [classes]int{fromKnown: 1}, arrival(t, l), "%v", o)
	}
}

// Every address of a set is known, and its neighbours are not; of a set that is too large,
// the prefixes are known.
func TestScreenOfManyPeers(t *testing.T) {
	own := freeport.Loopback(t, 1)[0]
	h, l := screened(t, Config{}, own)
	peer := func(n int) netip.Addr { // every other one
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(own.As4()[1])<<16|0x7f000000|uint32(n)*2+0x2)
		return netip.AddrFrom4(b)
	}
	good := head(udSend, 1)
	from := func(a netip.Addr) class {
		s := newForeigner(t, a, own)
		s.send(s.seal(good, nil))
		require.NoError(t, s.Close())
		n := arrival(t, l)
		require.Equal(t, 1, n[fromKnown]+n[fromStranger])
		return class(n[fromStranger])
	}
	var all []netip.Addr
	for n := range maxKnown {
		all = append(all, peer(n))
	}
	h.knows(l, all...)
	for _, a := range all {
		require.Equal(t, fromKnown, from(a), "%v", a)
		require.Equal(t, fromStranger, from(a.Next()), "%v", a.Next())
	}
	require.Equal(t, fromStranger, from(all[0].Prev()))
	h.knows(l, peer(maxKnown))
	require.Equal(t, fromKnown, from(all[0].Next()), "of a known prefix of 24 bits")
	require.Equal(t, fromStranger, from(peer(maxKnown+300)))

	// Only a program that knows all drops packets of connections.
	good = head(acknowledge, 1)
	far := newForeigner(t, peer(maxKnown+300), own)
	far.send(far.seal(good, nil))
	require.Equal(t, [classes]int{unfit: 1}, arrival(t, l))
	_, err := h.paths.use(key{local: l.number, remote: peer(maxKnown + 300).As16(), hops: defaultHops}, l, wanted)
	require.NoError(t, err)
	h.screenAll()
	far.send(far.seal(good, nil))
	require.Equal(t, [classes]int{fromStranger: 1}, arrival(t, l), "known, and not held")
}

// The same over IPv6, whose addresses are found by sums; prefixes that are allowed have any length.
func TestScreenOfIPv6(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	base := netip.MustParsePrefix("fd77::/64")
	var all []netip.Addr
	for a := base.Addr().Next(); len(all) < 40; a = a.Next() {
		setAddress(t, true, "lo", netip.PrefixFrom(a, 128).String())
		all = append(all, a)
	}
	for _, a := range all {
		await.Until(t, "the kernel takes packets for "+a.String(), func() bool { return isLocal(a) })
	}
	h, l := screened(t, Config{Allowed: []netip.Prefix{netip.MustParsePrefix("fd77::/123"), netip.MustParsePrefix("10.0.0.0/8")}}, all[0])
	h.knows(l, all[1], all[2], all[20])
	for i, a := range all[1:] {
		s := newForeigner(t, a, all[0])
		s.send(s.seal(head(udSend, 1), nil))
		require.NoError(t, s.Close())
		want := fromStranger
		at := i + 1
		switch {
		case at >= 31:
			want = unfit
		case at == 1 || at == 2 || at == 20:
			want = fromKnown
		}
		var n [classes]int
		n[want] = 1
		require.Equal(t, n, arrival(t, l), "%v", a)
	}
	k := newAddressSet([]netip.Addr{netip.MustParseAddr("fd77:1:2:3::4")}, true, h.secret)
	require.Equal(t, 128, k.bits)
	k.bits = 48
	require.Equal(t, k.wordOf(netip.MustParseAddr("fd77:1:2:3::4")), k.wordOf(netip.MustParseAddr("fd77:1:2:ffff::5")))
	require.NotEqual(t, k.wordOf(netip.MustParseAddr("fd77:1:2::")), k.wordOf(netip.MustParseAddr("fd77:1:3::")))
}

// A datagram that the kernel joins to one before it is checked like any other.
func TestScreenSeesJoinedDatagrams(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{}, addr[0])
	s := newForeigner(t, addr[1], addr[0])
	h.to(addr[0], addr[1])
	good := s.seal(head(writeOnly, 1), content(100, 1))
	bad := append([]byte(nil), good...)
	bad[0] = 0x15
	raw, err := s.SyscallConn()
	require.NoError(t, err)
	to, err := sockaddr(addr[0], packet.Port)
	require.NoError(t, err)
	control := mmsg.AppendInt(nil, unix.IPPROTO_UDP, udpSegment, 2, uint32(len(good)))
	require.NoError(t, raw.Control(func(fd uintptr) {
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO))
		_, err = unix.SendmsgN(int(fd), append(append(append([]byte(nil), good...), bad...), good...), control, to, 0)
	}))
	require.NoError(t, err)
	require.Equal(t, content(100, 1), h.next().payload)
	await.Until(t, "the datagram that is no packet is dropped", func() bool {
		r := h.Stats().Received
		return r.Dropped[UnknownOpcode]+r.KernelUnfit == 1
	})
}

// A peer's packet is taken although strangers have filled their buffer and go on.
func TestPeersAreServedBesideAFlood(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	h, l := screened(t, Config{}, addr[0])
	h.knows(l, addr[1])
	flood, peer := newForeigner(t, addr[2], addr[0]), newForeigner(t, addr[1], addr[0])
	bad := flood.seal(head(udSend, 1), content(100, 1))
	bad[len(bad)-1] ^= 1
	await.Until(t, "the buffer of strangers is full", func() bool {
		for range 100 {
			flood.send(bad)
		}
		n, _ := mmsg.Dropped(l.group.strangers)
		return n > 0
	})
	peer.send(peer.seal(head(writeOnly, 7), content(8, 7)))
	await.Until(t, "the peer's datagram is in its socket", func() bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(l.receiver), Events: unix.POLLIN}}, 0)
		return n == 1
	})
	stopped(t, h)
	_, full := h.receiver.step()
	require.False(t, full)
	got := h.next()
	require.Equal(t, uint32(7), packet.ParseBTH((*[packet.BTHSize]byte)(got.head)).PSN)
	r := h.Stats().Received
	require.Zero(t, r.KernelDropped)
	require.NotZero(t, r.KernelDroppedStrangers)
	require.Zero(t, r.Dropped[BadICRC], "the peer does not wait for any stranger")
	for range 3 * strangersTurn { // strangers have their turns
		h.receiver.step()
	}
	require.NotZero(t, h.Stats().Received.Dropped[BadICRC])
}

// Strangers whose datagrams are useless are not served for a while; a good packet among them
// arrives all the same, and the counts say whose datagrams were dropped.
func TestStrangersThatWasteTimeRest(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h, _ := screened(t, Config{}, addr[0])
	h.receiver.limits.waste = budget.NewBucket(budget.Rate{PerSecond: 1000, Burst: 20})
	flood := newForeigner(t, addr[1], addr[0])
	good := flood.seal(head(udSend, 9), content(8, 1))
	bad := append([]byte(nil), good...)
	bad[len(bad)-1] ^= 1
	for range 100 {
		flood.send(bad)
	}
	flood.send(good)
	require.NoError(t, h.Start(enginePort{h}))
	require.Equal(t, good[:len(good)-12], h.next().head)
	await.Until(t, "the others are dropped", func() bool { return h.Stats().Received.DroppedStrangers[BadICRC] == 100 })
	r := h.Stats().Received
	require.Equal(t, uint64(100), r.Dropped[BadICRC])
	require.NotZero(t, r.Rests)
	require.Equal(t, 1, h.receiver.limits.sources.take())
	require.Zero(t, h.receiver.limits.sources.take())
}

// An address that sends more to queue pair 1 than it may leaves the budgets of others as they are.
func TestManagementHasABudget(t *testing.T) {
	addr := freeport.Loopback(t, 4)
	h := newHost(t, Config{})
	h.receiver.limits.management = budget.NewSources(budget.Rate{PerSecond: 1e-9, Burst: 10}, budget.Rate{PerSecond: 1e-9, Burst: 15})
	require.NoError(t, h.Start(enginePort{h}))
	require.NoError(t, h.AddAddress(addr[0]))
	toQP1 := func(s *foreigner, psn uint32) []byte {
		b := head(udSend, psn)
		binary.BigEndian.PutUint32(b[4:], managementQPN)
		return s.seal(b, content(8, 1))
	}
	send := func(a netip.Addr, n int) (taken int) {
		t.Helper()
		s := newForeigner(t, a, addr[0])
		for i := range n {
			s.send(toQP1(s, uint32(i)))
		}
		s.send(s.seal(head(udSend, 0x777), nil))
		for {
			if got := h.next(); string(got.head) == string(head(udSend, 0x777)) {
				return taken
			}
			taken++
		}
	}
	require.Equal(t, 10, send(addr[1], 50))
	require.Equal(t, 5, send(addr[2], 5))
	require.Zero(t, send(addr[3], 5), "strangers have no more together")
	require.Equal(t, uint64(45), h.Stats().Received.DroppedStrangers[OverBudget])
	h.to(addr[0], addr[3])
	require.Equal(t, 10-5, send(addr[3], 20), "an address that this engine has asked for does not count among strangers")
}

// No other program gets the port of an address, although its sockets are a group.
func TestGroupIsNotShared(t *testing.T) {
	a := freeport.Loopback(t, 1)[0]
	s, err := OpenSockets(a, 1)
	require.NoError(t, err)
	defer s.Close()
	require.Len(t, s.Group, groupSize)
	_, err = OpenSockets(a, 1)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	first := s.Receive
	require.NotContains(t, s.Group, first)
}

// A carrier without a group works: where the kernel has no programs, and with sockets that
// another program has made.
func TestNoGroup(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{})
	s, err := OpenSockets(addr[0], 1)
	require.NoError(t, err)
	closeAll(s.Group)
	s.Group = nil
	require.NoError(t, h.AddSockets(s))
	l := (*h.locals.Load())[0]
	require.True(t, l.group.screened)
	f := newForeigner(t, addr[1], addr[0])
	for n := range 64 {
		f.send(make([]byte, n)) // the filter of the socket drops these
	}
	h.to(addr[0], addr[1])
	f.send(f.seal(head(writeOnly, 1), content(3, 1)))
	require.Equal(t, content(3, 1), h.next().payload)
	await.Until(t, "the others are dropped", func() bool { return h.Stats().Received.KernelDropped == 64 })
	require.Zero(t, h.Stats().Received.Dropped)
}

// Hosts that become known one after the other, as in a rack that starts, get far fewer programs than there
// are hosts. All of them are served from the first moment on, and as peers when it is quiet again.
func TestManyNewcomersGetFewPrograms(t *testing.T) {
	const newcomers = 100
	h, l := screened(t, Config{}, freeport.Loopback(t, 1)[0])
	peers := freeport.Loopback(t, newcomers)
	now := time.Unix(1000, 0)
	arrives := func(a netip.Addr) (n [classes]int) {
		s := newForeigner(t, a, l.plain)
		s.send(s.seal(head(acknowledge, 1), nil))
		require.NoError(t, s.Close())
		return arrival(t, l)
	}
	known, asStranger := [classes]int{fromKnown: 1}, [classes]int{fromStranger: 1}
	for i, a := range peers {
		_, err := h.paths.hold(key{local: l.number, remote: a.As16(), hops: defaultHops}, l)
		require.NoError(t, err)
		h.screenNow(now)
		now = now.Add(time.Millisecond)
		got := arrives(a)
		if i < 2 {
			require.Equal(t, known, got, "%d", i)
		} else {
			require.Contains(t, [][classes]int{known, asStranger}, got, "%d", i)
		}
	}
	require.LessOrEqual(t, h.screening.programs, uint64(9), "the kernel made programs as often")
	require.Equal(t, asStranger, arrives(peers[newcomers-1]))
	require.Equal(t, known, arrives(peers[0]))

	now = now.Add(h.screening.wait(now))
	h.screenNow(now)
	require.Equal(t, known, arrives(peers[newcomers-1]))
	require.Equal(t, asStranger, arrives(freeport.Loopback(t, 1)[0]), "who may become known soon")
	now = now.Add(h.screening.wait(now))
	h.screenNow(now)
	require.Zero(t, h.screening.wait(now), "nothing is left to do")
	require.Equal(t, known, arrives(peers[newcomers-1]))
	require.Equal(t, [classes]int{unfit: 1}, arrives(freeport.Loopback(t, 1)[0]))
}

// An address that becomes known after a quiet time is known to the kernel at once, and a local address that
// is added while programs are open has an open one.
func TestScreening(t *testing.T) {
	h, _ := screened(t, Config{}, freeport.Loopback(t, 1)[0])
	s, now := &h.screening, time.Unix(1000, 0)
	decide := func(newcomers uint64, after time.Duration) bool {
		now = now.Add(after)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.decide(newcomers, now)
	}
	for n := range uint64(3) {
		require.True(t, decide(n+1, screenQuiet))
		require.False(t, s.open)
	}
	require.False(t, decide(3, 0))
	require.True(t, decide(4, screenQuiet-1))
	require.True(t, s.open)
	require.NoError(t, h.AddAddress(freeport.Loopback(t, 1)[0]))
	l := (*h.locals.Load())[1]
	far := newForeigner(t, freeport.Loopback(t, 1)[0], l.plain)
	far.send(far.seal(head(acknowledge, 1), nil))
	require.Equal(t, [classes]int{fromStranger: 1}, arrival(t, l))
	require.True(t, decide(5, 0), "as many as since the programs are open")
	require.False(t, decide(6, 0))
	require.True(t, decide(6, screenQuiet), "it has waited long enough")
	require.True(t, s.open)
	require.True(t, decide(6, screenQuiet), "it is quiet")
	require.False(t, s.open)
}
