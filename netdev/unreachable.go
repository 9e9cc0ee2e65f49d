//go:build linux && (amd64 || arm64)

package netdev

import (
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// answerICMP sends at most mostAnswers answers in each answerSpan. An answer quotes at most mostQuoted bytes
// of the packet: all that the kernel needs, and no more than fits into 1280 bytes.
const (
	answerSpan  = 100 * time.Millisecond
	mostAnswers = 20
	mostQuoted  = 512
)

// unreachable is, in place of the MTU of a peer, that there is no peer.
const unreachable = 0

// answerICMP answers the kernel that no peer has the address to which it has sent a packet, or that the
// packet is longer than mtu, the limit of the peer, so that programs get an error and do not wait. b begins
// with the virtio header.
func (in *Interface) answerICMP(b []byte, to netip.Addr, mtu int) {
	if !answerable(b[HeaderSize:], to) {
		return
	}
	if now := in.now(); now.Sub(in.answersSince) > answerSpan {
		in.answersSince, in.answers = now, 0
	}
	in.answers++
	if in.answers > mostAnswers {
		return
	}
	var out []byte
	if to.Is4() {
		out = answer4(b[HeaderSize:], to, mtu)
	} else {
		out = answer6(b[HeaderSize:], to, mtu)
	}
	if out != nil {
		_ = in.dev.Write(append(make([]byte, HeaderSize, HeaderSize+len(out)), out...), nil)
	}
}

// The answers come from the address that is not there, or takes no such packet: the kernel drops packets that
// come from outside and say that they are from this host.

func answer4(packet []byte, to netip.Addr, mtu int) []byte {
	m := icmp.Message{Type: ipv4.ICMPTypeDestinationUnreachable, Code: hostUnreachable4,
		Body: &icmp.DstUnreach{Data: quoted(packet)}}
	if mtu != unreachable {
		m.Code = tooLong4
	}
	body, err := m.Marshal(nil)
	if err != nil {
		return nil
	}
	// The library has no field for the MTU (RFC 1191, 4). A 0 is behind an odd number of bytes in the sum.
	be.PutUint16(body[6:], uint16(mtu))
	be.PutUint16(body[2:], 0)
	be.PutUint16(body[2:], checksum(append(body, 0)[:len(body)+len(body)%2]))
	h := make([]byte, ipv4.HeaderLen, ipv4.HeaderLen+len(body))
	h[0] = ipv4.Version<<4 | ipv4.HeaderLen/4
	be.PutUint16(h[2:], uint16(ipv4.HeaderLen+len(body)))
	h[8], h[9] = hopLimit, protocolICMP4
	from := to.As4()
	copy(h[12:], from[:])
	copy(h[16:], packet[12:16])
	be.PutUint16(h[10:], checksum(h))
	return append(h, body...)
}

func answer6(packet []byte, to netip.Addr, mtu int) []byte {
	back, _ := netip.AddrFromSlice(packet[8:24])
	m := icmp.Message{Type: ipv6.ICMPTypeDestinationUnreachable, Code: addressUnreachable6,
		Body: &icmp.DstUnreach{Data: quoted(packet)}}
	if mtu != unreachable {
		m = icmp.Message{Type: ipv6.ICMPTypePacketTooBig,
			Body: &icmp.PacketTooBig{MTU: mtu, Data: quoted(packet)}}
	}
	body, err := m.Marshal(icmp.IPv6PseudoHeader(to.AsSlice(), back.AsSlice()))
	if err != nil {
		return nil
	}
	h := make([]byte, ipv6.HeaderLen, ipv6.HeaderLen+len(body))
	h[0] = ipv6.Version << 4
	be.PutUint16(h[4:], uint16(len(body)))
	h[6], h[7] = protocolICMP6, hopLimit
	copy(h[8:], to.AsSlice())
	copy(h[24:], packet[8:24])
	return append(h, body...)
}

// Numbers of RFC 792, RFC 4443 and of IANA's list of protocols.
const (
	hostUnreachable4    = 1
	tooLong4            = 4 // "fragmentation needed and DF set"
	addressUnreachable6 = 3
	protocolICMP4       = 1
	protocolICMP6       = 58
	hopLimit            = 64
)

func quoted(packet []byte) []byte { return packet[:min(len(packet), mostQuoted)] }

// checksum is the Internet checksum of an even number of bytes (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(be.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum + sum>>16)
}
