//go:build linux && (amd64 || arm64)

package netdev

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

// ICMP errors are about no ICMP error, no fragment but the first, and no packet that is of no single host
// (RFC 1122, 3.2.2; RFC 4443, 2.4).
func TestAnswerable(t *testing.T) {
	from4, to4 := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	from6, to6 := netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	v4 := func(change func(p []byte)) []byte {
		b := packet(from4, to4, 1000, 1)[HeaderSize:]
		change(b)
		return b
	}
	// v6 has extension headers, and then ICMPv6 of a type.
	v6 := func(kind byte, next byte, headers ...[]byte) []byte {
		b := packet(from6, to6, 1000, 1)[HeaderSize:]
		at := 40
		b[6] = next
		for _, h := range headers {
			at += copy(b[at:], h)
		}
		b[at] = kind
		return b
	}
	options := func(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }
	fragment := func(next byte, offset byte) []byte { return []byte{next, 0, 0, offset, 0, 0, 0, 9} }
	for _, c := range []struct {
		about  string
		packet []byte
		to     netip.Addr
		want   bool // an answer
	}{
		{"UDP", v4(func([]byte) {}), to4, true},
		{"first fragment", v4(func(p []byte) { p[6] = 0x20 }), to4, true},
		{"second fragment", v4(func(p []byte) { p[6], p[7] = 0x20, 5 }), to4, false},
		{"from 0.0.0.0", v4(func(p []byte) { copy(p[12:], []byte{0, 0, 0, 0}) }), to4, false},
		{"from a multicast", v4(func(p []byte) { p[12] = 224 }), to4, false},
		{"from a broadcast", v4(func(p []byte) { copy(p[12:], []byte{255, 255, 255, 255}) }), to4, false},
		{"echo", v6(128, 58), to6, true},
		{"error", v6(1, 58), to6, false},
		{"error behind options", v6(1, 60, options(58)), to6, false},
		{"echo behind options", v6(128, 60, options(58)), to6, true},
		{"error behind 2 headers", v6(3, 0, options(43), options(58)), to6, false},
		{"error in a first fragment", v6(1, 44, fragment(58, 0)), to6, false},
		{"error in a second fragment", v6(1, 44, fragment(58, 8)), to6, false},
		{"UDP in a second fragment", v6(1, 44, fragment(17, 8)), to6, true},
		{"headers without end", v6(0, 0, bytes.Repeat(options(0), 100)), to6, false},
		{"a header that is cut", v6(0, 60, []byte{58, 255, 1, 4, 0, 0, 0, 0})[:44], to6, true},
		{"a header behind the end", v6(0, 60, []byte{58, 255, 1, 4, 0, 0, 0, 0}), to6, false},
		{"from ::", func() []byte { b := v6(128, 58); clear(b[8:24]); return b }(), to6, false},
		{"from ff02::1", func() []byte { b := v6(128, 58); b[8], b[9] = 0xff, 2; return b }(), to6, false},
	} {
		require.Equal(t, c.want, answerable(c.packet, c.to), c.about)
	}
}
