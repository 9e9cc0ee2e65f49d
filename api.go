package nicless

import (
	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/hostpath"
	"github.com/nicless/nicless/internal/post"
)

// The objects of the host API. Their documentation is in package hostpath.
type (
	Context      = hostpath.Context
	PD           = hostpath.PD
	MR           = hostpath.MR
	CQ           = hostpath.CQ
	QP           = hostpath.QP
	CQConfig     = hostpath.CQConfig
	QPConfig     = hostpath.QPConfig
	Connection   = hostpath.Connection
	Attr         = hostpath.Attr
	Descriptor   = hostpath.Descriptor
	RemoteMemory = hostpath.RemoteMemory
	Access       = hostpath.Access
	SendWR       = hostpath.SendWR
	RecvWR       = hostpath.RecvWR
	SGE          = hostpath.SGE
	Op           = hostpath.Op
	Flags        = hostpath.Flags
	Completion   = hostpath.Completion

	Limits = engine.Limits
)

// Rights of a key, and what QPConfig.Deny takes from a peer.
const (
	LocalWrite   = hostpath.LocalWrite
	RemoteWrite  = hostpath.RemoteWrite
	RemoteRead   = hostpath.RemoteRead
	RemoteAtomic = hostpath.RemoteAtomic
	ZeroBased    = hostpath.ZeroBased
	FullAccess   = hostpath.FullAccess
)

// Operations that this device executes.
const (
	Nop      = post.OpNop
	Write    = post.OpWrite
	WriteImm = post.OpWriteImm
	Read     = post.OpRead
	Send     = post.OpSend
	SendImm  = post.OpSendImm
)

// Flags of a send.
const (
	Signaled  = post.Signaled
	Solicited = post.Solicited
	Fence     = post.Fence
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
