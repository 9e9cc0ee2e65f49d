package packet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Port is the UDP destination port of RoCEv2.
const Port = 4791

// Limits of packets in bytes. MaxPacket counts from the BTH to the ICRC.
const (
	MaxMTU    = 4096 // the longest payload
	MaxPacket = MaxHeaders + MaxMTU + ICRCSize
	minPacket = BTHSize + ICRCSize
)

// A Flow computes the ICRC of packets that go from one UDP socket to another. The ICRC is
// the CRC-32 of Ethernet over eight bytes 0xff, the IP header, the UDP header, and the packet.
// Some bytes count as 0xff because routers change them: IPv4 type of service, time to live
// and checksum; IPv6 traffic class, flow label and hop limit; the UDP checksum; byte 4 of the
// BTH.
//
// A Flow keeps the CRC of the headers. It is a small value that does not change, so any
// number of goroutines may use it. The zero Flow is not useful; see [MakeFlow].
type Flow struct {
	base uint32 // state of the CRC after the headers, with the length fields and the identification 0
	port uint16 // source port
	v4   bool
}

// MakeFlow returns the flow from src to dst. Both are IPv4, or both are IPv6; IPv4 addresses
// mapped to IPv6 are IPv4. MakeFlow panics if the families differ. IPv4 headers have no options
// and have the DF flag set, as in packets from sockets with IP_MTU_DISCOVER.
func MakeFlow(src, dst netip.AddrPort) Flow {
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	if from.BitLen() != to.BitLen() || !from.IsValid() {
		panic("packet: no flow from " + src.String() + " to " + dst.String())
	}
	head := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if from.Is4() {
		head = append(head, 0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, protocolUDP, 0xff, 0xff)
	} else {
		head = append(head, 0x6f, 0xff, 0xff, 0xff, 0, 0, protocolUDP, 0xff)
	}
	head = append(append(head, from.AsSlice()...), to.AsSlice()...)
	head = binary.BigEndian.AppendUint16(head, src.Port())
	head = binary.BigEndian.AppendUint16(head, dst.Port())
	head = append(head, 0, 0, 0xff, 0xff)
	return Flow{base: shift(^uint32(0), head), port: src.Port(), v4: from.Is4()}
}

// From returns the flow from another source port of the same address. It costs a few
// nanoseconds.
func (f Flow) From(port uint16) Flow {
	f.base ^= field16(port^f.port, afterPort)
	f.port = port
	return f
}

// Sum returns the ICRC of a packet in two parts. head begins with the BTH and has at least
// its 12 bytes; rest is what follows head, pad included, without the ICRC. id is the
// identification of the IPv4 header: 0 if the socket sets DF (IP_MTU_DISCOVER), i for
// segment i of a message that the kernel cuts (UDP_SEGMENT). For IPv6 id does not count.
//
// The packet has at most [MaxPacket] bytes, a multiple of 4; otherwise Sum panics.
func (f Flow) Sum(head, rest []byte, id uint16) uint32 {
	n := len(head) + len(rest) + ICRCSize
	if n%4 != 0 {
		panic("packet: the length of a packet is not a multiple of 4")
	}
	s := f.base
	if f.v4 {
		s ^= length4[n/4] ^ field16(id, afterID)
	} else {
		s ^= length6[n/4]
	}
	s = shiftBTH(s, (*[BTHSize]byte)(head))
	return ^shiftLong(shiftLong(s, head[BTHSize:]), rest)
}

// Seal writes the ICRC into the last four bytes of a packet. id and the length are as for Sum.
func (f Flow) Seal(b []byte, id uint16) {
	end := len(b) - ICRCSize
	binary.LittleEndian.PutUint32(b[end:], f.Sum(b[:end], nil, id))
}

// Check compares the ICRC in the last four bytes of a packet, and returns how many of its
// bits it could check: 32 if the ICRC is right; 0 if it is wrong, or if no packet has that
// length.
//
// A receiver on a UDP socket does not see the identification of the IPv4 header, which the
// ICRC covers. guess is the identification that Check tries first: 0, or one more than that
// of the segment before, if the kernel has put several packets together (UDP_GRO). If the
// ICRC is right for another identification, or without the DF flag, Check returns 16: one of
// 65,536 damaged packets passes. A caller that wants 32 bits drops packets for which Check
// returns 16. id is the identification in either case. For IPv6, id is 0, and guess does not
// count.
func (f Flow) Check(b []byte, guess uint16) (checked int, id uint16) {
	if len(b) < minPacket || len(b) > MaxPacket || len(b)%4 != 0 {
		return 0, 0
	}
	if !f.v4 {
		guess = 0
	}
	end := len(b) - ICRCSize
	difference := f.Sum(b[:end], nil, guess) ^ binary.LittleEndian.Uint32(b[end:])
	switch {
	case difference == 0:
		return 32, guess
	case f.v4:
		if id, ok := solve(difference, len(b)); ok {
			return 16, id ^ guess
		}
	}
	return 0, 0
}

// solve returns the exclusive or of two identifications of an IPv4 packet of n bytes: the one
// with which an ICRC was computed, and the one that its sender has used. difference is the
// exclusive or of the computed ICRC and the ICRC in the packet. ok is false if the packets
// differ in more than the identification and the DF flag.
//
// The CRC is linear: if four bytes change by exclusive or with w, and m bytes follow
// them, then the CRC changes by w·x^(32+8m). So w is the difference times the inverse of that
// power. The four bytes are the identification, and the flags with the fragment offset, of
// which only DF may differ.
func solve(difference uint32, n int) (id uint16, ok bool) {
	const withoutDF = 0x40
	w := multiply(difference, backwards[n/4])
	return bits.ReverseBytes16(uint16(w)), w>>16 == 0 || w>>16 == withoutDF
}
