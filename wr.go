package nicless

import "github.com/nicless/nicless/hostpath"

// A SendWR is a work request for a send queue. Posting keeps nothing of it except ID, so
// that the SendWR can be reused after the call. The payload is in SGE or in Data, not in
// both. Fields that an operation does not use are ignored.
//
//	ID    uint64 // returned in the completion
//	Op    Op     // the operation
//	Flags Flags  // Signaled: complete on success too, not only on failure
//
//	SGE  []SGE  // local memory: the source of SEND and WRITE, the destination of READ and atomics
//	Data []byte // instead of SGE: a payload copied into the WQE, at most QPConfig.MaxInline bytes
//
//	RemoteAddr uint64 // READ, WRITE, atomics: an address in the peer's memory
//	RKey       uint32 // READ, WRITE, atomics: that memory's key. SendInval, LocalInval: what to invalidate
//	Imm        uint32 // WriteImm, SendImm: the immediate
//
//	SwapAdd uint64 // CompareSwap: the new value. FetchAdd: the addend
//	Compare uint64 // CompareSwap: the value to compare with
//	Mask    *Mask  // masked atomics: the bits that are compared and changed
//
//	To    *Address // UD: the receiver; see QP.AddressOf
//	Bind  *Bind    // BindMW: see Window.Bind
//	List  *List    // BindList: see ListKey.List
//	Queue uint32   // WaitCQ: the number of a CQ. SendEnable: the number of a QP
//	Index uint32   // WaitCQ: see CQ.Index. SendEnable: see QP.SendIndex
//
// An atomic takes one SGE with the length of its operand, which is 8 bytes, or 4 or 8 bytes
// for masked atomics. Dump takes one SGE. Copy takes two SGEs of equal length, the source
// first. SGEs of length 0 are skipped.
type SendWR = hostpath.SendWR

// A RecvWR is a work request for a receive queue: memory that a message fills, piece by
// piece.
//
//	ID  uint64 // returned in the completion
//	SGE []SGE  // memory for the message; on UD, GRHSize bytes come before the message
type RecvWR = hostpath.RecvWR

// An SGE is a piece of registered memory of this side. MR.SGE makes one.
//
//	Addr   uint64 // an address in the range for which the key was registered
//	Length uint32 // at most 1<<31
//	LKey   uint32
type SGE = hostpath.SGE

// An Op is the operation of a SendWR, such as Write, Read or Send. The names are those of
// verbs. String returns the name, such as "WRITE_IMM".
type Op = hostpath.Op

// Operations, for SendWR.Op.
const (
	Nop      = hostpath.OpNop
	Write    = hostpath.OpWrite    // RDMA write
	WriteImm = hostpath.OpWriteImm // RDMA write that also consumes a receive and delivers Imm
	Read     = hostpath.OpRead     // RDMA read
	Send     = hostpath.OpSend     // message to a posted receive
	SendImm  = hostpath.OpSendImm  // message with Imm

	CompareSwap       = hostpath.OpCompareSwap       // atomic on 8 bytes
	FetchAdd          = hostpath.OpFetchAdd          // atomic on 8 bytes
	MaskedCompareSwap = hostpath.OpMaskedCompareSwap // atomic on some bits of 4 or 8 bytes
	MaskedFetchAdd    = hostpath.OpMaskedFetchAdd    // atomic on bit fields within 4 or 8 bytes

	SendInval  = hostpath.OpSendInval  // message that invalidates RKey at the receiver
	LocalInval = hostpath.OpLocalInval // invalidate RKey of a Window or ListKey of this side
	BindMW     = hostpath.OpBindMW     // open or close a Window
	BindList   = hostpath.OpBindList   // fill a ListKey

	Dump       = hostpath.OpDump       // read local memory and discard the bytes
	Copy       = hostpath.OpCopy       // copy from local memory to local memory
	WaitCQ     = hostpath.OpWaitCQ     // hold the queue until a CQ has had Index completions
	SendEnable = hostpath.OpSendEnable // let a Managed queue execute its blocks up to Index
)

// Flags are the flags of a SendWR: Signaled, Solicited and Fence. The numbers are those of
// verbs.
type Flags = hostpath.Flags

// Flags of a send.
const (
	Signaled  = hostpath.Signaled  // deliver a completion on success too
	Solicited = hostpath.Solicited // the receiver's completion raises a solicited event
	Fence     = hostpath.Fence     // start after earlier READs and atomics of the queue are done
)

// An Address is the destination of datagrams. QP.AddressOf and Context.Address make one. It
// may be used for any number of sends.
//
//	AV   wqe.AV // the address vector
//	QPN  uint32 // the receiver
//	QKey uint32 // the receiver's Q_Key; if bit 31 is set, the sender's own Q_Key is sent instead
type Address = hostpath.Address

// A Mask says which bits a masked atomic compares and changes. For operands of 4 bytes only
// the low halves of the fields count.
//
//	Swap     uint64 // CompareSwap: bits that are replaced if the comparison holds
//	Compare  uint64 // CompareSwap: bits that are compared; if 0, the comparison always holds
//	Boundary uint64 // FetchAdd: has a 1 at the top bit of each field, which no carry leaves; 0: one field
type Mask = hostpath.Mask

// A Bind says which memory a window opens. Window.Bind makes one.
//
//	Type   uint8  // 1 or 2: a window of type 2 belongs to the queue pair that binds it
//	MW     uint32 // the window's present rkey
//	RKey   uint32 // the window's new rkey: only the low 8 bits may differ from MW
//	LKey   uint32 // the key of the memory
//	Addr   uint64
//	Length uint64 // at most 1<<31; 0 closes the window
//	Access uint32 // an Access
type Bind = hostpath.Bind

// A List says which pieces of memory a list key consists of. ListKey.List and
// ListKey.Interleave make one.
//
//	Key     uint32
//	Access  uint32 // an Access
//	Entries []ListEntry
//	Repeat  uint32 // how many times the entries occur in the list; 0: once
type List = hostpath.List

// A ListEntry is a piece of a List: an SGE, and the distance by which its address grows at
// each repetition.
//
//	SGE
//	Stride uint32 // bytes
type ListEntry = hostpath.ListEntry

// A Completion is the outcome of one work request. It is a copy, which does not change when
// the queue advances.
//
//	ID        uint64       // the ID of the work request
//	Status    cqe.WCStatus // cqe.StatusSuccess, or why the work request failed
//	Opcode    cqe.WCOpcode // what was done: cqe.WCRDMAWrite, cqe.WCRecv, …
//	ByteLen   uint32       // receives, READs and atomics: the number of bytes
//	Imm       uint32       // the immediate, or the rkey that was invalidated; Flags says which
//	Flags     cqe.WCFlags
//	SrcQP     uint32 // UD receives: the sender
//	QPN       uint32 // the queue pair
//	Timestamp uint64 // ticks of the device clock; 0 on errors. See Status.Hz
//
// A Completion embeds cqe.WC, whose other fields hold everything that verbs reports. Its
// methods:
//
//	Err() error     // nil on success, and a *FaultError otherwise; ErrNotPolled of the zero Completion
//	String() string // in words, for logs
type Completion = hostpath.Completion

// A FaultError says why a work request has failed. It is the error of Completion.Err, for errors.As. It
// unwraps to a *cqe.WorkError, and so to a cqe.Syndrome for errors.Is.
//
//	Queue    uint32       // number of the queue pair
//	Receive  bool         // the request was a receive, not a send
//	Index    uint16       // first block of the send WQE, or index of the receive
//	ID       uint64       // ID of the work request
//	Syndrome cqe.Syndrome // what hardware says, too; cqe.Flush: the request was not executed
//	Vendor   uint8
//	Code     string       // what the device explains: a code of docs/EXPLANATIONS.md
//	Text     string       // what was found, and what is allowed
//	Bytes    []byte       // the first 64 bytes of the WQE or receive at fault, if known
//	Cause    *FaultPlace  // where the cause was, if it was elsewhere: the WQE before a flush
//	Overrun  bool         // the explanation has been lost; Lost says why
//	Stack    []string     // where the request was posted, with QPConfig.Stacks
type FaultError = hostpath.FaultError

// A FaultPlace is an entry of a queue.
//
//	Queue uint32 // number of the queue pair, or of the CQ if Of is "cqe"
//	Index uint16
//	Of    string // what Index counts: "wqe", "receive" or "cqe"
type FaultPlace = hostpath.FaultPlace
