package control

// ChannelOverrun is a bit in a record of a completion channel. It says that the CQ with this
// handle has overrun: the device writes no more completions into it.
const ChannelOverrun uint64 = 1 << 63

// Channel names a completion channel: a datagram socket that yields one 8-byte
// record, the CQ's Handle, for each event of a CQ that uses it.
type Channel struct {
	ID uint32
}

func (m *Channel) walk(w walker) { w.u32("channel", &m.ID) }

// Flags of a CQ.
const (
	CQCollapsed     uint32 = 1 << 0 // cc: every completion overwrites entry 0, the only one that needs memory
	CQIgnoreOverrun uint32 = 1 << 1 // oi: the device ignores the consumer index
	CQCompressed    uint32 = 1 << 2 // cqe_comp_en: the device may write compressed sessions
)

// Values of CQ.MiniFormat, numbered as mini_cqe_res_format in an mlx5 CQ context.
const (
	MiniHash           uint8 = 0
	MiniChecksum       uint8 = 1
	MiniChecksumStride uint8 = 3
)

// MaxMinis is the most completions in one compressed session.
const MaxMinis = 64

// CQ creates a completion queue. Buf and DBRec are the client's addresses, inside its
// regions. Buf is a multiple of 64 bytes, DBRec a multiple of 8. The device does not
// initialize the entries of the buffer; it writes only completions. It sets the arm word of
// the record to 0xffffffff, a value that no client arms with.
type CQ struct {
	Buf     uint64
	DBRec   uint64
	Handle  uint64 // repeated in events; below 1<<63
	Channel uint32 // completion channel; 0: no events
	Flags   uint32
	LogSize uint8  // log2 of entries
	LogCQE  uint8  // 6: 64-byte entries, 7: 128-byte entries
	UAR     uint16 // page whose register arms this CQ

	// MiniFormat is the format of minis that stand for receives. It counts only with
	// CQCompressed; older clients do not know the field and leave these bytes as padding.
	MiniFormat uint8
}

func (m *CQ) walk(w walker) {
	w.u64("buf", &m.Buf)
	w.u64("dbrec", &m.DBRec)
	w.u64("handle", &m.Handle)
	w.u32("channel", &m.Channel)
	w.u32("flags", &m.Flags)
	w.u8("log_size", &m.LogSize)
	w.u8("log_cqe", &m.LogCQE)
	w.u16("uar", &m.UAR)
	w.u8("mini_format", &m.MiniFormat)
}

// CQN names a completion queue: 24 bits, unique in the device.
type CQN struct {
	CQN uint32
}

func (m *CQN) walk(w walker) { w.u32("cqn", &m.CQN) }

// ResizeCQ moves a CQ to another buffer. The device writes an entry of opcode RESIZE_CQ after
// the last completion in the old buffer; that entry takes an index like any other. The device
// writes the next completion into the new buffer, at the index after the index of that entry.
type ResizeCQ struct {
	CQN     uint32
	LogSize uint8
	LogCQE  uint8
	Buf     uint64
}

func (m *ResizeCQ) walk(w walker) {
	w.u32("cqn", &m.CQN)
	w.u8("log_size", &m.LogSize)
	w.u8("log_cqe", &m.LogCQE)
	w.u64("buf", &m.Buf)
}
