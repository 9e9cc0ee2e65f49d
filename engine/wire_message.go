//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// A message of a SEND comes in packets, and the receive that it has opened is read as far as the packets
// that have come need it. Keys may change while a message is under way.

// openMessage keeps the job of the first packet of a message of several.
func (sh *receiver) openMessage(x *arrival) {
	in := x.in
	in.writes, in.unit, in.room = x.writes, 0, 0
	if !x.writes {
		in.entry = in.entry[:copy(in.entry[:cap(in.entry)], sh.openReceive(x.j))]
	}
	in.job = sh.retainJob()
	x.j = in.job
}

// openForImmediate opens the receive that the last packet of a WRITE with immediate uses.
func (sh *receiver) openForImmediate(j *job) answer {
	j.recv = true
	if a := sh.checkReceive(nil, j); a != answerACK {
		j.recv = false // until the packet comes again
		return a
	}
	j.request.op = wqe.OpRDMAWriteImm
	sh.openReceive(j)
	return answerACK
}

// extend makes room for n more bytes of a SEND in the receive that it has opened.
func (sh *receiver) extend(j *job, in *inbound, n uint64) answer {
	j.total = j.moved + n
	if j.total > wqe.MaxMessage {
		return sh.receiveTooShort(j, in.entry, j.total-in.room)
	}
	for in.room < j.total {
		room, a := sh.scatterUnit(j, in.entry, in.unit)
		if a != answerACK {
			return a
		}
		if room == 0 {
			return sh.receiveTooShort(j, in.entry, j.total-in.room)
		}
		in.unit += wqe.UnitSize
		in.room += room
	}
	return answerACK
}

// renew judges the memory of the message under way again, because keys have changed.
func (sh *receiver) renew(q *qp, j *job) answer {
	in := &q.wire.in
	j.dst.reset()
	j.epoch = sh.epoch.Load()
	if in.writes {
		if a := sh.translate(nil, j, &j.dst, wqe.OpRDMAWrite.Info()); a != answerACK {
			return a
		}
	} else {
		moved := j.moved
		in.unit, in.room = 0, 0
		if j.srq != nil && j.srq.gone {
			sh.explainReceive(j, nil, codes.PeerGone, "the shared receive queue of a message under way has ended")
			return sh.refuseRequest(q, control.EventInvalidRequest, answerOperation)
		}
		if a := sh.extend(j, in, 0); a != answerACK {
			return a
		}
		j.moved = moved
	}
	j.dst.skip(j.moved)
	return answerACK
}
