package control

// Types of a QP, with the numbers of the st field of an mlx5 QP context.
const (
	QPTypeRC uint8 = 0
	QPTypeUC uint8 = 1
	QPTypeUD uint8 = 2

	// QPTypeXRC is a queue pair that sends by extended reliable connection: its WQEs name the
	// XSRQ that they are for. NoReceive is 1, and RecvCQN is not used. Its peer is a target
	// (OpCreateTarget).
	QPTypeXRC uint8 = 3

	// QPTypeDCI is a queue pair that sends by the dynamically connected transport: each of its
	// WQEs has an address vector that names a DCT. NoReceive is 1, and RecvCQN is not used.
	QPTypeDCI uint8 = 5

	// QPTypeDCT is a queue pair that receives by the dynamically connected transport. OpCreateDCT
	// makes it, OpCreateQP does not.
	QPTypeDCT uint8 = 6
)

// QP creates a queue pair in state RST. SQ, RQ and DBRec are the client's addresses, inside
// its regions. SQ and RQ, the rings, are multiples of 64 bytes; DBRec is a multiple of 8,
// or 0 for none if nothing reads it: with NoReceive and DoorbellRegister.
type QP struct {
	PDN         uint32
	SendCQN     uint32
	RecvCQN     uint32
	UserIndex   uint32 // 24 bits, repeated in CQEs
	SQ          uint64
	RQ          uint64
	DBRec       uint64
	Type        uint8
	LogSQ       uint8 // log2 of 64-byte blocks
	LogRQ       uint8 // log2 of entries
	LogRQStride uint8 // log2 of bytes, at least 4
	UAR         uint16
	NoReceive   uint8  // 1: no receive queue; RQ and its sizes are 0, and RecvCQN may be 0 if SRQN is
	SignatureOn uint8  // 1: WQEs have a signature, which the device checks
	SRQN        uint32 // shared receive queue in place of the RQ; 0: none
	Managed     uint8  // 1: the device executes WQEs only as far as a SEND_EN of another queue says
	BlueFlame   uint8  // 1 to 4: the queue's own register of page UAR, with WQEs for the device; 0: none

	// In the messages of older clients these two bytes are padding.
	Scatter uint8 // ScatterRequester, ScatterResponder
	Streams uint8 // DCI only: log2 of the streams that may fail before the QP does, at most MaxLogErrored

	// In the message these two are bits of the byte of Scatter, which are 0 in those of older clients.
	// Devices that do not know the bits refuse them.
	NoSend    uint8 // 1: no send queue; SQ and LogSQ are 0, and SendCQN may be 0
	Doorbells uint8 // what starts the work of the send queue: DoorbellRecord and the values after it
}

// Values of QP.Doorbells; docs/design/0065-rung-queues.md has the forms of doorbells and the reasons.
const (
	// DoorbellRecord: the doorbell record alone announces work. A register only announces it sooner.
	DoorbellRecord uint8 = 0

	// DoorbellRegister: a doorbell register of page UAR announces work, and the send word of the record is
	// not read (mlx5: send_dbr_mode 1 and 2).
	DoorbellRegister uint8 = 1

	// DoorbellGuarded: a register or the record announces work, and the WQE may come after them, as it
	// does from a GPU that writes it without a fence for the whole system. The device executes a WQE only
	// when two reads agree, and its index, queue number and size are right.
	DoorbellGuarded uint8 = 2
)

// The bits of the byte of Scatter that NoSend and Doorbells have.
const (
	scatterBits   = 2
	doorbellShift = 3
)

func (m *QP) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("send_cqn", &m.SendCQN)
	w.u32("recv_cqn", &m.RecvCQN)
	w.u32("user_index", &m.UserIndex)
	w.u64("sq", &m.SQ)
	w.u64("rq", &m.RQ)
	w.u64("dbrec", &m.DBRec)
	w.u8("type", &m.Type)
	w.u8("log_sq", &m.LogSQ)
	w.u8("log_rq", &m.LogRQ)
	w.u8("log_rq_stride", &m.LogRQStride)
	w.u16("uar", &m.UAR)
	w.u8("no_receive", &m.NoReceive)
	w.u8("signature_on", &m.SignatureOn)
	w.u32("srqn", &m.SRQN)
	w.u8("managed", &m.Managed)
	w.u8("blue_flame", &m.BlueFlame)
	// A value that is too large must not become a bit of the next field: the device refuses it, or takes
	// it for 1.
	const mostDoorbells = 1<<(8-doorbellShift) - 1
	flags := m.Scatter | min(m.NoSend, 1)<<scatterBits | min(m.Doorbells, mostDoorbells)<<doorbellShift
	w.u8("scatter", &flags)
	m.Scatter, m.NoSend, m.Doorbells = flags&(1<<scatterBits-1), flags>>scatterBits&1, flags>>doorbellShift
	w.u8("streams", &m.Streams)
}

// Flags of QP.Scatter: short data that come for the queue pair are put into the CQE and not
// into the memory that the work request names. The CQE has room for 32 bytes, or for 64 bytes
// if it has 128. The client copies the data when it polls the CQE.
const (
	ScatterRequester uint8 = 1 << 0 // cs_req: results of READs and atomics that ask for a completion
	ScatterResponder uint8 = 1 << 1 // cs_res: messages that take a receive
)

// QPN names a queue pair: 24 bits, unique in the device.
type QPN struct {
	QPN uint32
}

func (m *QPN) walk(w walker) { w.u32("qpn", &m.QPN) }

// States of a QP, with the numbers of mlx5.
const (
	StateRST  uint8 = 0
	StateINIT uint8 = 1
	StateRTR  uint8 = 2
	StateRTS  uint8 = 3
	StateSQE  uint8 = 4
	StateSQD  uint8 = 5
	StateERR  uint8 = 6
)

// Bits of QPAttr.Mask, which say which attributes a modify request sets. They are those of
// ibv_qp_attr_mask in verbs.
const (
	AttrState         uint32 = 1 << 0
	AttrCurState      uint32 = 1 << 1
	AttrAccess        uint32 = 1 << 3
	AttrPKeyIndex     uint32 = 1 << 4
	AttrPort          uint32 = 1 << 5
	AttrQKey          uint32 = 1 << 6
	AttrAV            uint32 = 1 << 7 // the field GUID
	AttrPathMTU       uint32 = 1 << 8
	AttrTimeout       uint32 = 1 << 9
	AttrRetryCount    uint32 = 1 << 10
	AttrRNRRetry      uint32 = 1 << 11
	AttrRQPSN         uint32 = 1 << 12
	AttrMaxRdAtomic   uint32 = 1 << 13
	AttrMinRNRTimer   uint32 = 1 << 15
	AttrSQPSN         uint32 = 1 << 16
	AttrMaxDestRdAtom uint32 = 1 << 17
	AttrDestQPN       uint32 = 1 << 20
)

// QPAttr holds the attributes of a QP. A modify request sets the attributes that Mask names.
// A query returns all of them.
type QPAttr struct {
	QPN             uint32
	Mask            uint32
	State           uint8
	CurState        uint8
	Port            uint8
	PathMTU         uint8 // 1 = 256 bytes .. 5 = 4096 bytes
	Timeout         uint8 // 0..31: 4.096 us << Timeout, 0 = forever
	RetryCount      uint8 // 0..7
	RNRRetry        uint8 // 0..7, 7 = forever
	MinRNRTimer     uint8 // 0..31, a code from the table in the InfiniBand specification
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	PKeyIndex       uint16
	Access          uint32 // AccessRemote*
	RQPSN           uint32 // 24 bits
	SQPSN           uint32 // 24 bits
	DestQPN         uint32 // 24 bits
	GUID            uint64 // GUID of the peer's device
	QKey            uint32 // for UD

	// The device sets these in its answers; in those of older devices they are padding. They count blocks
	// of the send queue, modulo 2^16.
	Executed  uint16 // by the device
	Announced uint16 // by doorbells
}

func (m *QPAttr) walk(w walker) {
	w.u32("qpn", &m.QPN)
	w.u32("mask", &m.Mask)
	w.u8("state", &m.State)
	w.u8("cur_state", &m.CurState)
	w.u8("port", &m.Port)
	w.u8("path_mtu", &m.PathMTU)
	w.u8("timeout", &m.Timeout)
	w.u8("retry_count", &m.RetryCount)
	w.u8("rnr_retry", &m.RNRRetry)
	w.u8("min_rnr_timer", &m.MinRNRTimer)
	w.u8("max_rd_atomic", &m.MaxRdAtomic)
	w.u8("max_dest_rd_atomic", &m.MaxDestRdAtomic)
	w.u16("pkey_index", &m.PKeyIndex)
	w.u32("access", &m.Access)
	w.u32("rq_psn", &m.RQPSN)
	w.u32("sq_psn", &m.SQPSN)
	w.u32("dest_qpn", &m.DestQPN)
	w.u64("guid", &m.GUID)
	w.u32("qkey", &m.QKey)
	w.u16("executed", &m.Executed)
	w.u16("announced", &m.Announced)
}
