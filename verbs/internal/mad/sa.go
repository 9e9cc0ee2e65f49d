package mad

// Attributes of subnet administration, beside those of the subnet that records have.
const (
	AttrNodeRecord     = 0x11
	AttrPortInfoRecord = 0x12
	AttrServiceRecord  = 0x31
	AttrPathRecord     = 0x35
	AttrMemberRecord   = 0x38
)

// SADataAt is where a record begins, in bytes. RecordOffset is where the size of records is, in units of 8
// bytes, and ComponentsAt where the mask of the fields is that the request has set.
const (
	SADataAt     = 56
	RecordOffset = 44
	ComponentsAt = 48
	rmppAt       = 24
)

// NodeRecord returns a node with its LID and description, which has at most 64 bytes.
func NodeRecord(lid uint16, n NodeInfo, description string) []byte {
	b := make([]byte, 108)
	be.PutUint16(b, lid)
	copy(b[4:], n.Bytes())
	copy(b[44:], description)
	return b
}

// Bits of the mask of a NodeRecord.
const (
	NodeHasLID      = 1 << 0
	NodeHasType     = 1 << 4
	NodeHasGUID     = 1 << 7
	NodeHasPortGUID = 1 << 8
)

// PortInfoRecord returns a port with the LID of its node.
func PortInfoRecord(lid uint16, port uint8, p PortInfo) []byte {
	b := make([]byte, 68)
	be.PutUint16(b, lid)
	b[2] = port
	copy(b[4:], p.Bytes())
	return b
}

// A Path leads from one port to another, and back.
type Path struct {
	To, From       [16]byte
	ToLID, FromLID uint16
}

// Bits of the mask of a PathRecord, and where its fields are, in bytes.
const (
	PathHasTo      = 1 << 2
	PathHasFrom    = 1 << 3
	PathHasToLID   = 1 << 4
	PathHasFromLID = 1 << 5
)

// ParsePath parses the fields of a PathRecord, of at least 44 bytes, that a request can have.
func ParsePath(b []byte) Path {
	return Path{To: [16]byte(b[8:]), From: [16]byte(b[24:]),
		ToLID: be.Uint16(b[40:]), FromLID: be.Uint16(b[42:])}
}

// Bytes returns the record.
func (p Path) Bytes() []byte {
	const (
		exactly          = 2 << 6
		mtu4096, gbit100 = 5, 16
		lifetime         = 18
		reversible, one  = 1 << 7, 1
	)
	b := make([]byte, 64)
	copy(b[8:], p.To[:])
	copy(b[24:], p.From[:])
	be.PutUint16(b[40:], p.ToLID)
	be.PutUint16(b[42:], p.FromLID)
	b[49] = reversible | one
	be.PutUint16(b[50:], 0xffff)
	b[54], b[55], b[56] = exactly|mtu4096, exactly|gbit100, exactly|lifetime
	return b
}

// Table returns the answer to a GetTable: the header of the request with records after it, each in as many
// bytes as the longest needs, to a multiple of 8. It is as long as it has to be, in one piece, as the kernel
// gives it to programs. Records have the same length.
func Table(request []byte, records [][]byte) []byte {
	const data, whole = 1, 7 // the type, and flags: active, first and last
	b := append([]byte{}, request[:SADataAt]...)
	b[3] = GetTableResp
	size := 0
	if len(records) > 0 {
		size = (len(records[0]) + 7) / 8
	}
	b[rmppAt], b[rmppAt+1], b[rmppAt+2], b[rmppAt+3] = 1, data, whole, 0
	be.PutUint32(b[rmppAt+4:], 1)
	be.PutUint32(b[rmppAt+8:], uint32(8*size*len(records)+20))
	be.PutUint16(b[RecordOffset:], uint16(size))
	for _, r := range records {
		b = append(append(b, r...), make([]byte, 8*size-len(r))...)
	}
	return b
}
