//go:build linux && (amd64 || arm64)

package verbs

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/verbs/internal/cm"
)

// Queue pair 1 of every port is that of its general services (GSI): management datagrams come
// there as UD packets. Programs have no access to it. The connection manager of this server
// answers.

const (
	gsiQPN  = 1
	gsiQKey = 0x80010000 // of all queue pairs 1 (IB_QP1_QKEY)
	gsiPKey = 0xffff
	grhSize = 40

	gsiHead   = packet.BTHSize + packet.DETHSize
	gsiPacket = gsiHead + grhSize + cm.MADSize

	// onWire is how long the packet is from the BTH to the ICRC, without GRH.
	onWire = gsiHead + cm.MADSize + 4
)

var gsiOpcode = packet.MakeOpcode(packet.UD, packet.SendOnly)

// putGSI writes the headers of a management datagram from one GID to another.
func putGSI(head *[gsiHead]byte, grh *[grhSize]byte, psn uint32, from, to [gidSize]byte) {
	packet.PutBTH((*[packet.BTHSize]byte)(head[:]), gsiOpcode, false, 0, gsiPKey, gsiQPN, false, psn)
	packet.DETH{QKey: gsiQKey, SrcQP: gsiQPN}.Put((*[packet.DETHSize]byte)(head[packet.BTHSize:]))
	*grh = [grhSize]byte{}
	be := binary.BigEndian
	if !isMapped(from) || !isMapped(to) {
		grh[0], grh[6], grh[7] = 6<<4, ipUDP, hopsUDP
		be.PutUint16(grh[4:], udpHeader+onWire)
		copy(grh[8:24], from[:])
		copy(grh[24:40], to[:])
		return
	}
	h := grh[grhSize-ipv4Header:]
	h[0], h[6], h[8], h[9] = 4<<4|ipv4Header/4, 1<<6, hopsUDP, ipUDP // do not fragment
	be.PutUint16(h[2:], ipv4Header+udpHeader+onWire)
	copy(h[12:16], from[12:])
	copy(h[16:20], to[12:])
	be.PutUint16(h[10:], ipChecksum(h))
}

const (
	ipv4Header = 20
	udpHeader  = 8
	ipUDP      = 17
	hopsUDP    = 64
)

// parseGSI returns the management datagram in a packet that has come for queue pair 1, and the GIDs
// between which it came.
func parseGSI(b []byte) (from, to [gidSize]byte, mad []byte, err error) {
	if len(b) != gsiPacket {
		return from, to, nil, fmt.Errorf("a packet of %d bytes for queue pair 1; a management datagram has %d", len(b), gsiPacket)
	}
	h := packet.ParseBTH((*[packet.BTHSize]byte)(b))
	d := packet.ParseDETH((*[packet.DETHSize]byte)(b[packet.BTHSize:]))
	if h.Opcode != gsiOpcode || h.Version != 0 || h.Pad != 0 || h.DestQP != gsiQPN ||
		h.PKey&0x7fff != gsiPKey&0x7fff || d.QKey != gsiQKey {
		return from, to, nil, fmt.Errorf("opcode %v, queue pair %#x, P_Key %#x, Q_Key %#x: not a management datagram", h.Opcode, h.DestQP, h.PKey, d.QKey)
	}
	grh := b[gsiHead:][:grhSize]
	ip := grh[grhSize-ipv4Header:]
	switch {
	case grh[0]>>4 == 6:
		copy(from[:], grh[8:24])
		copy(to[:], grh[24:40])
	case grh[0] == 0 && ip[0]>>4 == 4:
		from, to = mapped([4]byte(ip[12:16])), mapped([4]byte(ip[16:20]))
	default:
		return from, to, nil, fmt.Errorf("a GRH that begins with %#x", grh[0])
	}
	return from, to, b[gsiHead+grhSize:], nil
}

// mapped returns the GID of an IPv4 address.
func mapped(ip [4]byte) (gid [gidSize]byte) {
	gid[10], gid[11] = 0xff, 0xff
	copy(gid[12:], ip[:])
	return gid
}

func isMapped(gid [gidSize]byte) bool { return gid == mapped([4]byte(gid[12:])) }

// ipChecksum returns the checksum of an IPv4 header whose checksum is 0 so far.
func ipChecksum(h []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum>>16 + sum)
}
