package tun

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Check accepts what a kernel made, and allocates nothing.
func TestCheckAccepts(t *testing.T) {
	for _, p := range packets {
		t.Run(p.name, func(t *testing.T) {
			b := snapshot(t, p.bytes, p.length)
			require.NoError(t, Check(b, p.length))
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				if Check(b, p.length) != nil {
					t.Fail()
				}
				_, _ = Source(b)
			}))
		})
	}
}

// Indices of packets.
const (
	syn4, tso4, plain4, udp4, fragment4, uso4, syn6, tso6, fragment6, uso6 = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
)

// lies are changes of a real packet, each with the sentence that it gets.
var lies = []struct {
	name   string
	packet int
	change func(h *Header, p []byte, length *int)
	says   string
}{
	{"empty", plain4, func(_ *Header, _ []byte, n *int) { *n = 0 }, "packet of 0 bytes; it is 20 to 65535"},
	{"negative", plain4, func(_ *Header, _ []byte, n *int) { *n = -5 }, "packet of -5 bytes; it is 20 to 65535"},
	{"shorter than an IP header", plain4, func(_ *Header, _ []byte, n *int) { *n = 19 }, "packet of 19 bytes; it is 20 to 65535"},
	{"too long", plain4, func(_ *Header, _ []byte, n *int) { *n = 65536 }, "packet of 65536 bytes; it is 20 to 65535"},
	{"more to judge than there is", plain4, func(_ *Header, _ []byte, n *int) { *n = 100 }, "62 bytes of header and packet to judge; 110 are needed"},
	{"version", plain4, func(_ *Header, p []byte, _ *int) { p[0] = 0x55 }, "IP version 5; it is 4 or 6"},
	{"short IPv4 header", plain4, func(_ *Header, p []byte, _ *int) { p[0] = 0x44 }, "IPv4 header of 16 bytes; it is 20 to 60, in a packet of 52 bytes"},
	{"IPv4 header longer than the packet", plain4, func(_ *Header, p []byte, _ *int) { p[0] = 0x4f }, "IPv4 header of 60 bytes; it is 20 to 60, in a packet of 52 bytes"},
	{"IPv4 says more", plain4, func(_ *Header, p []byte, _ *int) { p[3]++ }, "IPv4 packet of 52 bytes says it has 53"},
	{"IPv4 says less", tso4, func(_ *Header, p []byte, _ *int) { p[2] = 0 }, "IPv4 packet of 21772 bytes says it has 12"},
	{"IPv6 without its header", syn6, func(_ *Header, _ []byte, n *int) { *n = 39 }, "IPv6 packet of 39 bytes; its header has 40"},
	{"IPv6 says more", syn6, func(_ *Header, p []byte, _ *int) { p[4] = 1 }, "IPv6 packet with a payload of 40 bytes says it has 296"},
	{"IPv6 jumbogram", tso6, func(_ *Header, p []byte, _ *int) { p[4], p[5] = 0, 0 }, "payload of 28592 bytes says it has 0"},
	{"flags", plain4, func(h *Header, _ []byte, _ *int) { h.Flags = 4 }, "flags 0x04; those allowed are 0x03"},
	{"hdr_len", plain4, func(h *Header, _ []byte, _ *int) { h.Length = 53 }, "hdr_len 53 in a packet of 52 bytes"},
	{"checksum in the IP header", syn4, func(h *Header, _ []byte, _ *int) { h.ChecksumStart = 19 }, "csum_start 19; the IP header ends at 20"},
	{"checksum in the IPv6 header", syn6, func(h *Header, _ []byte, _ *int) { h.ChecksumStart = 20 }, "csum_start 20; the IP header ends at 40"},
	{"checksum in the options", syn4, func(_ *Header, p []byte, _ *int) { p[0] = 0x46 }, "csum_start 20; the IP header ends at 24"},
	{"checksum at the end", syn4, func(h *Header, _ []byte, _ *int) { h.ChecksumStart = 60 }, "a checksum that ends at 78 (csum_start 60, csum_offset 16) in a packet of 60 bytes"},
	{"checksum over the end by one", syn4, func(h *Header, _ []byte, _ *int) { h.ChecksumOffset = 39 }, "a checksum that ends at 61"},
	{"checksum far away", syn4, func(h *Header, _ []byte, _ *int) { h.ChecksumStart, h.ChecksumOffset = 65535, 65535 }, "a checksum that ends at 131072"},
	{"gso_size without a type", syn4, func(h *Header, _ []byte, _ *int) { h.Segment = 1000 }, "gso_size 1000, but gso_type none"},
	{"TCPv6 before IPv4", tso4, func(h *Header, _ []byte, _ *int) { h.GSO = TCPv6 }, "gso_type 0x04 before a packet of IPv4"},
	{"TCPv4 before IPv6", tso6, func(h *Header, _ []byte, _ *int) { h.GSO = TCPv4 }, "gso_type 0x01 before a packet of IPv6"},
	{"old UDP fragmentation", uso4, func(h *Header, _ []byte, _ *int) { h.GSO = 3 }, "gso_type 0x03 before a packet of IPv4"},
	{"ECN of UDP", uso4, func(h *Header, _ []byte, _ *int) { h.GSO |= FlagECN }, "gso_type 0x85 before a packet of IPv4"},
	{"ECN of nothing", plain4, func(h *Header, _ []byte, _ *int) { h.GSO = FlagECN }, "gso_type 0x80 before a packet of IPv4"},
	{"TCP before UDP", uso4, func(h *Header, _ []byte, _ *int) { h.GSO = TCPv4 }, "gso_type 0x01 before IP protocol 17; it is for TCP, 6"},
	{"UDP before TCP", tso6, func(h *Header, _ []byte, _ *int) { h.GSO = UDP }, "gso_type 0x05 before IP protocol 6; it is for UDP, 17"},
	{"segments without a checksum", tso4, func(h *Header, _ []byte, _ *int) { h.Flags = 0 }, "segmentation needs flag 0x01"},
	{"segments of a verified packet", tso4, func(h *Header, _ []byte, _ *int) { h.Flags = DataValid }, "flags 0x02; segmentation needs flag 0x01"},
	{"segments with another checksum", tso4, func(h *Header, _ []byte, _ *int) { h.ChecksumOffset = 6 }, "csum_start 20 and csum_offset 6; the checksum of this TCP is at 20 and 16"},
	{"segments with a checksum elsewhere", uso6, func(h *Header, _ []byte, _ *int) { h.ChecksumStart = 48 }, "csum_start 48 and csum_offset 6; the checksum of this UDP is at 40 and 6"},
	{"segments of a fragment", tso4, func(_ *Header, p []byte, _ *int) { p[6] = 0x20 }, "before a fragment of IPv4 (flags and offset 0x2000)"},
	{"segments of a later fragment", tso4, func(_ *Header, p []byte, _ *int) { p[7] = 1 }, "before a fragment of IPv4 (flags and offset 0x4001)"},
	{"segments of a fragment of IPv6", tso6, func(_ *Header, p []byte, _ *int) { p[6] = 44 }, "before IP protocol 44; it is for TCP, 6"},
	{"extension headers without end", tso6, func(_ *Header, p []byte, _ *int) { p[6], p[41] = 0, 200 }, "whose IP headers end at 1648; of 28632 bytes, 120 are judged"},
	{"TCP header beyond what is judged", tso6, func(_ *Header, p []byte, _ *int) { p[6], p[40], p[41] = 60, 6, 7 }, "csum_start 40 and csum_offset 16; the checksum of this TCP is at 104 and 16"},
	{"TCP header not wholly judged", tso6, func(h *Header, p []byte, _ *int) { p[6], p[40], p[41], h.ChecksumStart = 60, 6, 7, 104 }, "TCP header at 104; of a packet of 28632 bytes, 120 are judged"},
	{"short TCP header", tso4, func(_ *Header, p []byte, _ *int) { p[32] = 0x40 }, "TCP header of 16 bytes; it has at least 20"},
	{"TCP header longer than the packet", tso4, func(_ *Header, p []byte, n *int) { *n, p[2], p[3] = 70, 0, 70; p[32] = 0xf0 }, "headers of 80 bytes in a packet of 70"},
	{"gso_size 0", tso4, func(h *Header, _ []byte, _ *int) { h.Segment = 0 }, "gso_size 0; for TCP it is at least 8"},
	{"gso_size 7", tso6, func(h *Header, _ []byte, _ *int) { h.Segment = 7 }, "gso_size 7; for TCP it is at least 8"},
	{"gso_size 0 of UDP", uso4, func(h *Header, _ []byte, _ *int) { h.Segment = 0 }, "gso_size 0; for UDP it is at least 1"},
	{"too many segments of UDP", uso4, func(h *Header, _ []byte, _ *int) { h.Segment = 156 }, "gso_size 156 makes 129 segments of 20000 bytes of UDP; the limit is 128"},
	{"segments of nothing", tso4, func(h *Header, p []byte, n *int) { *n, p[2], p[3], h.Length = 52, 0, 52, 52 }, "gso_size 1448 before a packet without payload"},
}

// Check refuses every lie with a sentence that names the value and the limit.
func TestCheckRefuses(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			real := packets[lie.packet]
			length, b := real.length, snapshot(t, real.bytes, real.length)
			h := Parse(b)
			lie.change(&h, b[HeaderSize:], &length)
			h.Put(b)
			require.ErrorContains(t, Check(b, length), lie.says)
		})
	}
}

// Headers that are close to wrong ones, but right.
func TestCheckLimits(t *testing.T) {
	for _, row := range []struct {
		name   string
		packet int
		change func(h *Header, p []byte)
	}{
		{"hdr_len is the packet", tso4, func(h *Header, _ []byte) { h.Length = 21772 }},
		{"ECN", tso4, func(h *Header, _ []byte) { h.GSO |= FlagECN }},
		{"ECN over IPv6", tso6, func(h *Header, _ []byte) { h.GSO |= FlagECN }},
		{"the smallest segments of TCP", tso4, func(h *Header, _ []byte) { h.Segment = 8 }},
		{"the most segments of UDP", uso4, func(h *Header, _ []byte) { h.Segment = 157 }},
		{"one segment", uso6, func(h *Header, _ []byte) { h.Segment = 65535 }},
		{"checksum up to the end", syn4, func(h *Header, _ []byte) { h.ChecksumOffset = 38 }},
		{"checksum of a tunnel's inner packet", syn6, func(h *Header, _ []byte) { h.ChecksumStart = 60 }},
		{"verified", plain4, func(h *Header, _ []byte) { h.Flags = DataValid }},
		{"an extension header", tso6, func(h *Header, p []byte) {
			copy(p[48:], p[40:72])
			p[6], p[40], p[41], h.ChecksumStart = destinationOptions, protocolTCP, 0, 48
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			real := packets[row.packet]
			b := snapshot(t, real.bytes, real.length)
			h := Parse(b)
			row.change(&h, b[HeaderSize:])
			h.Put(b)
			require.NoError(t, Check(b, real.length))
		})
	}
}

// FuzzCheck holds what Check accepts against the kernel's own conditions (virtio_net_hdr_to_skb),
// written a second time.
func FuzzCheck(f *testing.F) {
	for _, p := range packets {
		f.Add(snapshot(f, p.bytes, p.length), p.length)
	}
	for _, lie := range lies {
		real := packets[lie.packet]
		length, b := real.length, snapshot(f, real.bytes, real.length)
		h := Parse(b)
		lie.change(&h, b[HeaderSize:], &length)
		h.Put(b)
		f.Add(b, length)
	}
	f.Fuzz(func(t *testing.T, b []byte, length int) {
		if Check(b, length) != nil {
			return
		}
		h, p := Parse(b), b[HeaderSize:]
		from, ok4 := Source(b)
		to, ok6 := Destination(b)
		require.True(t, ok4 && ok6 && from.BitLen() == to.BitLen(), "an accepted packet has addresses")
		if from.Is4() {
			require.Equal(t, length, int(binary.BigEndian.Uint16(p[2:])))
		} else {
			require.Equal(t, length, header6+int(binary.BigEndian.Uint16(p[4:])))
		}
		require.LessOrEqual(t, int(h.Length), length)
		if h.Flags&NeedsChecksum != 0 {
			require.GreaterOrEqual(t, int(h.ChecksumStart), 20*(1+from.BitLen()/128))
			require.LessOrEqual(t, int(h.ChecksumStart)+int(h.ChecksumOffset)+2, length)
		}
		switch h.GSO &^ FlagECN {
		case None:
			require.Zero(t, h.GSO)
		case TCPv4, TCPv6, UDP:
			require.NotZero(t, h.Flags&NeedsChecksum)
			require.NotZero(t, h.Segment)
			require.Equal(t, h.GSO&^FlagECN == TCPv4 || h.GSO == UDP && p[0]>>4 == 4, from.Is4())
		default:
			t.Fatalf("gso_type 0x%02x", h.GSO)
		}
	})
}
