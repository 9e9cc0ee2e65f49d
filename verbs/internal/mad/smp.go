package mad

// Attributes of the subnet.
const (
	AttrClassPortInfo   = 0x01
	AttrNodeDescription = 0x10
	AttrNodeInfo        = 0x11
	AttrSwitchInfo      = 0x12
	AttrGUIDInfo        = 0x14
	AttrPortInfo        = 0x15
	AttrPKeyTable       = 0x16
	AttrSLToVL          = 0x17
	AttrVLArbitration   = 0x18
	AttrForwarding      = 0x19 // LinearForwardingTable
	AttrMulticast       = 0x1b // MulticastForwardingTable
	AttrSMInfo          = 0x20
)

// SMPDataSize is the length in bytes of each of these attributes. PathSize is that of the two paths of a
// directed SMP, whose first byte is not used.
const (
	SMPDataSize   = 64
	PathSize      = 64
	InitialPathAt = 128
	ReturnPathAt  = 192
)

// Types of nodes.
const (
	NodeCA     = 1
	NodeSwitch = 2
)

// A NodeInfo describes a node. LocalPort is the port by which the request has come.
type NodeInfo struct {
	Type, Ports                uint8
	SystemGUID, GUID, PortGUID uint64
	Partitions, Device         uint16
	Revision                   uint32
	LocalPort                  uint8
	Vendor                     uint32 // 24 bits
}

// NodeInfoSize is its length in bytes.
const NodeInfoSize = 40

// Bytes returns the attribute.
func (n NodeInfo) Bytes() []byte {
	b := make([]byte, NodeInfoSize)
	b[0], b[1], b[2], b[3] = 1, 1, n.Type, n.Ports
	be.PutUint64(b[4:], n.SystemGUID)
	be.PutUint64(b[12:], n.GUID)
	be.PutUint64(b[20:], n.PortGUID)
	be.PutUint16(b[28:], n.Partitions)
	be.PutUint16(b[30:], n.Device)
	be.PutUint32(b[32:], n.Revision)
	be.PutUint32(b[36:], uint32(n.LocalPort)<<24|n.Vendor&0xffffff)
	return b
}

// A PortInfo describes a port with 4 lanes of 25 Gb/s (EDR) and packets of up to 4096 bytes.
type PortInfo struct {
	GIDPrefix       uint64
	LID, MasterLID  uint16
	Caps            uint32
	LocalPort       uint8 // by which the request has come
	State, Physical uint8
	GUIDs           uint8 // entries of GUIDInfo
}

// Bits of Caps.
const (
	CapSM             = 1 << 1
	CapExtendedSpeeds = 1 << 14
	CapCM             = 1 << 16
)

// Bytes returns the attribute.
func (p PortInfo) Bytes() []byte {
	const (
		width4x, widths1x4x = 2, 3
		qdr, allSpeeds      = 4, 7
		edr, fdrAndEDR      = 2, 3
		mtu4096, vl0        = 5, 1
		polling             = 2  // LinkDownDefaultState
		timeouts            = 18 // 1 s, of the subnet and of answers
	)
	b := make([]byte, SMPDataSize)
	be.PutUint64(b[8:], p.GIDPrefix)
	be.PutUint16(b[16:], p.LID)
	be.PutUint16(b[18:], p.MasterLID)
	be.PutUint32(b[20:], p.Caps)
	b[28], b[29], b[30], b[31] = p.LocalPort, widths1x4x, widths1x4x, width4x
	b[32], b[33] = allSpeeds<<4|p.State, p.Physical<<4|polling
	b[35] = qdr<<4 | allSpeeds
	b[36], b[37] = mtu4096<<4, vl0<<4
	b[41], b[43] = mtu4096, vl0<<4
	b[50], b[51], b[52] = p.GUIDs, timeouts, timeouts
	b[62], b[63] = edr<<4|fdrAndEDR, fdrAndEDR
	return b
}

// A SwitchInfo describes a switch. Top is the last LID of its forwarding table.
type SwitchInfo struct{ Top uint16 }

// ForwardingBlock is how many LIDs a block of a forwarding table has. ForwardNone is the port of a LID that
// nothing has.
const (
	ForwardingBlock = 64
	ForwardNone     = 0xff
)

// Bytes returns the attribute.
func (s SwitchInfo) Bytes() []byte {
	b := make([]byte, SMPDataSize)
	be.PutUint16(b, 0xbfff)
	be.PutUint16(b[6:], s.Top)
	be.PutUint16(b[14:], PKeyBlock)
	b[16] = 1 << 3 // EnhancedPort0
	return b
}

// PKeyBlock and GUIDBlock are how many entries a block of P_KeyTable and of GUIDInfo has.
const (
	PKeyBlock = 32
	GUIDBlock = 8
)

// PKeys returns a block of a P_KeyTable, with one key or none.
func PKeys(key uint16) []byte {
	b := make([]byte, SMPDataSize)
	be.PutUint16(b, key)
	return b
}

// GUIDs returns a block of GUIDInfo, with one GUID or, if it is 0, none.
func GUIDs(guid uint64) []byte {
	b := make([]byte, SMPDataSize)
	be.PutUint64(b, guid)
	return b
}

// SMInfo returns the attribute of a master subnet manager. activity is a count of its work.
func SMInfo(guid uint64, activity uint32) []byte {
	const priority, master = 15, 3
	b := make([]byte, SMPDataSize)
	be.PutUint64(b, guid)
	be.PutUint32(b[16:], activity)
	b[20] = priority<<4 | master
	return b
}
