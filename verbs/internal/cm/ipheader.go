//go:build linux && (amd64 || arm64)

package cm

import "net/netip"

// putIPHeader writes the header by which a request for an IP service begins (struct cma_hdr).
func putIPHeader(b []byte, src, dst *sockaddr) {
	b[1] = 6 << 4
	if src.family == afINET {
		b[1] = 4 << 4
	}
	be.PutUint16(b[2:], src.port)
	put := func(b []byte, a *sockaddr) {
		ip := a.addr.As16()
		if a.family == afINET {
			ip = [16]byte{12: ip[12], 13: ip[13], 14: ip[14], 15: ip[15]}
		}
		copy(b, ip[:])
	}
	put(b[4:], src)
	put(b[20:], dst)
}

// parseIPHeader returns the addresses of the sender and of the receiver, whose port is that
// of the service. The family of both is 0 if there is no such header.
func parseIPHeader(b []byte, service uint64) (src, dst sockaddr) {
	var at = 4
	switch b[1] >> 4 {
	case 4:
		src.family, at = afINET, 16
		src.addr, dst.addr = netip.AddrFrom4([4]byte(b[at:])), netip.AddrFrom4([4]byte(b[at+16:]))
	case 6:
		src.family = afINET6
		src.addr, dst.addr = netip.AddrFrom16([16]byte(b[at:])), netip.AddrFrom16([16]byte(b[at+16:]))
	default:
		return src, dst
	}
	dst.family = src.family
	src.port, dst.port = be.Uint16(b[2:]), uint16(service)
	return src, dst
}
