package packet

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"

	"github.com/nicless/nicless/field"
)

// Offsets of fields in the headers.
const (
	ipv4TOS        = 1
	ipv4Length     = 2 // bytes of the whole packet
	ipv4TTL        = 8
	ipv4Protocol   = 9
	ipv4Checksum   = 10
	ipv6Length     = 4 // bytes after the IP header
	ipv6NextHeader = 6
	ipv6HopLimit   = 7
	udpLength      = 4 // bytes with the UDP header
	udpChecksum    = 6
	bthReserved    = 4 // the byte of the BTH with FECN and BECN
)

// ipv4First is the first byte of an IPv4 header without options: version 4, and a length of five words
// of 32 bits.
const ipv4First = 0x45

// IsIP reports whether b looks like a whole IPv4 or IPv6 packet with a UDP header, and not
// like a packet that begins with a BTH.
//
// The first byte of an IP packet has the version in its upper half. The first byte of a BTH is the
// opcode. No known opcode is ipv4First. But 0x64 and 0x65 are opcodes of UD and also begin IPv6
// packets, so for IPv6 the lengths in the two headers must agree, too.
func IsIP(b []byte) bool {
	be := binary.BigEndian
	switch {
	case len(b) >= ipv4Size+udpSize && b[0] == ipv4First:
		return b[ipv4Protocol] == protocolUDP
	case len(b) >= ipv6Size+udpSize && b[0]>>4 == 6:
		lengthsAgree := be.Uint16(b[ipv6Length:]) == be.Uint16(b[ipv6Size+udpLength:])
		return b[ipv6NextHeader] == protocolUDP && lengthsAgree
	}
	return false
}

// DescribeIP lists the fields of a whole IPv4 or IPv6 packet of RoCEv2, and says whether its
// ICRC is right. If b is not such a packet with a UDP header, DescribeIP returns an error and no
// tree. If the headers of b give another length than b has, or [Describe] returns an error for the
// UDP datagram, DescribeIP returns an error and a tree of the fields that could be read.
func DescribeIP(b []byte) (field.Tree, error) {
	if !IsIP(b) {
		return nil, fmt.Errorf("packet: %d bytes that are not an IPv4 packet without options, nor an IPv6 packet, with a UDP header", len(b))
	}
	be := binary.BigEndian
	head, length := ipv4Size, int(be.Uint16(b[ipv4Length:]))
	if b[0]>>4 == 6 {
		head, length = ipv6Size, ipv6Size+int(be.Uint16(b[ipv6Length:]))
	}
	d := describer{b: b}
	d.header(0, "ip", "", func(d *describer) {
		if head == ipv4Size {
			d.ipv4()
		} else {
			d.ipv6()
		}
	})
	d.header(head, "udp", "", func(d *describer) { d.udp(head) })
	body := head + udpSize
	if n := int(be.Uint16(b[head+udpLength:])); len(b) != length || head+n != length {
		d.plain(body, len(b)-body, "what is after the UDP header")
		return d.tree, fmt.Errorf("packet: %d bytes; the IP header says %d, the UDP header %d", len(b), length, head+n)
	}

	in := describer{b: b[body:], base: body}
	err := in.packet("")
	switch {
	case in.tree == nil: // the datagram is too short for a BTH and an ICRC
		in.plain(0, len(in.b), "cut")
	case err == nil:
		right := in.describeICRC(plainICRC(b, head))
		in.tree = append(in.tree, field.Field{Name: "icrc_right", Value: right})
		if Opcode(b[body]).Info().DETH {
			in.tree = append(in.tree, field.Field{Name: "grh", Value: grh(b[:head])})
		}
	}
	return append(d.tree, in.tree...), err
}

// describeICRC writes into the last field, which is the ICRC, whether the ICRC is the computed one. It
// reports the same.
func (d *describer) describeICRC(computed uint32) bool {
	f := &d.tree[len(d.tree)-1]
	if f.Value == field.Hex32(computed) {
		f.Text = "right"
		return true
	}
	f.Text = fmt.Sprintf("WRONG, 0x%08x is right", computed)
	return false
}

// plainICRC computes the ICRC of an IP packet from its bytes. head is the size of the IP header. A
// [Flow] presumes some fields of the header; plainICRC presumes none.
func plainICRC(b []byte, head int) uint32 {
	const prefix = 8 // bytes 0xff before the packet
	p := append(slices.Repeat([]byte{0xff}, prefix), b[:len(b)-ICRCSize]...)
	masked := []int{ipv4TOS, ipv4TTL, ipv4Checksum, ipv4Checksum + 1}
	if head == ipv6Size {
		// The traffic class is in the low half of byte 0 and the high half of byte 1, the flow label
		// is in the rest of byte 1 and in bytes 2 and 3.
		p[prefix] |= 0x0f
		masked = []int{1, 2, 3, ipv6HopLimit}
	}
	bth := head + udpSize
	for _, at := range append(masked, head+udpChecksum, head+udpChecksum+1, bth+bthReserved) {
		p[prefix+at] = 0xff
	}
	return crc32.ChecksumIEEE(p)
}

// grh returns the 40 bytes that the receiver of a datagram finds before the message. An IPv4 header
// is at the end of the 40 bytes, after zeros.
func grh(head []byte) field.Bytes {
	return append(make(field.Bytes, ipv6Size-len(head)), head...)
}

// ipv4 adds the fields of an IPv4 header.
func (d *describer) ipv4() {
	be, b := binary.BigEndian, d.b
	d.plain(0, 1, "version 4, header of 20 bytes")
	d.put(1, 1, "tos", b[1], trafficClass(b[1]))
	d.put(2, 2, "length", be.Uint16(b[2:4]), "bytes of the IP packet")
	d.put(4, 2, "id", be.Uint16(b[4:6]), "identification; the ICRC covers it")
	const df = 0x4000 // don't fragment
	flags := "no flags"
	f := be.Uint16(b[6:8])
	switch {
	case f == df:
		flags = "DF"
	case f != 0:
		flags = "a fragment, or reserved flags"
	}
	d.put(6, 2, "flags", fmt.Sprintf("0x%04x", f), flags)
	d.put(8, 1, "ttl", b[8], "time to live")
	d.put(9, 1, "protocol", b[9], "UDP")
	text := "right"
	const zero = 0xffff // in one's complement; the checksum makes the sum of the header 0
	if checksum(b[:ipv4Size]) != zero {
		text = "wrong"
	}
	d.put(10, 2, "checksum", fmt.Sprintf("0x%04x", be.Uint16(b[10:12])), text)
	d.put(12, 4, "src", netip.AddrFrom4([4]byte(b[12:16])).String(), "")
	d.put(16, 4, "dst", netip.AddrFrom4([4]byte(b[16:20])).String(), "")
}

// ipv6 adds the fields of an IPv6 header.
func (d *describer) ipv6() {
	be, b := binary.BigEndian, d.b
	first := be.Uint32(b[0:4]) // version:4 traffic_class:8 flow_label:20
	class, label := uint8(first>>20), first&0xfffff
	d.plain(0, 4, "version 6")
	d.part("traffic_class", class, trafficClass(class))
	d.part("flow_label", label, fmt.Sprintf("0x%05x", label))
	d.put(4, 2, "length", be.Uint16(b[4:6]), "bytes after the IP header")
	d.put(6, 1, "protocol", b[6], "next header: UDP")
	d.put(7, 1, "hop_limit", b[7], "")
	d.put(8, 16, "src", netip.AddrFrom16([16]byte(b[8:24])).String(), "")
	d.put(24, 16, "dst", netip.AddrFrom16([16]byte(b[24:40])).String(), "")
}

// udp adds the fields of a UDP header at offset at.
func (d *describer) udp(at int) {
	be, b := binary.BigEndian, d.b[at:]
	text := "RoCEv2"
	if be.Uint16(b[2:4]) != Port {
		text = fmt.Sprintf("not that of RoCEv2, %d", Port)
	}
	d.put(at, 2, "sport", be.Uint16(b[0:2]), "")
	d.put(at+2, 2, "dport", be.Uint16(b[2:4]), text)
	d.put(at+4, 2, "length", be.Uint16(b[4:6]), "bytes with this header")
	text = "not checked"
	if be.Uint16(b[6:8]) == 0 {
		text = "none"
	}
	d.put(at+6, 2, "checksum", fmt.Sprintf("0x%04x", be.Uint16(b[6:8])), text)
}

// trafficClass describes an IPv4 type of service or IPv6 traffic class: the DSCP in the upper six bits
// and the ECN in the lower two.
func trafficClass(c uint8) string {
	ecn := [...]string{"not ECN-capable", "ECT(1)", "ECT(0)", "congestion experienced"}[c&3]
	return fmt.Sprintf("DSCP %d, %s", c>>2, ecn)
}

// checksum returns the one's complement sum of 16-bit words.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	sum = (sum >> 16) + (sum & 0xffff) // this may carry once more
	return uint16(sum + (sum >> 16))
}
