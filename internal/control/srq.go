package control

// SRQ creates a shared receive queue. Ring and DBRec are the client's addresses, inside its
// regions. Ring is a multiple of 64 bytes, DBRec a multiple of 4. Each entry of the ring
// begins with 16 bytes, which hold the link to the next entry.
type SRQ struct {
	PDN       uint32
	Limit     uint32 // see SRQLimit
	Ring      uint64
	DBRec     uint64
	LogSize   uint8 // log2 of entries
	LogStride uint8 // log2 of bytes, at least 5
	Cyclic    uint8 // 1: entry n is at n modulo the size, and no links are followed; older clients: padding
}

func (m *SRQ) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("limit", &m.Limit)
	w.u64("ring", &m.Ring)
	w.u64("dbrec", &m.DBRec)
	w.u8("log_size", &m.LogSize)
	w.u8("log_stride", &m.LogStride)
	w.u8("cyclic", &m.Cyclic)
}

// SRQN names a shared receive queue: 24 bits, unique in the device.
type SRQN struct {
	SRQN uint32
}

func (m *SRQN) walk(w walker) { w.u32("srqn", &m.SRQN) }

// SRQLimit arms an SRQ. When fewer than Limit entries are ready, the device raises one event
// and sets the limit to 0, which means off.
type SRQLimit struct {
	SRQN  uint32
	Limit uint32
}

func (m *SRQLimit) walk(w walker) {
	w.u32("srqn", &m.SRQN)
	w.u32("limit", &m.Limit)
}
