package paste

import (
	"encoding/binary"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// Kind is the kind of an item, by the name that nicless decode has for it.
type Kind string

// Kinds of items.
const (
	Text    Kind = "text"    // an error in words, without bytes
	CQE     Kind = "cqe"     // 64 bytes
	CQE128  Kind = "cqe128"  // 128 bytes
	Send    Kind = "send"    // a send WQE, from its control segment on
	Recv    Kind = "recv"    // the list of a receive
	Packet  Kind = "packet"  // from the IP header or the BTH on
	Unclear Kind = "unclear" // bytes that are none of these in any byte order

	UAR      Kind = "uar"      // see Small
	QPRecord Kind = "qp-dbrec" // see Small
)

// Item is one object or error.
type Item struct {
	Kind  Kind
	Line  int         // first line, counted from 1
	Last  int         // last line
	Bytes []byte      // in memory order; nil for Text
	Facts known.Facts // what the text around the bytes says
	Notes []string    // how the bytes were read, where that is not as usual

	// Index is the slot that a log gives for a WQE, or -1.
	Index int
	// Queue is the size in blocks of the queue that a log gives for a WQE, or 0.
	Queue int
}

// Describe returns the fields of the bytes. For Text and Unclear, the tree is nil.
func (it *Item) Describe(a wqe.Address) (field.Tree, error) {
	switch it.Kind {
	case CQE, CQE128:
		return cqe.Describe(it.Bytes)
	case Send:
		return wqe.DescribeSend(it.Bytes, a)
	case Recv:
		return wqe.DescribeRecv(it.Bytes, false)
	case Packet:
		if packet.IsIP(it.Bytes) {
			return packet.DescribeIP(it.Bytes)
		}
		return packet.Describe(it.Bytes)
	case UAR:
		return doorbell.Describe(doorbell.UARRing, it.Bytes)
	case QPRecord:
		return doorbell.Describe(doorbell.QPRecord, it.Bytes)
	}
	return nil, nil
}

// Small returns what an Unclear item of 8 bytes probably is, if it is all that was given: a
// value for a doorbell register, or a doorbell record. Among other text, 8 bytes say nothing.
func (it *Item) Small() (Item, bool) {
	if it.Kind != Unclear || len(it.Bytes) != 8 || blank(it.Bytes) {
		return Item{}, false
	}
	small := *it
	b := it.Bytes
	qpn := binary.BigEndian.Uint32(b[4:]) >> 8
	if op := wqe.Opcode(b[3]); op != wqe.OpNop && op.Info().Known() && qpn != 0 && b[7]&0x3f != 0 {
		small.Kind = UAR
		small.Notes = []string{"8 bytes that begin like a WQE: probably a value for a doorbell register (decode uar)"}
		return small, true
	}
	small.Kind = QPRecord
	small.Notes = []string{"8 bytes: read as the doorbell record of a queue pair (decode qp-dbrec); cq-dbrec and cq-arm have 8 bytes, too"}
	return small, true
}

// Failure returns what the bytes or the text say about a failure. ok is false if the item is not
// a failure, or does not say which.
func (it *Item) Failure() (f known.Failure, ok bool) {
	e := it.entry()
	if e == nil {
		if it.Kind != Text {
			return f, false
		}
		return it.Facts.Failure()
	}
	f.Syndrome, f.Vendor, ok = it.Error()
	f.Requester = cqe.OpOwn(e[cqe.OffOpOwn]).Opcode() == cqe.ReqErr
	f.Responder = !f.Requester
	if f.Requester {
		op := wqe.Opcode(e[cqe.OffQPN])
		f.Opcode = &op
	}
	return f, ok
}

// Error returns the syndrome and the vendor byte of a failure. ok is false if the item is not
// a failure, or does not say which. vendor is nil if it is unknown.
func (it *Item) Error() (s cqe.Syndrome, vendor *uint8, ok bool) {
	if e := it.entry(); e != nil {
		op := cqe.OpOwn(e[cqe.OffOpOwn]).Opcode()
		if !op.IsError() {
			return 0, nil, false
		}
		v := e[cqe.OffVendor]
		return cqe.Syndrome(e[cqe.OffSyndrome]), &v, true
	}
	if it.Kind == Text {
		s, ok = it.Facts.Cause()
		return s, it.Facts.Vendor, ok
	}
	return 0, nil, false
}

// entry returns the 64 bytes of a CQE's fields, or nil.
func (it *Item) entry() *[cqe.Size]byte {
	switch {
	case it.Kind == CQE && len(it.Bytes) == cqe.Size:
		return (*[cqe.Size]byte)(it.Bytes)
	case it.Kind == CQE128 && len(it.Bytes) == cqe.Size128:
		return (*[cqe.Size]byte)(it.Bytes[cqe.Size:])
	}
	return nil
}
