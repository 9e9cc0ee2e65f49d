package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// receive makes sure that the peer has a receive posted, or waits for one.
func (sh *shard) receive(q *qp, j *job) bool {
	if j.peer.posted() > 0 {
		return true
	}
	if q.transport != control.QPTypeRC {
		sh.explainReceive(j, nil, codeReceiveNone, "no receive is posted for a message of QP %#06x, which is lost", q.num)
		return sh.lose(q, j)
	}
	return sh.wait(q, notReady)
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
func (sh *shard) scatter(q *qp, j *job, entry []byte) bool {
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
			return sh.badReceive(q, j, entry, off/wqe.UnitSize, d)
		}
		left -= min(n, left)
	}
	if left > 0 {
		return sh.receiveTooShort(q, j, entry, left)
	}
	return true
}

// receivePD is the domain that the keys of p's receives belong to.
func (q *qp) receivePD() *pd {
	if q.rq.srq != nil {
		return q.rq.srq.pd
	}
	return q.pd
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

func (sh *shard) finishReceive(q *qp, j *job) bool {
	p := j.peer
	op, imm, attention := cqe.RespSend, uint32(0), quietly
	switch j.head.opcode() {
	case wqe.OpSendImm:
		op, imm = cqe.RespSendImm, j.head.imm()
	case wqe.OpRDMAWriteImm:
		op, imm = cqe.RespWriteImm, j.head.imm()
	case wqe.OpSendInval:
		op, imm = cqe.RespSendInv, j.head.imm()
		if !sh.invalidate(p, imm) {
			return sh.badInvalidate(q, j)
		}
	}
	if j.head.solicited() {
		attention = solicited
	}
	source := q.num
	if p.transport == control.QPTypeUD {
		source |= grhInBuffer
	}
	if !sh.complete(p.rq.cq, source, p.uidx, imm, j.total, sh.clock(), tail(0, p.num, j.index, op), attention) {
		sh.overrun(p.rq.cq)
		sh.setError(p)
		if q.transport != control.QPTypeRC {
			return sh.lose(q, j)
		}
		return sh.fail(q, j, cqe.RemoteOperation)
	}
	sh.consume(j)
	return true
}

// failReceive completes the receive that j has opened with an error and puts
// its queue pair into error.
func (sh *shard) failReceive(j *job, s cqe.Syndrome) {
	p := j.peer
	ok := sh.completeError(p.rq.cq, p.uidx, s, tail(0, p.num, j.index, cqe.RespErr))
	sh.consume(j)
	if !ok {
		sh.overrun(p.rq.cq)
	}
	sh.setError(p)
}

// lose ends a message that nobody takes: on an unreliable transport the sender
// learns nothing of it. It returns false, and sets lost for its callers to go
// on as if it had arrived.
func (sh *shard) lose(q *qp, j *job) bool {
	j.src.reset()
	j.dst.reset()
	j.total, j.recv, j.lost = 0, false, true
	sh.putBack(j)
	return false
}

// putBack returns a shared receive that was opened for nothing.
func (sh *shard) putBack(j *job) {
	s := j.taken
	if s == nil {
		return
	}
	if j.taken = nil; sh.holds(s.client.shard) {
		s.giveBack(j.index)
	} else {
		sh.owed = append(sh.owed, owedReceive{s, j.index})
	}
}
