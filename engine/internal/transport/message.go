//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Messages of several packets, as the responder takes them. The receive of a SEND is read only as far as the
// packets that have come need it. Keys may change while a message is under way.

// openMessage keeps the job of the first packet for the message's other packets. For a SEND it opens a
// receive.
func (sh *receiver) openMessage(x *arrival) {
	in := x.in
	in.Writes, in.Unit, in.Room = x.writes, 0, 0
	if !x.writes {
		in.Entry = in.Entry[:copy(in.Entry[:cap(in.Entry)], sh.OpenReceive(x.j))]
	}
	in.Job = sh.DetachJob()
	x.j = in.Job
}

// checkForImmediate checks that there is a receive for the last packet of a WRITE with immediate. It does not
// take the receive: the packet may fail another check, and the packet that then comes with the same PSN may
// have no immediate.
func (sh *receiver) checkForImmediate(j *object.Job) object.Answer {
	j.Recv = true
	a := sh.CheckReceive(nil, j)
	j.Recv = false
	return a
}

// openForImmediate opens the receive that the last packet of a WRITE with immediate uses. The packet has
// passed all checks, also checkForImmediate, and its payload has been written.
func (sh *receiver) openForImmediate(j *object.Job) {
	j.Recv = true
	j.Request.Op = wqe.OpRDMAWriteImm
	sh.OpenReceive(j)
}

// extendReceive makes room in the list j.Dst for n more bytes of a SEND, by reading more units of its
// receive.
func (sh *receiver) extendReceive(j *object.Job, in *object.Inbound, n uint64) object.Answer {
	j.Total = j.Moved + n
	if j.Total > wqe.MaxMessage {
		return sh.ReceiveTooShort(j, in.Entry, j.Total-in.Room)
	}
	for in.Room < j.Total {
		room, a := sh.ScatterUnit(j, in.Entry, in.Unit)
		if a != object.AnswerACK {
			return a
		}
		if room == 0 {
			return sh.ReceiveTooShort(j, in.Entry, j.Total-in.Room)
		}
		in.Unit += wqe.UnitSize
		in.Room += room
	}
	return object.AnswerACK
}

// recheckMessage checks the memory of the message under way again, because keys have changed. The list j.Dst
// then begins after the bytes that have been moved.
func (sh *receiver) recheckMessage(q *object.QP, j *object.Job) object.Answer {
	in := &q.Wire.In
	j.Dst.Reset()
	j.Epoch = sh.Epoch.Load()
	if in.Writes {
		if a := sh.Translate(nil, j, &j.Dst, wqe.OpRDMAWrite.Info()); a != object.AnswerACK {
			return a
		}
	} else {
		moved := j.Moved
		in.Unit, in.Room = 0, 0
		if j.SRQ != nil && j.SRQ.Gone {
			sh.ExplainReceive(j, nil, codes.PeerGone, "the shared receive queue of a message under way has ended")
			return sh.RefuseRequest(q, control.EventInvalidRequest, object.AnswerOperation)
		}
		if a := sh.extendReceive(j, in, 0); a != object.AnswerACK {
			return a
		}
		j.Moved = moved
	}
	j.Dst.Skip(j.Moved)
	return object.AnswerACK
}
