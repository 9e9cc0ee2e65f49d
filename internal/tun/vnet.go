package tun

import (
	"encoding/binary"
	"net/netip"
)

// Flags of a Header (VIRTIO_NET_HDR_F_*).
const (
	NeedsChecksum = 1 // the checksum covers only the pseudo-header, the receiver has to complete it
	DataValid     = 2 // the checksum was verified
)

// Kinds of segmentation of a Header (VIRTIO_NET_HDR_GSO_*).
const (
	None    = 0
	TCPv4   = 1
	TCPv6   = 4
	UDP     = 5    // VIRTIO_NET_HDR_GSO_UDP_L4, for IPv4 and IPv6
	FlagECN = 0x80 // beside TCPv4 or TCPv6: the first segment alone has CWR
)

// A Header is before every packet: struct virtio_net_hdr, in the byte order of the processors
// of which this package knows, which is little-endian.
type Header struct {
	Flags          uint8
	GSO            uint8  // gso_type
	Length         uint16 // hdr_len: bytes of headers, or a hint
	Segment        uint16 // gso_size: payload of a segment
	ChecksumStart  uint16 // csum_start: where the checksum begins, from the beginning of the packet
	ChecksumOffset uint16 // csum_offset: where it is stored, from there
}

// Parse returns the header at the beginning of b, which has at least HeaderSize bytes.
func Parse(b []byte) Header {
	le := binary.LittleEndian
	b = b[:HeaderSize]
	return Header{b[0], b[1], le.Uint16(b[2:]), le.Uint16(b[4:]), le.Uint16(b[6:]), le.Uint16(b[8:])}
}

// Put writes the header to the beginning of b, which has at least HeaderSize bytes.
func (h Header) Put(b []byte) {
	le := binary.LittleEndian
	b = b[:HeaderSize]
	b[0], b[1] = h.Flags, h.GSO
	le.PutUint16(b[2:], h.Length)
	le.PutUint16(b[4:], h.Segment)
	le.PutUint16(b[6:], h.ChecksumStart)
	le.PutUint16(b[8:], h.ChecksumOffset)
}

// Source returns the source address of the packet that follows the header at the beginning of
// b. ok is false if b is too short, or the packet is neither IPv4 nor IPv6.
func Source(b []byte) (a netip.Addr, ok bool) { return address(b, 12, 8) }

// Destination returns the destination address of the packet, as Source returns the source.
func Destination(b []byte) (a netip.Addr, ok bool) { return address(b, 16, 24) }

// address returns the address at an offset that depends on the version.
func address(b []byte, at4, at6 int) (a netip.Addr, ok bool) {
	if len(b) <= HeaderSize {
		return a, false
	}
	p := b[HeaderSize:]
	switch {
	case p[0]>>4 == 4 && len(p) >= header4:
		return netip.AddrFrom4([4]byte(p[at4:])), true
	case p[0]>>4 == 6 && len(p) >= header6:
		return netip.AddrFrom16([16]byte(p[at6:])), true
	}
	return a, false
}
