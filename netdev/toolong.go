//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"

	"github.com/nicless/nicless/internal/tun"
	"golang.org/x/net/ipv4"
)

// The least MTU that Linux believes an ICMP error (net.ipv4.route.min_pmtu), and that of IPv6 (RFC 8200, 5).
// Packets of this length go to a peer that announces less: the kernel would send no shorter ones.
const (
	leastMTU4 = 552
	leastMTU6 = 1280
)

// limitOf is how long packets to an address of a peer may be.
func limitOf(mtu int, to netip.Addr) int {
	if to.Is4() {
		return max(mtu, leastMTU4)
	}
	return max(mtu, leastMTU6)
}

// tooLong reports whether a packet is longer than a limit, and its sender is to send shorter ones: IPv4
// without DF is for those between to cut, and it goes on whole, because the peer's kernel takes it.
// b begins with the virtio header. Of a packet that is to be segmented, the segments count.
func tooLong(b []byte, limit int) bool {
	h, p := tun.Parse(b), b[HeaderSize:]
	if len(p) <= limit {
		return false
	}
	if p[0]>>4 == ipv4.Version && p[6]&dontFragment == 0 {
		return false
	}
	if h.GSO == tun.None {
		return true
	}
	start := int(h.ChecksumStart)
	headers := start + headerUDP
	if kind := h.GSO &^ tun.FlagECN; kind == tun.TCPv4 || kind == tun.TCPv6 {
		if len(p) <= start+offsetTCP {
			return false // the kernel sends no such packet
		}
		headers = start + int(p[start+offsetTCP]>>4)*4
	}
	return headers+int(h.Segment) > limit
}

// Places and lengths in headers of IPv4, TCP and UDP.
const (
	dontFragment = 0x40
	offsetTCP    = 12
	headerUDP    = 8
)
