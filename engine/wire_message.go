//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
)

// takeData executes a packet of a SEND or a WRITE that is in its place.
func (sh *receiver) takeData(p *port, q *qp, info *packet.Info) answer {
	w := q.wire
	in := &w.in
	n, mtu := uint64(len(p.packet.Payload)), uint64(w.mtu)
	switch {
	case info.First && info.Last:
		return sh.takeOnly(p, q, info)
	case !info.Last && n != mtu, n == 0:
		return sh.unfit(p, q, mtu)
	case n > mtu:
		return sh.unfit(p, q, mtu)
	}
	if info.First {
		if a := sh.openMessage(p, q, info); a != answerACK {
			return a
		}
	} else if in.writes != (info.Known && isWrite(p.bth.Opcode.Operation())) {
		return sh.outOfMessage(p, q)
	}
	j := in.job
	if !sh.current(j) || j.srq != nil && j.srq.gone {
		if a := sh.renew(q, j); a != answerACK {
			return a
		}
	}
	if in.writes {
		if left := j.total - j.moved; n > left || (n == left) != info.Last {
			return sh.unfit(p, q, left)
		}
		if info.Imm {
			if a := sh.openForImmediate(j); a != answerACK {
				return a
			}
		}
	} else if a := sh.extend(j, in, n); a != answerACK {
		return a
	}
	if a := sh.putPayload(p, j, n); a != answerACK {
		return a
	}
	if !info.Last {
		return answerACK
	}
	j.request.imm, j.request.solicited = immediate(p, info), p.bth.Solicited
	if info.IETH {
		j.request.op = wqe.OpSendInval
	} else if info.Imm && !in.writes {
		j.request.op = wqe.OpSendImm
	}
	if j.recv {
		j.total = j.moved
		if a := sh.deliver(nil, j); a != answerACK {
			return a
		}
	}
	sh.dropMessage(in)
	return answerACK
}

// isWrite reports whether a packet with data is one of a WRITE.
func isWrite(op packet.Operation) bool { return op >= packet.WriteFirst && op <= packet.WriteOnlyImm }

// unfit and outOfMessage answer packets that break the rules of messages. On an unreliable
// connection the message is lost.
func (sh *receiver) unfit(p *port, q *qp, want uint64) answer {
	if !q.reliable() {
		return answerDrop
	}
	return sh.badLength(p, q, want)
}

func (sh *receiver) outOfMessage(p *port, q *qp) answer {
	if !q.reliable() {
		return answerDrop
	}
	return sh.outOfPlace(p, q)
}

// onlyOpcodes are the opcodes of WQEs whose message is one packet with this operation.
var onlyOpcodes = [32]wqe.Opcode{
	packet.SendOnly: wqe.OpSend, packet.SendOnlyImm: wqe.OpSendImm, packet.SendOnlyInv: wqe.OpSendInval,
	packet.WriteOnly: wqe.OpRDMAWrite, packet.WriteOnlyImm: wqe.OpRDMAWriteImm,
}

// takeOnly executes a message of one packet.
func (sh *receiver) takeOnly(p *port, q *qp, info *packet.Info) answer {
	n := uint64(len(p.packet.Payload))
	op := onlyOpcodes[p.bth.Opcode.Operation()]
	j := sh.begin(p, q, info, op)
	if n > uint64(q.wire.mtu) || info.RETH && j.request.length != n {
		return sh.unfit(p, q, min(j.request.length, uint64(q.wire.mtu)))
	}
	j.request.imm = immediate(p, info)
	j.request.length, j.total = n, n
	if a := sh.respond(nil, j, op.Info(), &j.dst); a != answerACK {
		sh.putBack(j)
		return a
	}
	if a := sh.putPayload(p, j, n); a != answerACK {
		sh.putBack(j)
		return a
	}
	if j.recv {
		if a := sh.deliver(nil, j); a != answerACK {
			sh.putBack(j)
			return a
		}
	}
	return answerACK
}

// putPayload moves the payload of a packet to where the message's next bytes belong.
func (sh *receiver) putPayload(p *port, j *job, n uint64) answer {
	if n == 0 {
		return answerACK
	}
	j.src.reset()
	j.src.add(p.packet.Payload, nil, 0, n)
	if !sh.transfer(j, n) {
		return sh.unreachableHere(nil, j, sh.scratch.gap)
	}
	return answerACK
}

// openMessage judges the first packet of a message of several, and keeps its job.
func (sh *receiver) openMessage(p *port, q *qp, info *packet.Info) answer {
	in := &q.wire.in
	in.writes = info.RETH
	in.unit, in.room = 0, 0
	if in.writes {
		j := sh.begin(p, q, info, wqe.OpRDMAWrite)
		if j.request.length <= uint64(q.wire.mtu) {
			return sh.unfit(p, q, j.request.length)
		}
		if j.request.length > wqe.MaxMessage {
			return sh.unfit(p, q, wqe.MaxMessage)
		}
		j.total = j.request.length
		if a := sh.respond(nil, j, wqe.OpRDMAWrite.Info(), &j.dst); a != answerACK {
			return a
		}
	} else {
		j := sh.begin(p, q, info, wqe.OpSend)
		if a := sh.nameReceives(nil, j); a != answerACK {
			return a
		}
		if j.receives() == 0 {
			return sh.noReceive(j)
		}
		in.entry = in.entry[:copy(in.entry[:cap(in.entry)], sh.openReceive(j))]
	}
	in.job = sh.retainJob()
	return answerACK
}

// openForImmediate opens the receive that the last packet of a WRITE with immediate uses.
func (sh *receiver) openForImmediate(j *job) answer {
	j.recv = true
	a := sh.nameReceives(nil, j)
	if a == answerACK && j.receives() == 0 {
		a = sh.noReceive(j)
	}
	if a != answerACK {
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
