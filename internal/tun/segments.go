package tun

import (
	"encoding/binary"
	"fmt"
)

// Numbers of protocols, and of the extension headers of IPv6 that can be before TCP and UDP.
const (
	hopByHop           = 0
	protocolTCP        = 6
	protocolUDP        = 17
	routing            = 43
	destinationOptions = 60
)

// Limits of segments. The kernel's own TCP never has less than 8 bytes in one (TCP_MIN_GSO_SIZE), and
// its UDP never makes more than 128 (UDP_MAX_SEGMENTS).
const (
	minSegmentTCP  = 8
	maxSegmentsUDP = 128
)

// transport returns the protocol that a kind of segmentation is for, and the offset of the checksum in the
// header of the protocol. ok is false if IP of this version has no such segmentation.
func transport(gso uint8, version byte) (protocol byte, name string, checksum uint16, ok bool) {
	switch {
	case gso&^FlagECN == TCPv4 && version == 4, gso&^FlagECN == TCPv6 && version == 6:
		return protocolTCP, "TCP", 16, true
	case gso == UDP:
		return protocolUDP, "UDP", 6, true
	}
	return 0, "", 0, false
}

// checkGSO checks a packet that is to be segmented. p has the first bytes of the packet, ip is
// the length of the IP header.
func checkGSO(h Header, p []byte, ip, length int) error {
	version := p[0] >> 4
	wanted, name, checksum, ok := transport(h.GSO, version)
	if !ok {
		return fmt.Errorf("tun: header with gso_type 0x%02x before a packet of IPv%d; it is 1 for TCP over IPv4, 4 for TCP over IPv6, each with 0x80 or without, or 5 for UDP", h.GSO, version)
	}
	if h.Flags&NeedsChecksum == 0 {
		return fmt.Errorf("tun: header with gso_type 0x%02x and flags 0x%02x; segmentation needs flag 0x%02x, as each segment gets a checksum", h.GSO, h.Flags, NeedsChecksum)
	}
	found, begins, err := findTransport(p, ip, length)
	if err != nil {
		return err
	}
	if found != wanted {
		return fmt.Errorf("tun: header with gso_type 0x%02x before IP protocol %d; it is for %s, %d", h.GSO, found, name, wanted)
	}
	if int(h.ChecksumStart) != begins || h.ChecksumOffset != checksum {
		return fmt.Errorf("tun: header with csum_start %d and csum_offset %d; the checksum of this %s is at %d and %d", h.ChecksumStart, h.ChecksumOffset, name, begins, checksum)
	}
	headers := begins + headerUDP
	if wanted == protocolTCP {
		if need := begins + headerTCP; need > len(p) {
			return fmt.Errorf("tun: TCP header at %d; of a packet of %d bytes, %d are judged", begins, length, len(p))
		}
		headers = begins + int(p[begins+12]>>4)*4
		if headers < begins+headerTCP {
			return fmt.Errorf("tun: TCP header of %d bytes; it has at least %d", headers-begins, headerTCP)
		}
	}
	if headers > length {
		return fmt.Errorf("tun: headers of %d bytes in a packet of %d", headers, length)
	}
	return checkSegments(h, wanted, name, length-headers)
}

// checkSegments checks the number and the length of segments of a payload.
func checkSegments(h Header, protocol byte, name string, payload int) error {
	size, least := int(h.Segment), 1
	if protocol == protocolTCP {
		least = minSegmentTCP
	}
	if size < least {
		return fmt.Errorf("tun: header with gso_size %d; for %s it is at least %d", size, name, least)
	}
	if payload < 1 {
		return fmt.Errorf("tun: header with gso_size %d before a packet without payload", size)
	}
	if segments := (payload + size - 1) / size; protocol == protocolUDP && segments > maxSegmentsUDP {
		return fmt.Errorf("tun: header with gso_size %d makes %d segments of %d bytes of UDP; the limit is %d", size, segments, payload, maxSegmentsUDP)
	}
	return nil
}

// findTransport returns the protocol behind the IP headers, and the offset in p at which the header of the
// protocol begins. It refuses a fragment, which cannot be segmented.
func findTransport(p []byte, ip, length int) (protocol byte, begins int, err error) {
	if p[0]>>4 == 4 {
		if fragment := binary.BigEndian.Uint16(p[6:]); fragment&0x3fff != 0 {
			return 0, 0, fmt.Errorf("tun: header with a gso_type before a fragment of IPv4 (flags and offset 0x%04x)", fragment)
		}
		protocol, begins = p[9], ip
	} else {
		protocol, begins = p[6], ip
		for protocol == hopByHop || protocol == routing || protocol == destinationOptions {
			if begins+2 > len(p) {
				break
			}
			protocol, begins = p[begins], begins+8+int(p[begins+1])*8
		}
	}
	if need := begins + headerUDP; need > len(p) {
		return 0, 0, fmt.Errorf("tun: header with a gso_type before a packet whose IP headers end at %d; of %d bytes, %d are judged", begins, length, len(p))
	}
	return protocol, begins, nil
}
