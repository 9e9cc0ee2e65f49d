package tun

import (
	"encoding/binary"
	"fmt"
)

// Lengths of headers.
const (
	header4   = 20 // IPv4 without options
	header6   = 40 // IPv6 without extension headers
	headerTCP = 20 // without options
	headerUDP = 8
)

// SnapshotSize is the most that Check looks at: the header, and 120 bytes of the packet. They hold the
// longest headers of IPv4 and TCP.
const SnapshotSize = HeaderSize + 120

// Check checks a packet of a peer that may be hostile, before the kernel sees it. length is the length of the
// packet without the virtio header. b is a copy of the virtio header and of at least the first
// min(length, 120) bytes of the packet. The caller gives this copy to the kernel, because the peer can change
// the original at any time.
//
// Check accepts what a kernel gives to Read. It demands that the packet is IPv4 or IPv6 of this
// length, that the checksum lies inside the packet and behind the IP header, and that a packet
// that is to be segmented is TCP or UDP of the kind that the header says, with segments that are not
// absurdly small. The error names the value and the limit. Check allocates nothing if there is no error.
func Check(b []byte, length int) error {
	if length < header4 || length > MaxPacket {
		return fmt.Errorf("tun: packet of %d bytes; it is %d to %d", length, header4, MaxPacket)
	}
	if need := min(HeaderSize+length, SnapshotSize); len(b) < need {
		return fmt.Errorf("tun: %d bytes of header and packet to judge; %d are needed", len(b), need)
	}
	h, p := Parse(b), b[HeaderSize:min(len(b), HeaderSize+length)]
	ip, err := checkIP(p, length)
	if err != nil {
		return err
	}
	if h.Flags&^(NeedsChecksum|DataValid) != 0 {
		return fmt.Errorf("tun: header with flags 0x%02x; those allowed are 0x%02x", h.Flags, NeedsChecksum|DataValid)
	}
	if int(h.Length) > length {
		return fmt.Errorf("tun: header with hdr_len %d in a packet of %d bytes", h.Length, length)
	}
	if h.Flags&NeedsChecksum != 0 {
		start := int(h.ChecksumStart)
		end := start + int(h.ChecksumOffset) + 2
		if start < ip {
			return fmt.Errorf("tun: header with csum_start %d; the IP header ends at %d", start, ip)
		}
		if end > length {
			return fmt.Errorf("tun: header with a checksum that ends at %d (csum_start %d, csum_offset %d) in a packet of %d bytes", end, start, h.ChecksumOffset, length)
		}
	}
	if h.GSO == None {
		if h.Segment != 0 {
			return fmt.Errorf("tun: header with gso_size %d, but gso_type none", h.Segment)
		}
		return nil
	}
	return checkGSO(h, p, ip, length)
}

// checkIP returns the length of the IP header, without extension headers of IPv6.
func checkIP(p []byte, length int) (ip int, err error) {
	be := binary.BigEndian
	switch version := p[0] >> 4; version {
	case 4:
		ip = int(p[0]&15) * 4
		if ip < header4 || ip > length {
			return 0, fmt.Errorf("tun: IPv4 header of %d bytes; it is %d to 60, in a packet of %d bytes", ip, header4, length)
		}
		if total := int(be.Uint16(p[2:])); total != length {
			return 0, fmt.Errorf("tun: IPv4 packet of %d bytes says it has %d", length, total)
		}
		return ip, nil
	case 6:
		if length < header6 {
			return 0, fmt.Errorf("tun: IPv6 packet of %d bytes; its header has %d", length, header6)
		}
		if payload := int(be.Uint16(p[4:])); payload != length-header6 {
			return 0, fmt.Errorf("tun: IPv6 packet with a payload of %d bytes says it has %d", length-header6, payload)
		}
		return header6, nil
	default:
		return 0, fmt.Errorf("tun: packet of IP version %d; it is 4 or 6", version)
	}
}
