package roce

import (
	"encoding/binary"
	"net/netip"

	"github.com/nicless/nicless/packet"
)

const (
	ipv4Size, ipv6Size, udpSize = 20, 40, 8
	protocolUDP                 = 17
	hops                        = 64 // as Linux sets for RoCE
)

// A route is where packets come from and go to.
type route struct {
	src, dst netip.AddrPort
}

// reverse is the route of answers. RoCEv2 takes the port 4791 in both directions, and the source port by the
// queue pairs, so it is the same.
func (r route) reverse() route {
	return route{netip.AddrPortFrom(r.dst.Addr(), r.src.Port()),
		netip.AddrPortFrom(r.src.Addr(), r.dst.Port())}
}

// makeRoute returns the route between two GIDs for two numbers of queue pairs. A GID of 0 is not known.
func makeRoute(from, to [16]byte, guid uint64, qp, peer uint32) route {
	src, dst := netip.AddrFrom16(from).Unmap(), netip.AddrFrom16(to).Unmap()
	if from == [16]byte{} {
		src = linkLocal(guid)
	}
	switch {
	case to != [16]byte{} && src.Is4() == dst.Is4():
	case to != [16]byte{} && from == [16]byte{}:
		src = unspecified(dst) // a link-local address is of the other family
	default:
		dst = unspecified(src)
	}
	return route{netip.AddrPortFrom(src, sourcePort(qp, peer)), netip.AddrPortFrom(dst, packet.Port)}
}

// linkLocal returns the address fe80::/64 with the GUID, which is the first GID of an InfiniBand port.
func linkLocal(guid uint64) netip.Addr {
	b := [16]byte{0: 0xfe, 1: 0x80}
	binary.BigEndian.PutUint64(b[8:], guid)
	return netip.AddrFrom16(b)
}

// unspecified returns the unspecified address of the family of a.
func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// sourcePort returns the UDP source port for two queue pairs, as rdma_calc_flow_label and
// rdma_flow_label_to_udp_sport of Linux (include/rdma/ib_verbs.h) do.
func sourcePort(qp, peer uint32) uint16 {
	v := uint64(qp) * uint64(peer)
	v ^= v >> 20
	v ^= v >> 40
	label := uint32(v) & 0xfffff
	return uint16(label&0x3fff^label&0xfc000>>14) | 0xc000
}

// header appends the IP and the UDP header of a packet of n bytes, counted from its BTH to its ICRC. Lengths
// that have no room are 0, as in packets that a network card has yet to divide.
func (r route) header(b []byte, n int) []byte {
	be := binary.BigEndian
	src, dst := r.src.Addr(), r.dst.Addr()
	n += udpSize
	if n > 1<<16-1-ipv4Size {
		n = 0
	}
	at := len(b)
	if src.Is4() {
		b = append(b, 0x45, 0)
		total := n
		if n > 0 {
			total += ipv4Size
		}
		b = be.AppendUint16(b, uint16(total))
		b = append(b, 0, 0, 0x40, 0, hops, protocolUDP, 0, 0)
	} else {
		b = append(b, 0x60, 0, 0, 0)
		b = be.AppendUint16(b, uint16(n))
		b = append(b, protocolUDP, hops)
	}
	b = append(append(b, src.AsSlice()...), dst.AsSlice()...)
	if src.Is4() {
		be.PutUint16(b[at+10:], checksum(b[at:at+ipv4Size]))
	}
	b = be.AppendUint16(b, r.src.Port())
	b = be.AppendUint16(b, r.dst.Port())
	b = be.AppendUint16(b, uint16(n))
	return append(b, 0, 0) // RoCEv2 sends no checksum
}

// headerSize returns the bytes that header appends.
func (r route) headerSize() int {
	if r.src.Addr().Is4() {
		return ipv4Size + udpSize
	}
	return ipv6Size + udpSize
}

// checksum returns the checksum of an IPv4 header, whose own field is 0.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
