package hostpath

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/wqe"
)

// A Transport is the service of a queue pair. The numbers are those of field st of the mlx5
// QP context.
type Transport = wqe.Transport

// Transports.
const (
	RC = wqe.RC // reliable connection
	UC = wqe.UC // unreliable connection
	UD = wqe.UD // unreliable datagram
)

// Flags are the verbs send flags, with their numbers. There is no flag for inline data:
// SendWR.Data alone makes data inline.
type Flags uint8

// Flags of a SendWR.
const (
	Fence     Flags = 1 << 0 // start after earlier READs and atomics of this queue are done
	Signaled  Flags = 1 << 1 // deliver a completion on success too
	Solicited Flags = 1 << 2 // the receiver's completion raises a solicited event

	allFlags = Fence | Signaled | Solicited
)

// String returns the names, such as "Fence|Signaled", or "0" for no flags.
func (f Flags) String() string {
	if f == 0 {
		return "0"
	}
	var s []string
	for i, name := range [...]string{"Fence", "Signaled", "Solicited"} {
		if f>>i&1 != 0 {
			s = append(s, name)
		}
	}
	if rest := f &^ allFlags; rest != 0 {
		s = append(s, fmt.Sprintf("%#x", uint8(rest)))
	}
	return strings.Join(s, "|")
}

// An SGE is a piece of local memory: Length bytes at Addr. Addr is in the range of addresses
// for which the key was registered. Length is at most 1<<31.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// A SendWR is a work request for a send queue. Its payload is either in SGE or in Data.
// Fields after Data that an operation does not use are ignored. Posting keeps nothing of a
// SendWR except ID, so the caller can reuse the SendWR after the call.
type SendWR struct {
	ID    uint64 // returned in the completion
	Op    Op
	Flags Flags

	// SGE is the local memory to gather from or, for READ and atomics, to scatter to.
	// Entries of length 0 are skipped. An atomic takes one entry with the length of its
	// operand, which is 8 bytes, or 4 or 8 bytes for masked atomics. Dump takes one
	// entry. Copy takes two entries of equal length, the source first.
	SGE []SGE

	// Data is a payload that is copied into the WQE. The caller may change the bytes as
	// soon as the request is posted.
	Data []byte

	RemoteAddr uint64
	RKey       uint32 // the key of RemoteAddr; for SendInval and LocalInval the key to invalidate
	Imm        uint32 // the immediate, which is sent in big-endian byte order

	SwapAdd uint64 // CompareSwap: the new value. FetchAdd: the addend
	Compare uint64 // CompareSwap: the value to compare with
	Mask    *Mask  // masked atomics only

	To *Address // UD: the receiver

	Bind *Bind // BindMW only
	List *List // BindList only

	Queue uint32 // WaitCQ: the number of a CQ. SendEnable: the number of a QP
	Index uint32 // WaitCQ: a count of completions, see CQ.Index. SendEnable: a count of blocks, see SQ.Index
}

// A Mask says which bits a masked atomic compares and changes. If the operand has 4
// bytes, only the low half of each field is used.
type Mask struct {
	Swap    uint64 // CompareSwap: bits that are replaced if the comparison holds
	Compare uint64 // CompareSwap: bits that are compared; if 0, the comparison always holds
	// Boundary is for FetchAdd. It divides the operand into bit fields: the top bit of
	// each bit field is set. A carry never goes from one bit field into the
	// next. If Boundary is 0, the whole operand is one bit field.
	Boundary uint64
}

// An Address is the destination of datagrams: a queue pair and the address vector for it. An
// Address may be used for any number of sends.
type Address struct {
	AV   wqe.AV // QPN and QKey replace the fields Ext, DQP and Key of AV
	QPN  uint32 // 24 bits
	QKey uint32 // the receiver's Q_Key; if bit 31 is set, the Q_Key of the sending QP is sent instead
}

// A RecvWR is a work request for a receive queue: memory that a message fills,
// piece by piece. On an RQ, entries of length 0 are skipped.
type RecvWR struct {
	ID  uint64
	SGE []SGE
}
