package cqe

import (
	"encoding/binary"
	"strconv"
)

// WCStatus is the outcome of a work request, with the numbers of verbs (enum
// ibv_wc_status).
type WCStatus uint8

// Statuses that an entry can lead to.
const (
	StatusSuccess     WCStatus = 0
	StatusLocLen      WCStatus = 1
	StatusLocQPOp     WCStatus = 2
	StatusLocProt     WCStatus = 4
	StatusFlush       WCStatus = 5
	StatusMWBind      WCStatus = 6
	StatusBadResp     WCStatus = 7
	StatusLocAccess   WCStatus = 8
	StatusRemInvReq   WCStatus = 9
	StatusRemAccess   WCStatus = 10
	StatusRemOp       WCStatus = 11
	StatusRetryExc    WCStatus = 12
	StatusRNRRetryExc WCStatus = 13
	StatusRemAbort    WCStatus = 16
	StatusGeneral     WCStatus = 21
	StatusNone        WCStatus = 255 // not in verbs: the entry completes no work request
)

var statusNames = [...]string{
	StatusSuccess: "SUCCESS", StatusLocLen: "LOC_LEN_ERR", StatusLocQPOp: "LOC_QP_OP_ERR",
	StatusLocProt: "LOC_PROT_ERR", StatusFlush: "WR_FLUSH_ERR", StatusMWBind: "MW_BIND_ERR",
	StatusBadResp: "BAD_RESP_ERR", StatusLocAccess: "LOC_ACCESS_ERR", StatusRemInvReq: "REM_INV_REQ_ERR",
	StatusRemAccess: "REM_ACCESS_ERR", StatusRemOp: "REM_OP_ERR", StatusRetryExc: "RETRY_EXC_ERR",
	StatusRNRRetryExc: "RNR_RETRY_EXC_ERR", StatusRemAbort: "REM_ABORT_ERR", StatusGeneral: "GENERAL_ERR",
	StatusNone: "none",
}

// String returns the verbs name without IBV_WC_.
func (s WCStatus) String() string {
	if n := statusNames[s]; n != "" {
		return n
	}
	return "status " + strconv.Itoa(int(s))
}

// WCOpcode is the kind of a completed request, with the numbers of verbs (enum
// ibv_wc_opcode).
type WCOpcode uint8

// Opcodes that an entry can lead to.
const (
	WCSend        WCOpcode = 0
	WCRDMAWrite   WCOpcode = 1
	WCRDMARead    WCOpcode = 2
	WCCompSwap    WCOpcode = 3
	WCFetchAdd    WCOpcode = 4
	WCBindMW      WCOpcode = 5 // no entry leads to this; only the poster's own notes say it
	WCLocalInv    WCOpcode = 6 // no entry leads to this; only the poster's own notes say it
	WCTSO         WCOpcode = 7
	WCRecv        WCOpcode = 128
	WCRecvRDMAImm WCOpcode = 129
	WCFromPost    WCOpcode = 255 // not in verbs: only the poster knows the operation
)

// String returns the verbs name without IBV_WC_, or "from_post".
func (o WCOpcode) String() string {
	switch o {
	case WCSend:
		return "SEND"
	case WCRDMAWrite:
		return "RDMA_WRITE"
	case WCRDMARead:
		return "RDMA_READ"
	case WCCompSwap:
		return "COMP_SWAP"
	case WCFetchAdd:
		return "FETCH_ADD"
	case WCBindMW:
		return "BIND_MW"
	case WCLocalInv:
		return "LOCAL_INV"
	case WCTSO:
		return "TSO"
	case WCRecv:
		return "RECV"
	case WCRecvRDMAImm:
		return "RECV_RDMA_WITH_IMM"
	case WCFromPost:
		return "from_post"
	}
	return "opcode " + strconv.Itoa(int(o))
}

// WCFlags says which parts of a WC are valid (enum ibv_wc_flags).
type WCFlags uint8

// Flags of a WC.
const (
	WCGRH     WCFlags = 1 // the receive list begins with a GRH
	WCWithImm WCFlags = 2 // receives: Imm is an immediate; sends: the request had an immediate
	WCWithInv WCFlags = 8 // Imm is an rkey that was invalidated
)

// WC is the work completion that a verbs poller reports for one entry (struct ibv_wc).
// It has no wr_id, because only the poster knows that. Fields that do not apply are 0.
type WC struct {
	Status    WCStatus
	Opcode    WCOpcode // set on success only; a poller that has the poster's own notes sets it on errors too
	Flags     WCFlags  // set on success only
	Kind      Opcode   // opcode of the entry itself
	WQEOpcode uint8    // requester: opcode of the send WQE
	Syndrome  Syndrome // failure only
	VendorErr uint8    // failure only
	SL        uint8    // service level; SL, PathBits, SLID, PKeyIndex and SrcQP are for receives only
	PathBits  uint8    // destination path bits
	Counter   uint16   // wqe_counter, before masking with the ring's size
	SLID      uint16   // source LID
	PKeyIndex uint16
	SrcQP     uint32
	Imm       uint32 // immediate, its bytes read big-endian, or invalidated rkey
	ByteLen   uint32 // receives, READ and atomics
	QPN       uint32
	UIdx      uint32 // user index, or SRQ number in entries of version 0
}

// Requester reports whether the entry completes send WQEs. If it does, Counter is a
// block of the send queue; otherwise Counter is the index of a receive.
func (w *WC) Requester() bool { return w.Kind == Req || w.Kind == ReqErr }

// HasByteLen reports whether ByteLen is valid, as it is for successful receives, READs
// and atomics.
func (w *WC) HasByteLen() bool {
	switch w.Opcode {
	case WCRDMARead, WCCompSwap, WCFetchAdd, WCRecv, WCRecvRDMAImm:
		return w.Status == StatusSuccess
	}
	return false
}

// A sendOp says what libmlx5 reports for a requester's entry with one opcode. The table
// of opcodes is in package wqe. sendop.go is generated from that table, because the
// format packages do not import each other.
type sendOp struct {
	known bool // libmlx5 knows the operation from the entry; false: only the poster knows it
	wc    WCOpcode
	flags WCFlags
	bytes uint8
}

// Values of sendOp.bytes. They say where the byte count of a requester's completion comes from.
const (
	noBytes      = iota
	countedBytes // byte_cnt
	atomicBytes  // 8, whatever byte_cnt is
)

// ParseWC returns the result of [WC.Parse] as a value.
func ParseWC(src *[Size]byte) (w WC) {
	w.Parse(src)
	return w
}

// Parse sets w to what a verbs poller reports for an entry, bit for bit as libmlx5 does.
// For example, inline data (format 1) in the entry of a receive overwrites the path and
// the source QP; Parse, like libmlx5, then returns bytes of the data as path and source
// QP. Parse works in place, because copying a WC right after its fields were stored one
// by one costs more than filling it.
func (w *WC) Parse(src *[Size]byte) {
	be := binary.BigEndian
	tail := Tail(be.Uint64(src[OffTail:]))
	kind := tail.OpOwn().Opcode()
	*w = WC{
		Kind:    kind,
		Counter: tail.Counter(),
		QPN:     tail.QPN(),
		UIdx:    be.Uint32(src[OffUIdx:]) & Mask24,
	}
	switch kind {
	case Req:
		w.request(tail.WQEOpcode(), be.Uint32(src[OffByteCount:]))
	case RespSend, RespWriteImm, RespSendImm, RespSendInv:
		w.receive(kind, src)
	case ReqErr:
		w.WQEOpcode = tail.WQEOpcode()
		w.fail(src)
	case RespErr:
		w.fail(src)
	default:
		w.Status = StatusNone
	}
}

// request fills in the fields of a successful requester entry.
func (w *WC) request(wqeOpcode uint8, byteCount uint32) {
	w.WQEOpcode, w.Opcode = wqeOpcode, WCFromPost
	if o := &sendOps[wqeOpcode]; o.known {
		w.Opcode, w.Flags = o.wc, o.flags
		switch o.bytes {
		case countedBytes:
			w.ByteLen = byteCount
		case atomicBytes:
			w.ByteLen = 8
		}
	}
}

// receive fills in the fields of a successful responder entry.
func (w *WC) receive(kind Opcode, src *[Size]byte) {
	be := binary.BigEndian
	flags, imm := be.Uint32(src[OffFlagsRQPN:]), be.Uint32(src[OffImm:])
	op, wcFlags := WCRecv, WCFlags(0)
	switch kind {
	case RespWriteImm:
		op, wcFlags, w.Imm = WCRecvRDMAImm, WCWithImm, imm
	case RespSendImm:
		wcFlags, w.Imm = WCWithImm, imm
	case RespSendInv:
		wcFlags, w.Imm = WCWithInv, imm
	}
	if flags&grhMask != 0 {
		wcFlags |= WCGRH
	}
	w.Opcode, w.Flags = op, wcFlags
	w.SL = uint8(flags>>24) & 0xf
	w.SrcQP = flags & Mask24
	w.PathBits = src[OffMLPath] & 0x7f
	w.SLID = be.Uint16(src[OffSLID:])
	w.PKeyIndex = uint16(imm)
	w.ByteLen = be.Uint32(src[OffByteCount:])
}

// fail fills in the fields of an error entry.
func (w *WC) fail(src *[Size]byte) {
	w.Syndrome, w.VendorErr = Syndrome(src[OffSyndrome]), src[OffVendor]
	w.Status = w.Syndrome.Status()
}

// WC returns [ParseWC] of the bytes that Put writes for c.
func (c *CQE) WC() WC {
	var b [Size]byte
	c.Put(&b)
	return ParseWC(&b)
}

// Err returns the failure that w reports, or nil if it reports none. id is the wr_id
// for the error.
func (w *WC) Err(id uint64) error {
	if w.Status == StatusSuccess || w.Status == StatusNone {
		return nil
	}
	return &WorkError{QPN: w.QPN, Receive: !w.Requester(), Index: w.Counter, Opcode: w.WQEOpcode,
		Cause: w.Syndrome, Vendor: w.VendorErr, ID: id}
}
