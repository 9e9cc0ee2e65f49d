//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// answerable reports whether a packet gets an ICMP error: not if it may be one itself, if its source is no
// single host, or if it is to many. Of fragments of IPv4 the first is answered: in others, the kernel would
// take data for the ports of a program (RFC 1122, 3.2.2; RFC 4443, 2.4).
func answerable(packet []byte, to netip.Addr) bool {
	if to.IsMulticast() {
		return false
	}
	if to.Is4() {
		first := be.Uint16(packet[6:])&offsetOfFragment == 0
		return first && possible(netip.AddrFrom4([4]byte(packet[12:]))) && !isError4(packet)
	}
	return possible(netip.AddrFrom16([16]byte(packet[8:]))) && !isError6(packet)
}

// offsetOfFragment are the bits of a fragment's offset, in units of 8 bytes (RFC 791, 3.1).
const offsetOfFragment = 0x1fff

// isError4 reports whether a packet is an ICMP error, or may be one: it ends before the type.
func isError4(packet []byte) bool {
	at := int(packet[0]&15) * 4
	if packet[9] != protocolICMP4 {
		return false
	}
	if len(packet) <= at {
		return true
	}
	kind := ipv4.ICMPType(packet[at])
	return kind != ipv4.ICMPTypeEcho && kind != ipv4.ICMPTypeEchoReply
}

// isError6 reports whether a packet is an ICMPv6 error, or may be one: it ends before
// the type, is a fragment without it, or has more than mostHeaders6 extension headers.
func isError6(packet []byte) bool {
	next, at := packet[6], ipv6.HeaderLen
	for range mostHeaders6 {
		if next == protocolICMP6 {
			return len(packet) <= at || packet[at] < firstInformational
		}
		length, known := extension(next, packet[min(at, len(packet)):])
		if !known {
			return false
		}
		if next == headerFragment && be.Uint16(packet[at+2:])>>3 != 0 {
			return packet[at] == protocolICMP6
		}
		next, at = packet[at], at+length
	}
	return true
}

// extension returns the length of an extension header of IPv6; known is false if it is none, or cut.
func extension(kind byte, b []byte) (length int, known bool) {
	if len(b) < leastHeader6 {
		return 0, false
	}
	switch kind {
	case headerFragment:
		return leastHeader6, true
	case headerHops, headerRouting, headerOptions:
		return leastHeader6 * (1 + int(b[1])), true
	}
	return 0, false
}

// Extension headers of IPv6 (RFC 8200, 4), and how many are looked at: each may be there once, and options
// twice.
const (
	headerHops     = 0
	headerRouting  = 43
	headerFragment = 44
	headerOptions  = 60

	leastHeader6 = 8 // bytes
	mostHeaders6 = 6 // the protocol behind them is one
)

const firstInformational = 128 // types of ICMPv6 below are errors
