//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A message of a SEND comes in packets, and the receive that it has opened is read as far as the packets
// that have come need it. Keys may change while a message is under way.

// openMessage keeps the job of the first packet of a message of several.
func (sh *receiver) openMessage(x *arrival) {
	in := x.in
	in.Writes, in.Unit, in.Room = x.writes, 0, 0
	if !x.writes {
		in.Entry = in.Entry[:copy(in.Entry[:cap(in.Entry)], sh.OpenReceive(x.j))]
	}
	in.Job = sh.DetachJob()
	x.j = in.Job
}

// checkForImmediate checks that there is a receive for the last packet of a WRITE with immediate. It takes
// none: the packet may fail another check and come again, and what comes instead may have no immediate.
func (sh *receiver) checkForImmediate(j *object.Job) object.Answer {
	j.Recv = true
	a := sh.CheckReceive(nil, j)
	j.Recv = false
	return a
}

// openForImmediate opens the receive that the last packet of a WRITE with immediate uses. The packet has
// passed all checks, that for a receive among them, and its payload has been written.
func (sh *receiver) openForImmediate(j *object.Job) {
	j.Recv = true
	j.Request.Op = wqe.OpRDMAWriteImm
	sh.OpenReceive(j)
}

// extend makes room for n more bytes of a SEND in the receive that it has opened.
func (sh *receiver) extend(j *object.Job, in *object.Inbound, n uint64) object.Answer {
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

// renew checks the memory of the message under way again, because keys have changed.
func (sh *receiver) renew(q *object.QP, j *object.Job) object.Answer {
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
		if a := sh.extend(j, in, 0); a != object.AnswerACK {
			return a
		}
		j.Moved = moved
	}
	j.Dst.Skip(j.Moved)
	return object.AnswerACK
}
