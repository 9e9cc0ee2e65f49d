package sanitize

import "fmt"

// An EarlyAccess is an access of a program to the buffer of a receive that it has posted, before it has
// polled the completion. No event shows it: the program notices it by protected pages (docs/SANITIZER.md).
type EarlyAccess struct {
	Program string
	PID     uint64
	Client  uint32 // 0: not known
	QP      uint32 // the queue of the receive; 0: SRQ
	SRQ     uint32
	Index   uint16 // of the receive, or of the entry of the SRQ
	Addr    uint64 // address of the access
	Write   bool
	Buffer  uint64 // address of the piece of the receive that was accessed
	Length  uint64 // of the piece, in bytes
	Key     uint32
	Stack   []string // of the access, innermost first
	Posted  []string // of the post of the receive
}

// Report returns the report of the access. A load is an error. A store is a note: programs that send from the
// buffer store there before, and the device sees whether they do.
func (a *EarlyAccess) Report() Report {
	code, severity, did, does := ReceiveBufferRead, Error, "read", "load"
	if a.Write {
		code, severity, did, does = ReceiveBufferChanged, Note, "changed", "store"
	}
	access := Access{Does: does, Program: a.Program, PID: a.PID, Client: a.Client, Addr: a.Addr,
		Stack: a.Stack}
	receive := Access{Does: "receive", Program: a.Program, PID: a.PID, Client: a.Client, QP: a.QP, SRQ: a.SRQ,
		Index: &a.Index, Addr: a.Buffer, Length: a.Length, Key: a.Key, Stack: a.Posted}
	return Report{
		Code: code, Severity: severity,
		Text: fmt.Sprintf("the program has %s the buffer of a receive at 0x%x, byte %d of %d, after the receive was posted and before "+
			"its completion was polled", did, a.Addr, a.Addr-a.Buffer, a.Length),
		Accesses: []Access{access, receive},
		Hint:     "A buffer belongs to the device from the post until the completion of the receive was polled.",
	}
}
