package mad

// Size is the length of a datagram in bytes. A Header has the first HeaderSize bytes.
const (
	Size       = 256
	HeaderSize = 24
	LeastSize  = 36 // the header and that of RMPP, which a program has to write at least
)

// Classes.
const (
	ClassSMP      = 0x01 // subnet management, to a LID
	ClassSA       = 0x03 // subnet administration
	ClassPM       = 0x04 // performance management
	ClassCM       = 0x07 // communication management
	ClassDirected = 0x81 // subnet management, along ports
	ClassPing     = 0x32 // of ibping
)

// Methods. A response has the bit Response.
const (
	Get          = 0x01
	Set          = 0x02
	Send         = 0x03
	TrapRepress  = 0x07
	GetTable     = 0x12
	Response     = 0x80
	GetResp      = 0x81
	GetTableResp = 0x92
)

// Status of a response. The low byte is common, the high byte that of SA.
const (
	StatusUnsupported = 0x000c // this method of this attribute
	StatusInvalid     = 0x001c // a value
	StatusNoRecords   = 0x0300
	StatusDirection   = 0x8000 // bit of a directed response
)

// A Header is the common header. Specific is the hop pointer and the hop count of a directed SMP.
type Header struct {
	BaseVersion, Class, ClassVersion, Method uint8
	Status, Specific                         uint16
	TID                                      uint64
	Attribute                                uint16
	Modifier                                 uint32
}

// ParseHeader parses the first HeaderSize bytes of b.
func ParseHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{b[0], b[1], b[2], b[3], be.Uint16(b[4:]), be.Uint16(b[6:]), be.Uint64(b[8:]),
		be.Uint16(b[16:]), be.Uint32(b[20:])}
}

// Put writes the header to the first HeaderSize bytes of b.
func (h Header) Put(b []byte) {
	_ = b[HeaderSize-1]
	b[0], b[1], b[2], b[3] = h.BaseVersion, h.Class, h.ClassVersion, h.Method
	be.PutUint16(b[4:], h.Status)
	be.PutUint16(b[6:], h.Specific)
	be.PutUint64(b[8:], h.TID)
	be.PutUint16(b[16:], h.Attribute)
	be.PutUint16(b[18:], 0)
	be.PutUint32(b[20:], h.Modifier)
}

// IsResponse reports whether the datagram is an answer, or ends a trap.
func (h *Header) IsResponse() bool { return h.Method&Response != 0 || h.Method == TrapRepress }

// Travels reports whether the class is one of queue pair 1 that is for any port: not of the subnet, which are
// for queue pair 0, and not of subnet administration, which only the switch answers.
func (h *Header) Travels() bool {
	switch h.Class {
	case ClassSMP, ClassDirected, ClassSA, ClassCM:
		return false
	}
	return h.Class != 0 && h.Class < 0x50
}

// DataAt returns where the attribute of a class begins, in bytes.
func DataAt(class uint8) int {
	switch {
	case class == ClassSA:
		return SADataAt
	case class >= 0x30 && class <= 0x4f:
		return vendorDataAt
	}
	return 64
}

const vendorDataAt = 40

// OUI returns the organization that defines a class from 0x30 to 0x4f.
func OUI(b []byte) uint32 { return uint32(b[37])<<16 | uint32(b[38])<<8 | uint32(b[39]) }
