//go:build linux && (amd64 || arm64)

package roce

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A foreigner is a UDP socket from which a test sends any bytes to a carrier.
type foreigner struct {
	*net.UDPConn
	t    testing.TB
	to   netip.AddrPort
	flow packet.Flow
}

func newForeigner(t testing.TB, from, to netip.Addr) *foreigner {
	t.Helper()
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0)))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	s := &foreigner{UDPConn: conn, t: t, to: netip.AddrPortFrom(to, packet.Port)}
	s.flow = packet.MakeFlow(conn.LocalAddr().(*net.UDPAddr).AddrPort(), s.to)
	return s
}

// send sends bytes as they are.
func (s *foreigner) send(b []byte) {
	s.t.Helper()
	_, err := s.WriteToUDPAddrPort(b, s.to)
	require.NoError(s.t, err)
}

// seal returns a packet with an ICRC.
func (s *foreigner) seal(head, payload []byte) []byte {
	b := append(append([]byte(nil), head...), payload...)
	pad := -len(b) & 3
	b = append(b, make([]byte, pad+packet.ICRCSize)...)
	b[1] |= byte(pad) << 4
	s.flow.Seal(b, 0)
	return b
}

// Each way of being no packet is counted, and a good packet after it arrives.
func TestHostileDatagrams(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	h := startHost(t, Config{Allowed: []netip.Prefix{netip.PrefixFrom(addr[1], 32)}, unscreened: true}, addr[0])
	s, foreign := newForeigner(t, addr[1], addr[0]), newForeigner(t, addr[2], addr[0])
	h.to(addr[0], addr[1])
	good := s.seal(head(writeOnly, 1), content(100, 1))
	with := func(change func(b []byte) []byte) []byte {
		b := change(append([]byte(nil), good...))
		if len(b) >= 16 && len(b)%4 == 0 && len(b) <= packet.MaxPacket {
			s.flow.Seal(b, 0)
		}
		return b
	}
	byte0 := func(o packet.Opcode, pad byte) func(b []byte) []byte {
		return func(b []byte) []byte { b[0], b[1] = byte(o), b[1]&^0x30|pad<<4; return b }
	}
	for name, c := range map[string]struct {
		b    []byte
		from *foreigner
		why  Reason
	}{
		"empty":                       {nil, s, BadLength},
		"15 bytes":                    {good[:15], s, BadLength},
		"no multiple of 4":            {good[:len(good)-1], s, BadLength},
		"longer than any packet":      {make([]byte, packet.MaxPacket+4), s, BadLength},
		"64 KiB":                      {make([]byte, 65507), s, BadLength},
		"headers are cut":             {with(func(b []byte) []byte { return b[:20] }), s, BadLength},
		"headers without payload":     {with(byte0(acknowledge, 0)), s, BadLength},
		"only pad bytes":              {with(func(b []byte) []byte { return byte0(writeMiddle, 3)(b[:16]) }), s, BadLength},
		"payload longer than MTU":     {with(func(b []byte) []byte { return byte0(writeMiddle, 0)(append(b, make([]byte, 4000)...)) }), s, BadLength},
		"unknown opcode":              {with(byte0(0xff, 0)), s, UnknownOpcode},
		"reliable datagram":           {with(byte0(0x40, 0)), s, UnknownOpcode},
		"version 1":                   {with(func(b []byte) []byte { b[1] |= 1; return b }), s, BadVersion},
		"another partition":           {with(func(b []byte) []byte { b[3] = 0xfe; return b }), s, BadPKey},
		"wrong ICRC":                  {append(append([]byte(nil), good[:len(good)-1]...), good[len(good)-1]^1), s, BadICRC},
		"ICRC of another address":     {foreign.seal(head(writeOnly, 1), nil), s, BadICRC},
		"a stranger that may not":     {foreign.seal(head(writeOnly, 1), nil), foreign, NotAllowed},
		"random bytes, not allowed":   {content(64, 9), foreign, NotAllowed},
		"all bytes of a packet are 0": {make([]byte, 64), s, BadPKey},
	} {
		before := h.Stats().Received
		c.from.send(c.b)
		s.send(good)
		got := h.next()
		require.Equal(t, content(100, 1), got.payload, name)
		before.Dropped[c.why]++
		// On a busy machine the kernel may deliver the other datagram later.
		await.Until(t, "it is dropped: "+name, func() bool {
			return h.Stats().Received.Dropped == before.Dropped
		}, func() any { return h.Stats() })
	}
	for r := range Reasons {
		assert.NotEmpty(t, r.String())
	}
}

// Packets of connections come from addresses to which this engine has requested a path, because
// a connected queue pair holds its path. A stranger's packets reach no queue pair but as datagrams.
func TestStrangersHaveNoConnections(t *testing.T) {
	for _, unscreened := range []bool{true, false} {
		addr := freeport.Loopback(t, 2)
		h := startHost(t, Config{unscreened: unscreened}, addr[0])
		s := newForeigner(t, addr[1], addr[0])
		var connected uint64
		sendAll := func() {
			for _, o := range opcodes() {
				if o.Service() != packet.UD {
					s.send(s.seal(head(o, 1), nil))
					connected++
				}
			}
			s.send(s.seal(head(udSend, 2), nil))
		}
		sendAll()
		require.Equal(t, head(udSend, 2), h.next().head)
		dropped := func() uint64 {
			r := h.Stats().Received
			return r.DroppedStrangers[NotAsked] + r.KernelUnfit
		}
		await.Until(t, "all are counted", func() bool { return dropped() == connected })
		// The answer to a stranger is no connection, whatever its traffic class is.
		_, err := h.FindOnce(addressOf(addr[1], 0x20, 9))
		require.NoError(t, err)
		sendAll()
		require.Equal(t, head(udSend, 2), h.next().head)
		await.Until(t, "all are counted", func() bool { return dropped() == connected })

		_, err = h.Hold(addressOf(addr[1], 0x20, 9))
		require.NoError(t, err)
		for _, o := range opcodes() {
			s.send(s.seal(head(o, 1), nil))
			require.Equal(t, head(o, 1), h.next().head, "%v", o)
		}
		require.Equal(t, connected, dropped())
	}
}

// The membership bit of the P_Key does not count.
func TestPartialMembership(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{}, addr[0])
	s := newForeigner(t, addr[1], addr[0])
	h.to(addr[0], addr[1])
	b := s.seal(head(writeOnly, 1), nil)
	b[2] = 0x7f
	s.flow.Seal(b, 0)
	s.send(b)
	require.Equal(t, byte(0x7f), h.next().head[2])
}

// Datagrams of every length with random bytes do no harm; those that begin like packets
// neither.
func TestEveryLength(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{unscreened: true}, addr[0])
	s := newForeigner(t, addr[1], addr[0])
	h.to(addr[0], addr[1])
	rng := rand.New(rand.NewPCG(1, 2))
	known := opcodes()
	sealed := uint64(0)
	for n := range packet.MaxPacket + 40 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if n >= 16 && rng.IntN(2) == 0 {
			b[0], b[1], b[2], b[3] = byte(known[rng.IntN(len(known))]), b[1]&0x30, 0xff, 0xff
			if n%4 == 0 && n <= packet.MaxPacket {
				s.flow.Seal(b, 0)
				sealed++
			}
		}
		s.send(b)
		if n%64 == 63 { // so that the socket's buffer is never full
			await.Until(t, "all are received", func() bool { return h.Addresses()[0].Received == uint64(n+1) })
			for {
				if _, ok := h.took(); !ok {
					break
				}
			}
		}
	}
	// A datagram is counted as received before it is judged, and packets once for each step.
	var r ReceiveStats
	await.Until(t, "all are judged", func() bool {
		r = h.Stats().Received
		judged := r.Packets
		for _, n := range r.Dropped {
			judged += n
		}
		return judged == packet.MaxPacket+40
	})
	assert.Greater(t, r.Packets, sealed/2)
	assert.Zero(t, r.KernelDropped)
}

// A mark of congestion becomes FECN. Bits that others have set stay.
func TestMarks(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{}, addr[0])
	s := newForeigner(t, addr[1], addr[0])
	h.to(addr[0], addr[1])
	raw, err := s.SyscallConn()
	require.NoError(t, err)
	tos := func(v int) {
		require.NoError(t, raw.Control(func(fd uintptr) {
			assert.NoError(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, v))
		}))
	}
	for v, want := range map[int]bool{0: false, 1: false, 2: false, 3: true, 0x6b: true, 0x68: false} {
		tos(v)
		s.send(s.seal(head(writeOnly, 1), nil))
		require.Equal(t, want, packet.ParseBTH((*[packet.BTHSize]byte)(h.next().head)).FECN, "type of service %#x", v)
	}
	require.Equal(t, uint64(2), h.Stats().Received.Marked)
}

// A carrier with Config.ECT sends ECT(0), and the traffic class and hop limit of the path.
func TestTypeOfService(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	for _, ect := range []bool{false, true} {
		a, b := startHost(t, Config{ECT: ect}, addr[0]), startHost(t, Config{}, addr[1])
		path, err := a.Hold(addressOf(addr[1], 0x6b, 9))
		require.NoError(t, err)
		a.send(path.Number, head(udSend, 1), nil)
		grh := b.next().payload
		want := byte(0x68)
		if ect {
			want |= 2
		}
		assert.Equal(t, want, grh[21], "type of service")
		assert.Equal(t, byte(9), grh[28], "TTL")
		assert.Zero(t, b.Stats().Received.Marked)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
}

// A packet with another identification than 0 is accepted, and counted as weak.
func TestIdentification(t *testing.T) {
	addr := freeport.Loopback(t, 2)
	h := startHost(t, Config{}, addr[0])
	s := newForeigner(t, addr[1], addr[0])
	b := s.seal(head(udSend, 1), content(8, 1))
	s.flow.Seal(b, 0x1234)
	s.send(b)
	grh := h.next().payload
	require.Equal(t, []byte{0x12, 0x34}, grh[24:26])
	require.Zero(t, checksum(grh[20:40]), "checksum of the header with its checksum")
	require.Equal(t, uint64(1), h.Stats().Received.Weak)
}

// Good packets from very many addresses end no path that is held, and fill only a part of the table.
func TestStrangersAreBounded(t *testing.T) {
	addr := freeport.Loopback(t, 3)
	h := startHost(t, Config{Strangers: 50}, addr[0])
	held := h.to(addr[0], addr[1])
	for i, from := range append(freeport.Loopback(t, 150), freeport.Loopback(t, 150)...) {
		s := newForeigner(t, from, addr[0])
		s.send(s.seal(head(udSend, uint32(i)), nil))
		h.next()
		require.NoError(t, s.Close())
		require.LessOrEqual(t, h.Stats().Paths, 51)
	}
	require.Equal(t, 51, h.Stats().Paths)
	require.Equal(t, uint64(300), h.Stats().Received.Strangers)
	s := newForeigner(t, addr[1], addr[0])
	s.send(s.seal(head(writeOnly, 1), nil))
	require.Equal(t, held.Number, h.next().path)
}

// The carrier goes on whatever a datagram holds, and takes it only if it is a packet.
func FuzzDatagram(f *testing.F) {
	addr := freeport.Loopback(f, 2)
	h := startHost(f, Config{unscreened: true}, addr[0])
	s := newForeigner(f, addr[1], addr[0])
	h.to(addr[0], addr[1])
	marker := s.seal(head(acknowledge, 0x777777), nil)
	f.Add(marker, false)
	f.Add(s.seal(head(writeOnly, 1), content(40, 1)), true)
	f.Add(s.seal(head(udSend, 1), content(7, 1)), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		h.t, s.t = t, t
		if len(b) > 65000 {
			return
		}
		if seal && len(b) >= 16 && len(b) <= packet.MaxPacket && len(b)%4 == 0 {
			s.flow.Seal(b, 0)
		}
		s.send(b)
		s.send(marker)
		for range 2 {
			got := h.next()
			require.Len(t, got.head, packet.Opcode(got.head[0]).Info().HeaderSize)
			if string(got.head) == string(marker[:len(marker)-4]) {
				_, _ = h.took()
				return
			}
			require.True(t, packet.Opcode(got.head[0]).Info().Known)
		}
		require.Fail(t, "the marker is lost")
	})
}
