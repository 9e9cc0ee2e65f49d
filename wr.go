package nicless

import "github.com/nicless/nicless/hostpath"

// A SendWR is a work request for a send queue. Posting reads it and keeps
// nothing of it but ID. Its payload is SGE or Data, not both. Fields that an operation
// does not use are ignored.
//
//	ID    uint64 // comes back in the completion
//	Op    Op     // what to do
//	Flags Flags  // Signaled: complete on success too, not on failure only
//
//	SGE  []SGE  // local memory to send from or write from; of READ and atomics, to fill
//	Data []byte // or a payload within the WQE: copied, at most QPConfig.MaxInline bytes
//
//	RemoteAddr uint64 // memory of the peer, of READ, WRITE and atomics,
//	RKey       uint32 // and its key; of SendInval and LocalInval the key to invalidate
//	Imm        uint32 // the immediate of WriteImm and SendImm
//
//	SwapAdd uint64 // CompareSwap: the new value. FetchAdd: the addend
//	Compare uint64 // CompareSwap: the value to find
//	Mask    *Mask  // masked atomics: which bits
//
//	To    *Address // UD: the receiver; see QP.AddressOf
//	Bind  *Bind    // BindMW: see Window.Bind
//	List  *List    // BindList: see ListKey.List
//	Queue uint32   // WaitCQ: a CQ's number. SendEnable: a QP's
//	Index uint32   // WaitCQ: see CQ.Index. SendEnable: see QP.SendIndex
//
// An atomic takes one SGE as long as what it works on: 8 bytes; the masked ones
// 4, too. Dump takes one, Copy two of one length, the source first. An SGE of
// length 0 is skipped.
type SendWR = hostpath.SendWR

// A RecvWR is a work request for a receive queue: memory that a message fills, piece by
// piece.
//
//	ID  uint64 // comes back in the completion
//	SGE []SGE  // where the message goes; on UD GRHSize bytes come before it
type RecvWR = hostpath.RecvWR

// An SGE is a piece of registered memory of this side. MR.SGE makes one.
//
//	Addr   uint64 // as the key was registered with
//	Length uint32 // at most 1<<31
//	LKey   uint32
type SGE = hostpath.SGE

// An Op is the operation of a SendWR, by the verbs names: Write, Read, Send and
// the others of package nicless. String returns the name, such as "WRITE_IMM".
type Op = hostpath.Op

// Operations, for SendWR.Op.
const (
	Nop      = hostpath.OpNop
	Write    = hostpath.OpWrite    // RDMA write
	WriteImm = hostpath.OpWriteImm // RDMA write that consumes a receive and delivers Imm
	Read     = hostpath.OpRead     // RDMA read
	Send     = hostpath.OpSend     // message to a posted receive
	SendImm  = hostpath.OpSendImm  // message with Imm

	CompareSwap       = hostpath.OpCompareSwap       // atomic, of 8 bytes
	FetchAdd          = hostpath.OpFetchAdd          // atomic, of 8 bytes
	MaskedCompareSwap = hostpath.OpMaskedCompareSwap // atomic, of some bits of 4 or 8 bytes
	MaskedFetchAdd    = hostpath.OpMaskedFetchAdd    // atomic, in fields of 4 or 8 bytes

	SendInval  = hostpath.OpSendInval  // message that invalidates RKey at the receiver
	LocalInval = hostpath.OpLocalInval // invalidate RKey, of a Window or ListKey of this side
	BindMW     = hostpath.OpBindMW     // open or close a Window
	BindList   = hostpath.OpBindList   // fill a ListKey

	Dump       = hostpath.OpDump       // local read whose bytes go nowhere
	Copy       = hostpath.OpCopy       // copy between two places of this side
	WaitCQ     = hostpath.OpWaitCQ     // hold the queue until a CQ has so many completions
	SendEnable = hostpath.OpSendEnable // let a Managed queue execute up to an index
)

// Flags of a SendWR, by the verbs numbers: Fence has it start after earlier READs
// and atomics of its queue are done, Signaled deliver a completion on success
// too, Solicited raise a solicited event at the receiver.
type Flags = hostpath.Flags

// Flags of a send.
const (
	Signaled  = hostpath.Signaled  // deliver a completion on success too
	Solicited = hostpath.Solicited // the receiver's completion raises a solicited event
	Fence     = hostpath.Fence     // start after earlier READs and atomics of the queue
)

// An Address is where datagrams go. QP.AddressOf and Context.Address make one;
// it may be used for any number of sends.
//
//	AV   wqe.AV // the way
//	QPN  uint32 // the receiver
//	QKey uint32 // what it wants datagrams to bring; with bit 31 set: the sender's own
type Address = hostpath.Address

// A Mask says which bits a masked atomic compares and changes. Of operands of 4
// bytes the low halves count.
//
//	Swap     uint64 // CompareSwap: bits that are replaced, if the comparison holds
//	Compare  uint64 // CompareSwap: bits that are compared; 0: it always holds
//	Boundary uint64 // FetchAdd: the top bit of each field, beyond which no carry goes; 0: one field
type Mask = hostpath.Mask

// A Bind says which memory a window is to open. Window.Bind makes one.
//
//	Type   uint8  // 1 or 2: a window of type 2 belongs to the queue pair that binds it
//	MW     uint32 // the window's rkey so far
//	RKey   uint32 // its rkey from now on: only the low 8 bits may differ
//	LKey   uint32 // of the memory behind it
//	Addr   uint64
//	Length uint64 // at most 1<<31; 0 closes the window
//	Access uint32 // an Access
type Bind = hostpath.Bind

// A List says of which pieces a list key is to be a list. ListKey.List and
// ListKey.Interleave make one.
//
//	Key     uint32
//	Access  uint32 // an Access
//	Entries []ListEntry
//	Repeat  uint32 // how many times the list has the entries; 0: once
type List = hostpath.List

// A ListEntry is a piece of a List: an SGE, and how much further on it lies at each
// repetition.
//
//	SGE
//	Stride uint32 // bytes
type ListEntry = hostpath.ListEntry

// A Completion is the outcome of one work request. It is a value: nothing in it
// changes when the queue goes on.
//
//	ID        uint64       // of the work request
//	Status    cqe.WCStatus // cqe.StatusSuccess, or why it failed
//	Opcode    cqe.WCOpcode // what was done: cqe.WCRDMAWrite, cqe.WCRecv, …
//	ByteLen   uint32       // of receives, READs and atomics
//	Imm       uint32       // the immediate, or the rkey that was invalidated, as Flags say
//	Flags     cqe.WCFlags
//	SrcQP     uint32 // UD receives: the sender
//	QPN       uint32 // the queue pair
//	Timestamp uint64 // ticks of the device clock; 0 on errors. See Status.Hz
//
// The other fields of cqe.WC, which it embeds, hold all that verbs reports. Its methods:
//
//	Err() error     // nil on success, and a *cqe.WorkError otherwise
//	String() string // in words, for logs
type Completion = hostpath.Completion
