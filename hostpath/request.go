package hostpath

import (
	"fmt"
	"strings"

	"github.com/nicless/nicless/wqe"
)

// A Transport is the service of a queue pair, numbered as the st field of an
// mlx5 QP context.
type Transport = wqe.Transport

// Transports.
const (
	RC = wqe.RC // reliable connection
	UC = wqe.UC // unreliable connection
	UD = wqe.UD // unreliable datagram
)

// Flags are the verbs send flags, by their numbers. Whether data is inline is
// told by SendWR.Data alone.
type Flags uint8

// Flags of a SendWR.
const (
	Fence     Flags = 1 << 0 // start after earlier READs and atomics of this queue are done
	Signaled  Flags = 1 << 1 // deliver a completion on success too
	Solicited Flags = 1 << 2 // the receiver's completion raises a solicited event

	allFlags = Fence | Signaled | Solicited
)

// String returns the names, such as "Fence|Signaled"; "0" without any.
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

// An SGE is a piece of local memory: Length bytes at Addr, which is an address
// as the key was registered with. Length is at most 1<<31.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// A SendWR is a work request for a send queue. Its payload is either SGE or
// Data. Fields below them that the operation has no use for are ignored.
// Posting reads a SendWR and keeps nothing of it but ID.
type SendWR struct {
	ID    uint64 // comes back in the completion
	Op    Op
	Flags Flags

	// SGE is the local memory to gather from, or, for READ and atomics, to
	// scatter to. Entries of length 0 are skipped. An atomic takes one, as long
	// as what it works on: 8 bytes, and 4 for the masked ones. Dump takes one,
	// Copy two of one length, the source first.
	SGE []SGE

	// Data is a payload that travels inside the WQE. Its bytes are copied, so
	// they may be changed as soon as the request is posted.
	Data []byte

	RemoteAddr uint64
	RKey       uint32 // of RemoteAddr; for SendInval and LocalInval the key to invalidate
	Imm        uint32 // the immediate as a big-endian number: its bytes travel in that order

	SwapAdd uint64 // CompareSwap: the new value. FetchAdd: the addend
	Compare uint64 // CompareSwap: the value to find
	Mask    *Mask  // of the masked atomics

	To *Address // UD: the receiver

	Bind *Bind // BindMW only
	List *List // BindList only

	Queue uint32 // WaitCQ: the CQ's number. SendEnable: the QP's
	Index uint32 // WaitCQ: completions written, see CQ.Index. SendEnable: blocks, see QP.SendIndex
}

// A Mask says which bits a masked atomic compares and changes. Of operands of 4
// bytes the low halves count.
type Mask struct {
	Swap    uint64 // CompareSwap: bits that are replaced, if the comparison holds
	Compare uint64 // CompareSwap: bits that are compared; 0: it always holds
	// Boundary, of FetchAdd, has a bit set for the top bit of each field: no
	// carry leaves a field. 0 is one field.
	Boundary uint64
}

// An Address is where datagrams go: a queue pair and the way to it. One may be
// used for any number of sends.
type Address struct {
	AV   wqe.AV // Ext, DQP and Key are taken from the next two
	QPN  uint32 // 24 bits
	QKey uint32 // with bit 31 set: the sender's own
}

// A RecvWR is a work request for a receive queue: memory that a message fills,
// piece by piece. On an RQ, entries of length 0 are skipped.
type RecvWR struct {
	ID  uint64
	SGE []SGE
}
