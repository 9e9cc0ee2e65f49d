package tun

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// packets are what Linux 6.18 gave to Read: the header, the headers of the packet, and the packet's length.
var packets = []struct {
	name     string
	bytes    string
	length   int
	header   Header
	from, to string
}{
	{"TCP, SYN: checksum missing",
		"01 00 0000 0000 1400 1000  4500003c64dd40004006b1420a4d08010a4d0802 a14aaedfb629e61900000000a002faf024cb0000020405b40402080aa59c2cd6000000000103030a", 60,
		Header{Flags: 1, ChecksumStart: 20, ChecksumOffset: 16}, "10.77.8.1", "10.77.8.2"},
	{"TCP, to be segmented",
		"01 01 3400 a805 1400 1000  450055 0c64fd400040065c520a4d08010a4d0802 a14aaedfb62a8fca536333bb8018003f799b00000101080aa59c2cdb346df1ff", 21772,
		Header{Flags: 1, GSO: TCPv4, Length: 52, Segment: 1448, ChecksumStart: 20, ChecksumOffset: 16}, "10.77.8.1", "10.77.8.2"},
	{"TCP, complete",
		"00 00 0000 0000 0000 0000  4500003400004000400616280a4d08010a4d0802 a14aaedfb657acdb536333bc8010003f1e6d00000101080aa59c2ce4346df209", 52,
		Header{}, "10.77.8.1", "10.77.8.2"},
	{"UDP: checksum missing",
		"01 00 0000 0000 1400 0600  4500005c608c40004011b5680a4d08010a4d0802 bc1b82f7004824f6", 92,
		Header{Flags: 1, ChecksumStart: 20, ChecksumOffset: 6}, "10.77.8.1", "10.77.8.2"},
	{"UDP, a fragment",
		"00 00 0000 0000 0000 0000  450005dc608d20004011cfe70a4d08010a4d0802 bc1b82f70bc0f8df", 1500,
		Header{}, "10.77.8.1", "10.77.8.2"},
	{"UDP, to be segmented",
		"01 05 1c00 e803 1400 0600  45004e3c57e600004011b02e0a4d08010a4d0802 97489cd44e2872d6", 20028,
		Header{Flags: 1, GSO: UDP, Length: 28, Segment: 1000, ChecksumStart: 20, ChecksumOffset: 6}, "10.77.8.1", "10.77.8.2"},
	{"TCP over IPv6, SYN: checksum missing",
		"01 00 0000 0000 2800 1000  60000adc00280640fd770000000000000000000000000001fd770000000000000000000000000002 a09e8ecdf828c25700000000a002fd20fb200000020405a00402080af999986d00000000", 80,
		Header{Flags: 1, ChecksumStart: 40, ChecksumOffset: 16}, "fd77::1", "fd77::2"},
	{"TCP over IPv6, to be segmented",
		"01 04 4800 9405 2800 1000  60000adc6fb00640fd770000000000000000000000000001fd770000000000000000000000000002 a09e8ecdf829b234afc9438a801800406aa900000101080af999986e2f88a2ad", 28632,
		Header{Flags: 1, GSO: TCPv6, Length: 72, Segment: 1428, ChecksumStart: 40, ChecksumOffset: 16}, "fd77::1", "fd77::2"},
	{"UDP over IPv6, a fragment",
		"00 00 0000 0000 0000 0000  60021b5105b02c40fd770000000000000000000000000001fd770000000000000000000000000002 1100000179f3043cc58d834f0bc018c0", 1496,
		Header{}, "fd77::1", "fd77::2"},
	{"UDP over IPv6, to be segmented",
		"01 05 3000 e803 2800 0600  600df8d14e281140fd770000000000000000000000000001fd770000000000000000000000000002 de0ddac84e28492c", 20048,
		Header{Flags: 1, GSO: UDP, Length: 48, Segment: 1000, ChecksumStart: 40, ChecksumOffset: 6}, "fd77::1", "fd77::2"},
}

// snapshot returns as many bytes of a packet as Check wants, with zeros for the payload.
func snapshot(t testing.TB, text string, length int) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	require.NoError(t, err)
	need := min(HeaderSize+length, SnapshotSize)
	require.LessOrEqual(t, len(b), need)
	return append(b, make([]byte, need-len(b))...)
}

func TestHeader(t *testing.T) {
	for _, p := range packets {
		t.Run(p.name, func(t *testing.T) {
			b := snapshot(t, p.bytes, p.length)
			assert.Equal(t, p.header, Parse(b))
			var out [HeaderSize]byte
			p.header.Put(out[:])
			assert.Equal(t, b[:HeaderSize], out[:])
			from, ok := Source(b)
			assert.True(t, ok)
			assert.Equal(t, netip.MustParseAddr(p.from), from)
			to, ok := Destination(b)
			assert.True(t, ok)
			assert.Equal(t, netip.MustParseAddr(p.to), to)
		})
	}
}

func TestAddressOfAShortPacket(t *testing.T) {
	for _, p := range packets {
		b := snapshot(t, p.bytes, p.length)
		whole := HeaderSize + header4
		if b[HeaderSize]>>4 == 6 {
			whole = HeaderSize + header6
		}
		for n := range whole {
			_, ok := Source(b[:n])
			assert.False(t, ok, "%d bytes", n)
			_, ok = Destination(b[:n])
			assert.False(t, ok, "%d bytes", n)
		}
		_, ok := Source(b[:whole])
		assert.True(t, ok)
	}
	b := make([]byte, 100)
	b[HeaderSize] = 5 << 4
	_, ok := Source(b)
	assert.False(t, ok)
}
