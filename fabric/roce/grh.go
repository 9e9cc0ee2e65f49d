//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

const (
	ipv4Header = 20
	udpHeader  = 8
)

// putGRH writes the GRH that a receiver of a UD packet finds before its payload. n is the length
// of the packet from the BTH to the ICRC, id the identification in its IPv4 header. For IPv6
// the GRH is the IP header; for IPv4 it is 20 bytes 0 and the IP header. The header is made from
// what the kernel reports of the datagram, and is the one that was on the wire, except that IPv4
// flags other than DF are not known.
func (r *receiver) putGRH(b *[grhSize]byte, n int, id uint16) {
	be := binary.BigEndian
	from, to := r.d.remote, r.from.plain
	clear(b[:])
	if from.Is6() {
		be.PutUint32(b[0:], 6<<28|uint32(r.d.tos)<<20|r.d.label)
		be.PutUint16(b[4:], uint16(n+udpHeader))
		b[6], b[7] = unix.IPPROTO_UDP, r.d.hops
		src, dst := from.As16(), to.As16()
		copy(b[8:], src[:])
		copy(b[24:], dst[:])
		return
	}
	h := b[grhSize-ipv4Header:]
	h[0], h[1] = 0x45, r.d.tos
	be.PutUint16(h[2:], uint16(n+udpHeader+ipv4Header))
	be.PutUint16(h[4:], id)
	h[6] = 0x40 // DF
	h[8], h[9] = r.d.hops, unix.IPPROTO_UDP
	src, dst := from.As4(), to.As4()
	copy(h[12:], src[:])
	copy(h[16:], dst[:])
	be.PutUint16(h[10:], checksum(h))
}

// checksum returns the checksum of an IPv4 header whose checksum field is 0.
func checksum(h []byte) uint16 {
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xffff
	sum += sum >> 16
	return ^uint16(sum)
}
