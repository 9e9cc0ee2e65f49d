package control

// Version of the protocol. A device refuses a client with another major
// number; a minor number only adds operations.
const (
	Major uint16 = 2
	Minor uint16 = 1
)

// Magic begins a Hello: "nicl" in memory order.
const Magic uint32 = 0x6c63696e

// Op is an operation of the protocol.
type Op uint16

// Operations. Each comment has the message of the request and, after the arrow, the message
// of the answer; descriptors that the answer carries are in brackets. Within a major version
// the number of a removed operation is never used for another.
const (
	OpHello          Op = 1  // Hello -> Welcome + [UAR pages, status page]
	OpAllocPD        Op = 2  // Empty -> PD
	OpDeallocPD      Op = 3  // PD -> Empty
	OpCreateRegion   Op = 4  // RegionSize -> RegionID + [memory]
	OpDropRegion     Op = 5  // RegionID -> Empty
	OpRegMR          Op = 6  // MR -> Key
	OpDeregMR        Op = 7  // Key -> Empty
	OpCreateChannel  Op = 8  // Empty -> Channel + [event descriptor]
	OpDestroyChannel Op = 9  // Channel -> Empty
	OpCreateCQ       Op = 10 // CQ -> CQN
	OpDestroyCQ      Op = 11 // CQN -> Empty
	OpCreateQP       Op = 12 // QP -> QPN
	OpModifyQP       Op = 13 // QPAttr -> Empty
	OpQueryQP        Op = 14 // QPN -> QPAttr
	OpDestroyQP      Op = 15 // QPN -> Empty
	OpCreateSRQ      Op = 16 // SRQ -> SRQN
	OpModifySRQ      Op = 17 // SRQLimit -> Empty
	OpQuerySRQ       Op = 18 // SRQN -> SRQLimit
	OpDestroySRQ     Op = 19 // SRQN -> Empty
	OpResizeCQ       Op = 20 // ResizeCQ -> Empty
	OpAllocMW        Op = 21 // MW -> Key
	OpCreateMkey     Op = 22 // Mkey -> Key
	OpReregMR        Op = 23 // ReregMR -> Key
	OpOpenEvents     Op = 24 // Empty -> Empty + [event descriptor]
	OpWake           Op = 25 // Wake -> Empty + [eventfd, if wakes is 1]
	OpPlaceRegion    Op = 26 // Placement -> Empty
	OpOpenXRCD       Op = 27 // Empty -> XRCD
	OpCloseXRCD      Op = 28 // XRCD -> Empty
	OpCreateXSRQ     Op = 29 // XSRQ -> SRQN
	OpCreateTarget   Op = 30 // XRCD -> QPN
	OpOpenTarget     Op = 31 // Target -> Empty
)

// Features that a Hello may ask for and a Welcome may grant.
const (
	FeatureWake uint64 = 1 << 0 // the client may ask for OpWake
	Features           = FeatureWake
)

// Empty is a payload of no bytes.
type Empty struct{}

func (*Empty) walk(walker) {}

// Hello is the first request on a connection.
type Hello struct {
	Magic    uint32
	Major    uint16
	Minor    uint16
	Features uint64 // features that the client wants
	Name     string // name of the program, for the device's log
}

func (m *Hello) walk(w walker) {
	w.u32("magic", &m.Magic)
	w.u16("major", &m.Major)
	w.u16("minor", &m.Minor)
	w.u64("features", &m.Features)
	w.text("name", &m.Name)
}

// Welcome answers Hello: it identifies the device and gives the limits of one client.
type Welcome struct {
	Major         uint16
	Minor         uint16
	UARPages      uint32 // number of 4096-byte pages in the memory of the first descriptor
	Features      uint64 // the features that the client wants and the device grants
	GUID          uint64 // GUID of the device; no two engines have the same
	MaxRegions    uint32
	MaxPDs        uint32
	MaxMRs        uint32
	MaxCQs        uint32
	MaxQPs        uint32
	MaxChannels   uint32
	MaxBytes      uint64 // bytes in all regions together
	MaxLogSQ      uint8  // log2 of 64-byte blocks
	MaxLogRQ      uint8  // log2 of receive entries
	MaxLogCQ      uint8  // log2 of CQEs
	MaxRdAtomic   uint8
	MaxMessageLog uint8 // log2 of bytes
}

func (m *Welcome) walk(w walker) {
	w.u16("major", &m.Major)
	w.u16("minor", &m.Minor)
	w.u32("uar_pages", &m.UARPages)
	w.u64("features", &m.Features)
	w.u64("guid", &m.GUID)
	w.u32("max_regions", &m.MaxRegions)
	w.u32("max_pds", &m.MaxPDs)
	w.u32("max_mrs", &m.MaxMRs)
	w.u32("max_cqs", &m.MaxCQs)
	w.u32("max_qps", &m.MaxQPs)
	w.u32("max_channels", &m.MaxChannels)
	w.u64("max_bytes", &m.MaxBytes)
	w.u8("max_log_sq", &m.MaxLogSQ)
	w.u8("max_log_rq", &m.MaxLogRQ)
	w.u8("max_log_cq", &m.MaxLogCQ)
	w.u8("max_rd_atomic", &m.MaxRdAtomic)
	w.u8("max_message_log", &m.MaxMessageLog)
}

// PD names a protection domain of this client.
type PD struct {
	PDN uint32
}

func (m *PD) walk(w walker) { w.u32("pdn", &m.PDN) }

// RegionSize asks for a region of this many bytes, in memory that the device makes.
type RegionSize struct {
	Size uint64
}

func (m *RegionSize) walk(w walker) { w.u64("size", &m.Size) }

// Placement says that the client has mapped all of a region's memory at Addr and has
// sealed it. The regions of a client must not overlap.
type Placement struct {
	ID   uint32
	Addr uint64
}

func (m *Placement) walk(w walker) {
	w.u32("region", &m.ID)
	w.u64("addr", &m.Addr)
}

// RegionID names a region of this client.
type RegionID struct {
	ID uint32
}

func (m *RegionID) walk(w walker) { w.u32("region", &m.ID) }

// Access rights of a key, and operations that a QP allows. The bits are those of verbs.
const (
	AccessLocalWrite   uint32 = 1 << 0
	AccessRemoteWrite  uint32 = 1 << 1
	AccessRemoteRead   uint32 = 1 << 2
	AccessRemoteAtomic uint32 = 1 << 3
	AccessMWBind       uint32 = 1 << 4 // memory windows may be bound to the key
	AccessZeroBased    uint32 = 1 << 5 // addresses of the key begin at 0

	AccessAll = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic | AccessMWBind | AccessZeroBased
)

// MR registers Length bytes at the client's address Addr, inside one region. In work
// requests the addresses of the range begin at IOVA.
type MR struct {
	PDN    uint32
	Access uint32
	Addr   uint64
	Length uint64
	IOVA   uint64
}

func (m *MR) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("access", &m.Access)
	w.u64("addr", &m.Addr)
	w.u64("length", &m.Length)
	w.u64("iova", &m.IOVA)
}

// NullKey is a local key of every protection domain that needs no registration. Bytes that are
// read by it are 0, and bytes that are written by it vanish. All addresses are possible.
const NullKey uint32 = 2 << 8

// Key is a key that is both an lkey and an rkey, as on mlx5.
type Key struct {
	Key uint32
}

func (m *Key) walk(w walker) { w.u32("key", &m.Key) }

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
	CQCollapsed     uint32 = 1 << 0 // cc: every completion overwrites entry 0
	CQIgnoreOverrun uint32 = 1 << 1 // oi: the device ignores the consumer index
	CQCompressed    uint32 = 1 << 2 // cqe_comp_en: the device may write several completions as one compressed session
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

// Types of a QP, with the numbers of the st field of an mlx5 QP context.
const (
	QPTypeRC uint8 = 0
	QPTypeUC uint8 = 1
	QPTypeUD uint8 = 2

	// QPTypeXRC is a queue pair that sends by extended reliable connection: its WQEs name the
	// XSRQ that they are for. NoReceive is 1, and RecvCQN is not used. Its peer is a target
	// (OpCreateTarget).
	QPTypeXRC uint8 = 3
)

// QP creates a queue pair in state RST. SQ, RQ and DBRec are the client's addresses, inside
// its regions. SQ and RQ, the rings, are multiples of 64 bytes; DBRec is a multiple of 8.
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
	NoReceive   uint8  // 1: no receive queue; RQ and its sizes are 0
	SignatureOn uint8  // 1: WQEs have a signature, which the device checks
	SRQN        uint32 // shared receive queue in place of the RQ; 0: none
	Managed     uint8  // 1: the device executes WQEs only as far as a SEND_EN of another queue says
	BlueFlame   uint8  // 1 to 4: the register of page UAR that only this queue uses, and from which the device may take WQEs; 0: none
	Scatter     uint8  // ScatterRequester, ScatterResponder; older clients do not know the field and leave this byte as padding
}

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
	w.u8("scatter", &m.Scatter)
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
}

// SRQ creates a shared receive queue. Ring and DBRec are the client's addresses, inside its
// regions. Ring is a multiple of 64 bytes, DBRec a multiple of 4. Each entry of the ring
// begins with the link to the next entry.
type SRQ struct {
	PDN       uint32
	Limit     uint32 // see SRQLimit
	Ring      uint64
	DBRec     uint64
	LogSize   uint8 // log2 of entries
	LogStride uint8 // log2 of bytes, at least 5
}

func (m *SRQ) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("limit", &m.Limit)
	w.u64("ring", &m.Ring)
	w.u64("dbrec", &m.DBRec)
	w.u8("log_size", &m.LogSize)
	w.u8("log_stride", &m.LogStride)
}

// XRCD names an XRC domain: it contains the XSRQs that a target may use. The number is unique
// in the device. OpCreateTarget makes a queue pair that receives by extended reliable
// connection. It has neither rings nor a PD: its receives, its completions and the PD for its
// peer's keys are those of the XSRQ that each WQE of the peer names.
type XRCD struct {
	XRCDN uint32
}

func (m *XRCD) walk(w walker) { w.u32("xrcdn", &m.XRCDN) }

// XSRQ creates a shared receive queue for the targets of an XRC domain.
type XSRQ struct {
	SRQ
	XRCDN     uint32
	CQN       uint32 // completion queue of its receives
	UserIndex uint32 // 24 bits, repeated in CQEs
}

func (m *XSRQ) walk(w walker) {
	m.SRQ.walk(w)
	w.u32("xrcdn", &m.XRCDN)
	w.u32("cqn", &m.CQN)
	w.u32("user_index", &m.UserIndex)
}

// Target names a target that another client of the same domain has made. After OpOpenTarget
// this client may use it too. It ends when the last client that has it destroys it.
type Target struct {
	XRCDN uint32
	QPN   uint32
}

func (m *Target) walk(w walker) {
	w.u32("xrcdn", &m.XRCDN)
	w.u32("qpn", &m.QPN)
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

// MW makes a memory window. The window gives no access until a UMR binds it. OpDeregMR frees
// a window too.
type MW struct {
	PDN  uint32
	Kind uint8 // 1 or 2
}

func (m *MW) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u8("kind", &m.Kind)
}

// Mkey makes a key for a list of ranges. A UMR fills the list. OpDeregMR frees such a key too.
type Mkey struct {
	PDN     uint32
	Entries uint32 // most entries that the list may have
}

func (m *Mkey) walk(w walker) {
	w.u32("pdn", &m.PDN)
	w.u32("entries", &m.Entries)
}

// Bits of ReregMR.What.
const (
	ReregRange  uint32 = 1 << 0
	ReregPD     uint32 = 1 << 1
	ReregAccess uint32 = 1 << 2
)

// ReregMR changes those attributes of an MR that What names. The key gets another variant,
// so that the old key is no longer valid. The answer is the new key.
type ReregMR struct {
	Key    uint32
	What   uint32
	PDN    uint32
	Access uint32
	Addr   uint64
	Length uint64
	IOVA   uint64
}

func (m *ReregMR) walk(w walker) {
	w.u32("key", &m.Key)
	w.u32("what", &m.What)
	w.u32("pdn", &m.PDN)
	w.u32("access", &m.Access)
	w.u64("addr", &m.Addr)
	w.u64("length", &m.Length)
	w.u64("iova", &m.IOVA)
}
