//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/nicless/nicless/internal/tun"
)

// long returns a packet of UDP of so many bytes with its IP header, which may not be cut on the way.
func long(from, to netip.Addr, length int) []byte {
	headers := 28
	if from.Is6() {
		headers = 48
	}
	b := packet(from, to, length-headers, 7)
	if from.Is4() {
		p := b[HeaderSize:]
		p[6], p[10], p[11] = dontFragment, 0, 0
		be.PutUint16(p[10:], checksum(p[:20]))
	}
	return b
}

// A packet that is longer than the MTU of its peer is answered by an ICMP error with this MTU, and shorter
// ones arrive. The peer's answers are not limited.
func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		from, to   string
		mtu, limit int
	}{
		{"10.1.0.1", "10.1.0.2", 1500, 1500},
		{"fd00::1", "fd00::2", 1500, 1500},
		{"10.1.0.1", "10.1.0.2", 68, leastMTU4},
		{"fd00::1", "fd00::2", 68, leastMTU6},
	} {
		socket := serve(t)
		a := start(t, socket, c.from)
		b := start(t, socket, c.to, func(cfg *Config) { cfg.MTU = c.mtu })
		a.meets(b)
		b.meets(a)
		send := func(from *node, to netip.Addr, p []byte) {
			t.Helper()
			poll(t, "the interface reads", func() bool {
				select {
				case from.wire.in <- p:
					return true
				default:
					return false
				}
			}, func() any { return from.in.Stats() })
		}
		for _, odd := range []int{1, 2} {
			p := long(a.addr, b.addr, c.limit+odd)
			send(a, b.addr, p)
			got := a.gets()[HeaderSize:]
			require.Equal(t, c.limit, mtuOf(t, got, p[HeaderSize:], b.addr, a.addr))
			p = long(a.addr, b.addr, c.limit)
			send(a, b.addr, p)
			require.Equal(t, p, b.gets())
			p = long(b.addr, a.addr, 9000)
			send(b, a.addr, p)
			require.Equal(t, p, a.gets())
		}
		require.EqualValues(t, 2, a.in.Stats().Dropped)
		if a.addr.Is4() { // without DF
			a.sends(b.addr, 9000, 1)
			require.Equal(t, packet(a.addr, b.addr, 9000, 1), b.gets())
		}
	}
}

// mtuOf checks an ICMP error, and returns the MTU that is in it.
func mtuOf(t *testing.T, b, about []byte, from, to netip.Addr) int {
	t.Helper()
	if from.Is4() {
		h, err := icmp.ParseIPv4Header(b)
		require.NoError(t, err)
		require.Equal(t, []string{from.String(), to.String()}, []string{h.Src.String(), h.Dst.String()})
		require.Equal(t, len(b), h.TotalLen)
		m, err := icmp.ParseMessage(protocolICMP4, b[20:])
		require.NoError(t, err)
		require.Equal(t, []any{ipv4.ICMPTypeDestinationUnreachable, 4}, []any{m.Type, m.Code})
		require.Equal(t, about[:mostQuoted], m.Body.(*icmp.DstUnreach).Data)
		require.Zero(t, checksum(b[:20]))
		require.Zero(t, checksum(append(b[20:], 0)[:(len(b)-19)&^1]))
		return int(be.Uint16(b[26:]))
	}
	m, err := icmp.ParseMessage(protocolICMP6, b[40:])
	require.NoError(t, err)
	require.Equal(t, ipv6.ICMPTypePacketTooBig, m.Type)
	body := m.Body.(*icmp.PacketTooBig)
	require.Equal(t, about[:mostQuoted], body.Data)
	return body.MTU
}

// Of a packet that the peer's kernel cuts into segments, the segments must not be too long.
func TestTooLongSegments(t *testing.T) {
	from, to := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	for _, c := range []struct {
		kind    uint8
		segment uint16
		want    bool
	}{
		{tun.TCPv4, 1460, false}, {tun.TCPv4, 1461, true}, {tun.TCPv4 | tun.FlagECN, 1460, false},
		{tun.UDP, 1472, false}, {tun.UDP, 1473, true}, {tun.None, 0, true},
	} {
		b := long(from, to, 9000)
		tun.Header{Flags: tun.NeedsChecksum, GSO: c.kind, Segment: c.segment, ChecksumStart: 20}.Put(b)
		b[HeaderSize+20+offsetTCP] = 5 << 4
		require.Equal(t, c.want, tooLong(b, 1500), "%v", c)
		require.False(t, tooLong(b, 9000))
	}
	b := long(from, to, 9000)
	tun.Header{GSO: tun.TCPv4, Segment: 9000, ChecksumStart: 8995}.Put(b)
	require.False(t, tooLong(b, 1500))
}

// An answer that quotes an odd number of bytes has the checksum of one more, which is 0.
func TestAnswerOfOddLength(t *testing.T) {
	n := start(t, serve(t), "10.1.0.1")
	to := netip.MustParseAddr("10.1.0.9")
	n.sends(to, 3, 1)
	b := n.gets()[HeaderSize:]
	require.Len(t, b, 20+8+31)
	_, err := icmp.ParseMessage(protocolICMP4, b[20:])
	require.NoError(t, err)
	require.Zero(t, checksum(append(b[20:len(b):len(b)], 0)))
}
