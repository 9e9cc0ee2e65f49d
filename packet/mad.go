package packet

import (
	"encoding/binary"
	"fmt"
)

// Management datagrams are the payload of packets to queue pair 1 (the GSI). Only their common
// header is described here (struct ib_mad_hdr in Linux's include/rdma/ib_mad.h).
const (
	gsi       = 1
	madHeader = 24
	classCM   = 7
)

// cmMessages names the messages of the connection manager, by attribute (IB_CM_..._ATTR_ID).
var cmMessages = map[uint16]string{
	0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP",
	0x17: "SIDR_REQ", 0x18: "SIDR_REP", 0x19: "LAP", 0x1a: "APR",
}

// mad adds the header of a management datagram at offset at.
func (d *describer) mad(at int) {
	be, b := binary.BigEndian, d.b[at:at+madHeader]
	class, attr := b[1], be.Uint16(b[16:18])
	text := ""
	if class == classCM {
		text = "communication management"
	}
	d.plain(at, 1, fmt.Sprintf("base version %d", b[0]))
	d.put(at+1, 1, "class", class, text)
	d.plain(at+2, 1, fmt.Sprintf("class version %d", b[2]))
	d.put(at+3, 1, "method", b[3], map[uint8]string{1: "Get", 2: "Set", 3: "Send", 0x81: "GetResp"}[b[3]])
	d.plain(at+4, 2, fmt.Sprintf("status %#x", be.Uint16(b[4:6])))
	d.plain(at+6, 2, "class specific")
	d.plain(at+8, 8, fmt.Sprintf("transaction id 0x%016x", be.Uint64(b[8:16])))
	name := ""
	if class == classCM {
		name = cmMessages[attr]
	}
	d.put(at+16, 2, "attr", fmt.Sprintf("0x%04x", attr), name)
	if name != "" {
		d.tree[len(d.tree)-1].Text = "CM " + name
		d.part("cm", name, "")
	}
	d.plain(at+18, 2, "reserved")
	d.plain(at+20, 4, "attribute modifier")
}
