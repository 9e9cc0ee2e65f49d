package nicless

import (
	"log/slog"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/post"
)

// The objects of the host API. Their documentation is in package hostpath.
type (
	Context = hostpath.Context
	PD      = hostpath.PD
	MR      = hostpath.MR
	Window  = hostpath.Window
	ListKey = hostpath.ListKey
	Channel = hostpath.Channel
	CQ      = hostpath.CQ
	SRQ     = hostpath.SRQ
	QP      = hostpath.QP

	CQConfig   = hostpath.CQConfig
	SRQConfig  = hostpath.SRQConfig
	QPConfig   = hostpath.QPConfig
	Connection = hostpath.Connection
	Transport  = hostpath.Transport
	Attr       = hostpath.Attr
	AttrMask   = hostpath.AttrMask
	State      = hostpath.State
	Status     = hostpath.Status

	Descriptor   = hostpath.Descriptor
	RemoteMemory = hostpath.RemoteMemory
	Access       = hostpath.Access

	SendWR     = hostpath.SendWR
	RecvWR     = hostpath.RecvWR
	SGE        = hostpath.SGE
	Op         = hostpath.Op
	Flags      = hostpath.Flags
	Address    = hostpath.Address
	Mask       = hostpath.Mask
	Bind       = hostpath.Bind
	List       = hostpath.List
	ListEntry  = hostpath.ListEntry
	Completion = hostpath.Completion

	Event       = hostpath.Event
	EventKind   = hostpath.EventKind
	Explanation = hostpath.Explanation

	Limits = engine.Limits
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

// Operations.
const (
	Nop      = post.OpNop
	Write    = post.OpWrite
	WriteImm = post.OpWriteImm
	Read     = post.OpRead
	Send     = post.OpSend
	SendImm  = post.OpSendImm

	CompareSwap       = post.OpCompareSwap
	FetchAdd          = post.OpFetchAdd
	MaskedCompareSwap = post.OpMaskedCompareSwap
	MaskedFetchAdd    = post.OpMaskedFetchAdd

	SendInval  = post.OpSendInval
	LocalInval = post.OpLocalInval
	BindMW     = post.OpBindMW
	BindList   = post.OpBindList

	Dump       = post.OpDump
	Copy       = post.OpCopy
	WaitCQ     = post.OpWaitCQ
	SendEnable = post.OpSendEnable
)

// Flags of a send.
const (
	Signaled  = post.Signaled
	Solicited = post.Solicited
	Fence     = post.Fence
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
