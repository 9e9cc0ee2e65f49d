package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The responder: it judges what a requester asks of its queue pair, its keys and
// its receives, answers, and completes the receives that messages have used. What
// it finds wrong ends both queue pairs on a reliable connection, and only the
// message on other transports.

// established says that a queue pair in RTR has been reached.
func (sh *shard) established(p *qp) {
	if p.attr.State == control.StateRTR {
		p.client.event(control.EventEstablished, p.num)
	}
}

// respond judges the request of j on behalf of j.peer, to which the requester q is
// connected. It puts the memory that is asked for into far; of an atomic it
// executes it, and puts the old value there.
func (sh *shard) respond(q *qp, j *job, info *wqe.Info, far *list) answer {
	p := j.peer
	if q.transport == control.QPTypeUD && !sh.takesDatagram(q, j) {
		return answerDrop
	}
	if j.recv && p.posted() == 0 {
		return sh.noReceive(j)
	}
	if info.Reads && p.attr.MaxDestRdAtomic == 0 {
		return sh.refused(q, j, info)
	}
	// With no bytes to move, neither key nor address is looked at.
	if info.Remote != 0 && j.request.length > 0 {
		if a := sh.reach(q, j, far, info); a != answerACK {
			return a
		}
	}
	switch {
	case info.Atomic():
		return sh.executeAtomic(q, j, far)
	case j.recv && !info.Raddr:
		return sh.scatter(j, sh.open(j))
	case j.recv:
		sh.open(j) // its list is not used
	}
	return answerACK
}

// reach translates the remote address into one piece of the request's length.
func (sh *shard) reach(q *qp, j *job, far *list, info *wqe.Info) answer {
	p, r, need := j.peer, &j.request, uint32(info.Remote)
	if p.attr.Access&need == 0 {
		return sh.refused(q, j, nil)
	}
	k := sh.keys.find(r.rkey)
	if k == nil || !k.serves(p) || k.access&need == 0 || !sh.admit(far, k, r.addr, r.length, need) {
		return sh.badRemote(q, j, need)
	}
	return answerACK
}

// open takes a snapshot of the peer's next receive and returns its list. From a
// shared queue the entry is taken at once, since others take from it too; from
// a queue of the peer's own it is consumed when the message is complete.
func (sh *shard) open(j *job) (list []byte) {
	p := j.peer
	if s := p.rq.srq; s != nil {
		entry := sh.scratch.recv[:1<<s.stride]
		j.index, j.taken = s.take(entry), s
		sh.observeLimit(s)
		return entry[wqe.SRQNextSize:]
	}
	j.index = uint16(p.rq.done)
	entry := sh.scratch.recv[:1<<p.rq.stride]
	copy(entry, p.rq.ring[p.rq.done&p.rq.mask<<p.rq.stride:])
	if p.signed {
		return entry[wqe.UnitSize:] // behind a block with the signature, which is not checked
	}
	return entry
}

// scatter turns as much of a receive's list as the message needs into pieces.
func (sh *shard) scatter(j *job, entry []byte) answer {
	p := j.peer
	left := j.total
	for off := 0; off < len(entry) && left > 0; off += wqe.UnitSize {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(entry[off:]))
		if d.End() {
			break
		}
		// The whole entry is judged, also where the message ends within it.
		n := d.Length()
		k := sh.keys.find(d.LKey)
		if k == nil || k.pd != p.receivePD() || k.access&control.AccessLocalWrite == 0 ||
			!sh.admit(&j.dst, k, d.Addr, n, control.AccessLocalWrite) {
			return sh.badReceive(j, entry, off/wqe.UnitSize, d)
		}
		left -= min(n, left)
	}
	if left > 0 {
		return sh.receiveTooShort(j, entry, left)
	}
	return answerACK
}

// receivePD is the domain that the keys of q's receives belong to.
func (q *qp) receivePD() *pd {
	if q.rq.srq != nil {
		return q.rq.srq.pd
	}
	return q.pd
}

// deliver completes the receive that a message has used, whose bytes are there.
func (sh *shard) deliver(q *qp, j *job) answer {
	p, r := j.peer, &j.request
	info := r.op.Info()
	imm := uint32(0)
	switch info.Imm {
	case wqe.ImmData:
		imm = r.imm
	case wqe.ImmInvalRKey:
		if imm = r.imm; !sh.invalidate(p, imm) {
			return sh.badInvalidate(q, j)
		}
	}
	attention := quietly
	if r.solicited {
		attention = solicited
	}
	source := r.from
	if p.transport == control.QPTypeUD {
		source |= cqe.GRHInBuffer
	}
	if !sh.complete(p.rq.cq, source, p.uidx, imm, uint32(j.total), sh.clock(), responderTail(p.num, j.index, cqe.Opcode(info.Response)), attention) {
		sh.overrun(p.rq.cq)
		sh.setError(p)
		return p.nak(answerOperation)
	}
	sh.consume(j)
	return answerACK
}

// responderTail is the tail of a responder's completion.
func responderTail(qpn uint32, index uint16, op cqe.Opcode) cqe.Tail {
	return cqe.MakeTail(qpn, 0, index, 0, cqe.MakeOpOwn(op, cqe.FormatPlain, false, 0))
}

// consume ends the receive that a message has used.
func (sh *shard) consume(j *job) {
	if j.taken != nil {
		j.taken = nil
	} else {
		j.peer.rq.done++
	}
	j.peer.client.count[control.CounterReceives]++
}

// putBack returns a shared receive that was opened for nothing.
func (sh *shard) putBack(j *job) {
	s := j.taken
	if s == nil {
		return
	}
	if j.taken = nil; sh.holds(s.client.shard) {
		s.putBack(j.index)
	} else {
		sh.owed = append(sh.owed, owedReceive{s, j.index})
	}
}

// nak returns an answer that refuses, as q's transport has it: on an unreliable one
// nothing is answered.
func (q *qp) nak(a answer) answer {
	if q.transport != control.QPTypeRC {
		return answerDrop
	}
	return a
}

// refuseRequest answers with a NAK, and on a reliable connection ends the responder.
func (sh *shard) refuseRequest(p *qp, kind control.EventKind, a answer) answer {
	if a = p.nak(a); a != answerDrop {
		p.client.event(kind, p.num)
		sh.setError(p)
	}
	return a
}

// failReceive completes the receive that j has opened with an error and puts
// its queue pair into error.
func (sh *shard) failReceive(j *job, s cqe.Syndrome) {
	p := j.peer
	ok := sh.completeError(p.rq.cq, p.uidx, s, responderTail(p.num, j.index, cqe.RespErr))
	sh.consume(j)
	if !ok {
		sh.overrun(p.rq.cq)
	}
	sh.setError(p)
}
