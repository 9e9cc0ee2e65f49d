package nicless

import (
	"log/slog"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/post"
)

// The objects of the host API. An alias shows neither methods nor fields here:
// go doc ./hostpath CQ, for instance, shows them.
type (
	// A Context is one client of a device, and makes everything else: AllocPD,
	// CreateCQ, CreateChannel; NextEvent and OnExplanation tell what happens. See
	// [hostpath.Context].
	Context = hostpath.Context

	// A PD is a protection domain, within which keys and queue pairs work
	// together: RegisterMemory, CreateQP, CreateSRQ. See [hostpath.PD].
	PD = hostpath.PD

	// An MR is registered memory: Bytes, and for work requests SGE, Addr, LKey,
	// RKey. See [hostpath.MR].
	MR = hostpath.MR

	// A Window is an rkey to a part of an MR that work requests open and close.
	// See [hostpath.Window].
	Window = hostpath.Window

	// A ListKey is a key that strings pieces of memory together. See
	// [hostpath.ListKey].
	ListKey = hostpath.ListKey

	// A Channel tells of completions on several CQs. See [hostpath.Channel].
	Channel = hostpath.Channel

	// A CQ is a completion queue: Poll looks, Wait sleeps. See [hostpath.CQ].
	CQ = hostpath.CQ

	// An SRQ is a receive queue that several queue pairs share. See [hostpath.SRQ].
	SRQ = hostpath.SRQ

	// A QP is a queue pair: Connect or Activate, PostSend, PostRecv. See
	// [hostpath.QP].
	QP = hostpath.QP

	// An Export is a queue pair for an accelerator: accel.NewQueue takes it. See
	// [hostpath.QP.Export].
	Export = hostpath.Export

	// A Raw is the shared memory of a queue pair, and a RawCQ that of a CQ. See
	// [hostpath.Raw], [hostpath.RawCQ].
	Raw   = hostpath.Raw
	RawCQ = hostpath.RawCQ
)

// What objects are like, and are to be like.
type (
	// A CQConfig is a new CQ's: Entries, of which zero means 256, and more. See
	// [hostpath.CQConfig].
	CQConfig = hostpath.CQConfig

	// An SRQConfig is a new SRQ's: MaxWR, MaxSGE, Limit. See [hostpath.SRQConfig].
	SRQConfig = hostpath.SRQConfig

	// A QPConfig is a new QP's: SendCQ must be set. See [hostpath.QPConfig].
	QPConfig = hostpath.QPConfig

	// A Connection says how often and how long a QP tries. See
	// [hostpath.Connection].
	Connection = hostpath.Connection

	// A Transport is RC, UC or UD.
	Transport = hostpath.Transport

	// An Attr is a queue pair's state and attributes, for QP.Modify and of
	// QP.Query. See [hostpath.Attr].
	Attr = hostpath.Attr

	// An AttrMask says which fields of an Attr are meant.
	AttrMask = hostpath.AttrMask

	// A State is one of the seven of a queue pair.
	State = hostpath.State

	// A Status is what the device says of itself and of its work for a Context.
	// See [hostpath.Status].
	Status = hostpath.Status

	// Limits bound what one client may take: Regions, PDs, MRs, CQs, QPs,
	// Channels, and Bytes in all regions. See [engine.Limits].
	Limits = engine.Limits
)

// What a program tells its peer.
type (
	// A Descriptor is what the peer must know to connect: Device, Transport, QPN,
	// PSN, QKey, Memory; it travels as JSON or bytes. See [hostpath.Descriptor].
	Descriptor = hostpath.Descriptor

	// A RemoteMemory is memory of the peer: Name, Addr, Length, RKey.
	RemoteMemory = hostpath.RemoteMemory

	// An Access is what a key allows, such as LocalWrite|RemoteWrite.
	Access = hostpath.Access
)

// Work and what comes of it.
type (
	// A SendWR is a work request for QP.PostSend: ID, Op, Flags, SGE or Data,
	// RemoteAddr, RKey, and what some operations need. See [hostpath.SendWR].
	SendWR = hostpath.SendWR

	// A RecvWR is memory for QP.PostRecv to be filled by a message: ID, SGE.
	RecvWR = hostpath.RecvWR

	// An SGE is a piece of registered memory: Addr, Length, LKey. MR.SGE makes one.
	SGE = hostpath.SGE

	// An Op is an operation: Write, Read, Send and others.
	Op = hostpath.Op

	// Flags of a SendWR are Signaled, Solicited and Fence.
	Flags = hostpath.Flags

	// An Address is where datagrams go, for SendWR.To; QP.AddressOf makes one.
	Address = hostpath.Address

	// A Mask is SendWR.Mask of the masked atomics: Swap, Compare, Boundary. See
	// [hostpath.Mask].
	Mask = hostpath.Mask

	// A Bind is SendWR.Bind of BindMW; Window.Bind makes one.
	Bind = hostpath.Bind

	// A List is SendWR.List of BindList; ListKey.List makes one.
	List = hostpath.List

	// A ListEntry is a piece of a List: an SGE, and its Stride where the list
	// repeats.
	ListEntry = hostpath.ListEntry

	// A Completion is the outcome of a work request: ID, Status, Opcode, ByteLen,
	// Imm and more; Err is nil on success. See [hostpath.Completion].
	Completion = hostpath.Completion

	// An Event says that something happened to an object: Kind, Number, and the
	// object. See [hostpath.Event].
	Event = hostpath.Event

	// An EventKind says what an Event is about.
	EventKind = hostpath.EventKind

	// An Explanation says what a fault was, in words: Code, Number, Index, Text.
	// See [hostpath.Explanation].
	Explanation = hostpath.Explanation
)

// Transports.
const (
	RC = hostpath.RC
	UC = hostpath.UC
	UD = hostpath.UD
)

// GRHSize is the bytes before each received datagram.
const GRHSize = hostpath.GRHSize

// Rights of a key, and what QPConfig.Deny takes from a peer.
const (
	LocalWrite   = hostpath.LocalWrite
	RemoteWrite  = hostpath.RemoteWrite
	RemoteRead   = hostpath.RemoteRead
	RemoteAtomic = hostpath.RemoteAtomic
	MWBind       = hostpath.MWBind
	ZeroBased    = hostpath.ZeroBased
	FullAccess   = hostpath.FullAccess
)

// Operations, for SendWR.Op.
const (
	Nop      = post.OpNop
	Write    = post.OpWrite    // RDMA write
	WriteImm = post.OpWriteImm // RDMA write that consumes a receive and delivers Imm
	Read     = post.OpRead     // RDMA read
	Send     = post.OpSend     // message to a posted receive
	SendImm  = post.OpSendImm  // message with Imm

	CompareSwap       = post.OpCompareSwap       // atomic, of 8 bytes
	FetchAdd          = post.OpFetchAdd          // atomic, of 8 bytes
	MaskedCompareSwap = post.OpMaskedCompareSwap // atomic, of some bits of 4 or 8 bytes
	MaskedFetchAdd    = post.OpMaskedFetchAdd    // atomic, in fields of 4 or 8 bytes

	SendInval  = post.OpSendInval  // message that invalidates RKey at the receiver
	LocalInval = post.OpLocalInval // invalidate RKey, of a Window or ListKey of this side
	BindMW     = post.OpBindMW     // open or close a Window
	BindList   = post.OpBindList   // fill a ListKey

	Dump       = post.OpDump       // local read whose bytes go nowhere
	Copy       = post.OpCopy       // copy between two places of this side
	WaitCQ     = post.OpWaitCQ     // hold the queue until a CQ has so many completions
	SendEnable = post.OpSendEnable // let a Managed queue execute up to an index
)

// Flags of a send.
const (
	Signaled  = post.Signaled  // deliver a completion on success too
	Solicited = post.Solicited // the receiver's completion raises a solicited event
	Fence     = post.Fence     // start after earlier READs and atomics of the queue
)

// States of a queue pair.
const (
	StateRST  = hostpath.StateRST
	StateINIT = hostpath.StateINIT
	StateRTR  = hostpath.StateRTR
	StateRTS  = hostpath.StateRTS
	StateSQE  = hostpath.StateSQE
	StateSQD  = hostpath.StateSQD
	StateERR  = hostpath.StateERR
)

// Attributes of a queue pair, for Attr.Mask.
const (
	AttrState           = hostpath.AttrState
	AttrCurState        = hostpath.AttrCurState
	AttrAccess          = hostpath.AttrAccess
	AttrPKeyIndex       = hostpath.AttrPKeyIndex
	AttrPort            = hostpath.AttrPort
	AttrQKey            = hostpath.AttrQKey
	AttrDevice          = hostpath.AttrDevice
	AttrPathMTU         = hostpath.AttrPathMTU
	AttrTimeout         = hostpath.AttrTimeout
	AttrRetryCount      = hostpath.AttrRetryCount
	AttrRNRRetry        = hostpath.AttrRNRRetry
	AttrRQPSN           = hostpath.AttrRQPSN
	AttrMaxRdAtomic     = hostpath.AttrMaxRdAtomic
	AttrMinRNRTimer     = hostpath.AttrMinRNRTimer
	AttrSQPSN           = hostpath.AttrSQPSN
	AttrMaxDestRdAtomic = hostpath.AttrMaxDestRdAtomic
	AttrDestQPN         = hostpath.AttrDestQPN
)

// Kinds of events.
const (
	EventEstablished    = hostpath.EventEstablished
	EventDrained        = hostpath.EventDrained
	EventCQError        = hostpath.EventCQError
	EventInvalidRequest = hostpath.EventInvalidRequest
	EventAccessError    = hostpath.EventAccessError
	EventLastWQE        = hostpath.EventLastWQE
	EventSRQLimit       = hostpath.EventSRQLimit
	EventExplanation    = hostpath.EventExplanation
)

// NoRetry, as a count of retries in a Connection, means none.
const NoRetry = hostpath.NoRetry

// Errors that callers branch on. Failures of work requests are *cqe.WorkError,
// whose causes are cqe.Syndrome values: errors.Is(err, cqe.RemoteAccess).
var (
	ErrFull         = hostpath.ErrFull
	ErrClosed       = hostpath.ErrClosed
	ErrDeviceGone   = hostpath.ErrDeviceGone
	ErrOverrun      = hostpath.ErrOverrun
	ErrNotConnected = hostpath.ErrNotConnected
	ErrInvalid      = hostpath.ErrInvalid
	ErrNotFound     = hostpath.ErrNotFound
	ErrBusy         = hostpath.ErrBusy
	ErrLimit        = hostpath.ErrLimit
	ErrState        = hostpath.ErrState
	ErrVersion      = hostpath.ErrVersion
	ErrUnsupported  = hostpath.ErrUnsupported
)

// Pair connects two queue pairs of this program with each other.
func Pair(a, b *QP, c Connection) error { return hostpath.Pair(a, b, c) }

// IncRKey returns the rkey of the next variant, as ibv_inc_rkey does.
func IncRKey(rkey uint32) uint32 { return hostpath.IncRKey(rkey) }

// LogExplanations is a handler for Context.OnExplanation that writes to log.
func LogExplanations(log *slog.Logger) func(Explanation) { return hostpath.LogExplanations(log) }
