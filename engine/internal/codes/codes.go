//go:build linux && (amd64 || arm64)

// Package codes numbers what the device can explain, so that the engine uses only codes that
// package field/known explains. Package field/known has the texts: what the device has seen,
// what hardware does then, the likely cause, and how to fix it. It builds on every system, and
// programs without an engine read it.
//
// An explanation is an event that the engine sends to a client, and a line in its log. It
// carries the name of its code, for example record-word. Programs may look for the name in
// events, and people in the log. The sentence of an explanation describes one WQE or queue;
// the engine composes it where it finds the fault.
//
// A test compares the names with those of field/known, which are in the same order.
package codes

import "fmt"

// A Code is a row of the table in field/known, and its position there.
type Code uint8

// The codes, in the order of the table.
const (
	RecordWord Code = iota
	RegisterOnly
	RecordByteOrder
	RecordBack
	RecordRange
	PostState
	WQELate

	DSZero
	DSSmall
	DSLarge
	DSPastRecord
	IndexMismatch
	QPNMismatch
	Opcode
	Signature
	InlineRange
	InlineRead
	MessageSize
	AtomicResult
	AtomicAlignment
	MMOLength
	WaitCQ
	EnableQP
	UMRList

	KeyByteOrder
	KeyStale
	KeyUnknown
	KeyDomain
	KeyAccess
	KeyRange
	LengthZero
	KeyUnbound
	KeyWindow
	KeyList
	KeyRefused
	Bind
	SendInval

	ReceiveNone
	ReceiveShort
	ReceiveNoEnd
	ReceiveUnwritten

	PeerMissing
	PeerGone
	PeerState
	PeerTransport
	PeerNotBack
	ResponderRefuses
	ResponderFailed
	QPMoved
	EngineStops
	XRCSRQ
	DCNoTarget
	DCKey
	DCStream
	AVCompact
	UDNoReceiver
	UDQKey
	PortDown
	GIDChanged

	PeerSilent
	LinkNone
	LinkDown
	LinkRefused
	LinkResponse
	LinkPlace
	LinkLength
	LinkScan
	WQEChanged

	CQOverrun
	CQNeverPolled
	CQByteOrder
	CQIndex
	EventLost
	MemoryFault
	ProcessMemory
	MemorySlow

	FaultInjected

	Count // number of codes
)

// names has the name of each code, which is stable.
var names = [Count]string{
	RecordWord:       "record-word",
	RegisterOnly:     "register-only",
	RecordByteOrder:  "record-byte-order",
	RecordBack:       "record-back",
	RecordRange:      "record-range",
	PostState:        "post-state",
	WQELate:          "wqe-late",
	DSZero:           "ds-zero",
	DSSmall:          "ds-small",
	DSLarge:          "ds-large",
	DSPastRecord:     "ds-past-record",
	IndexMismatch:    "index-mismatch",
	QPNMismatch:      "qpn-mismatch",
	Opcode:           "opcode",
	Signature:        "signature",
	InlineRange:      "inline-range",
	InlineRead:       "inline-read",
	MessageSize:      "message-size",
	AtomicResult:     "atomic-result",
	AtomicAlignment:  "atomic-alignment",
	MMOLength:        "mmo-length",
	WaitCQ:           "wait-cq",
	EnableQP:         "enable-qp",
	UMRList:          "umr-list",
	KeyByteOrder:     "key-byte-order",
	KeyStale:         "key-stale",
	KeyUnknown:       "key-unknown",
	KeyDomain:        "key-domain",
	KeyAccess:        "key-access",
	KeyRange:         "key-range",
	LengthZero:       "length-zero",
	KeyUnbound:       "key-unbound",
	KeyWindow:        "key-window",
	KeyList:          "key-list",
	KeyRefused:       "key-refused",
	Bind:             "bind",
	SendInval:        "send-inval",
	ReceiveNone:      "receive-none",
	ReceiveShort:     "receive-short",
	ReceiveNoEnd:     "receive-no-end",
	ReceiveUnwritten: "receive-unwritten",
	PeerMissing:      "peer-missing",
	PeerGone:         "peer-gone",
	PeerState:        "peer-state",
	PeerTransport:    "peer-transport",
	PeerNotBack:      "peer-not-back",
	ResponderRefuses: "responder-refuses",
	ResponderFailed:  "responder-failed",
	QPMoved:          "qp-moved",
	EngineStops:      "engine-stops",
	XRCSRQ:           "xrc-srq",
	DCNoTarget:       "dc-nobody",
	DCKey:            "dc-key",
	DCStream:         "dc-stream",
	AVCompact:        "av-compact",
	UDNoReceiver:     "ud-nobody",
	UDQKey:           "ud-qkey",
	PortDown:         "port-down",
	GIDChanged:       "gid-changed",
	PeerSilent:       "peer-silent",
	LinkNone:         "link-none",
	LinkDown:         "link-down",
	LinkRefused:      "link-refused",
	LinkResponse:     "link-response",
	LinkPlace:        "link-place",
	LinkLength:       "link-length",
	LinkScan:         "link-scan",
	WQEChanged:       "wqe-changed",
	CQOverrun:        "cq-overrun",
	CQNeverPolled:    "cq-never-polled",
	CQByteOrder:      "cq-byte-order",
	CQIndex:          "cq-index",
	EventLost:        "event-lost",
	MemoryFault:      "memory-fault",
	ProcessMemory:    "process-memory",
	MemorySlow:       "memory-slow",
	FaultInjected:    "fault-injected",
}

// String returns the name of the code.
func (c Code) String() string {
	if c < Count {
		return names[c]
	}
	return fmt.Sprintf("code %d", uint8(c))
}
