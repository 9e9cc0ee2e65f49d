//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The responder is the peer's side of a work request. It judges what a requester asks of
// the peer's queue pair, keys and receives. It answers, and completes the receives that
// messages have used. On a reliable connection, a fault that the responder finds puts
// both queue pairs into error. On other transports only the message is lost.

// A responder serves the requests of peers on this device.
type responder struct{ queues }

// established tells the client of a queue pair in RTR that its first request has come. On a wire it is
// called for each packet, and tells so once.
func (sh *responder) established(p *qp) {
	if p.attr.State != control.StateRTR || p.wire != nil && p.wire.in.met {
		return
	}
	if p.wire != nil {
		p.wire.in.met = true
	}
	p.event(control.EventEstablished)
}

// respond judges the request of j for the queue pair j.peer, which is connected with the requester q. If the
// requester is on another device, q is nil. respond puts the memory that the request names into the list
// far. If the request is an atomic, respond executes it and puts the old value into far.
func (sh *requester) respond(q *qp, j *job, info *wqe.Info, far *list) answer {
	if q != nil && q.transport == control.QPTypeUD && !sh.takesDatagram(q, j) {
		return answerDrop
	}
	if a := sh.checkReceive(q, j); a != answerACK {
		return a
	}
	return sh.grant(q, j, info, far)
}

// grant is the second half of respond, for a request whose receive, if it needs one, is there.
func (sh *requester) grant(q *qp, j *job, info *wqe.Info, far *list) answer {
	p := j.peer
	if info.Reads && p.attr.MaxDestRdAtomic == 0 && p.transport != control.QPTypeDCT {
		return sh.refused(q, j, info)
	}
	// The key and the address of a request for 0 bytes are not checked.
	if info.Remote != 0 && j.request.length > 0 {
		if a := sh.translate(q, j, far, info); a != answerACK {
			return a
		}
	}
	switch {
	case info.Atomic():
		return sh.executeAtomic(q, j, far)
	case j.recv && !info.Raddr:
		return sh.scatter(j, sh.openReceive(j))
	case j.recv:
		sh.openReceive(j) // the message needs the receive, but not its list
	}
	return answerACK
}

// checkReceive checks that there is a receive for the message of j, if it needs one.
func (sh *responder) checkReceive(q *qp, j *job) answer {
	if a := sh.nameReceives(q, j); a != answerACK {
		return a
	}
	if j.recv && j.receives() == 0 {
		return sh.noReceive(j)
	}
	return answerACK
}

// nameReceives finds out where the receives for the message of j are.
func (sh *responder) nameReceives(q *qp, j *job) answer {
	if p := j.peer; p.transport == control.QPTypeXRC {
		return sh.nameSRQ(q, j)
	} else if j.recv {
		j.srq = p.rq.srq
	}
	return answerACK
}

// translate finds the memory at the request's key and address, and adds it to far.
func (sh *responder) translate(q *qp, j *job, far *list, info *wqe.Info) answer {
	p, r, need := j.peer, &j.request, uint32(info.Remote)
	if p.attr.Access&need == 0 {
		return sh.refused(q, j, nil)
	}
	k := sh.keys.find(r.rkey)
	if k == nil || !k.serves(p) && !j.servedBy(k) || k.access&need == 0 || !sh.admit(far, k, r.addr, r.length, need) {
		return sh.badRemote(q, j, need)
	}
	return answerACK
}

// openReceive copies the responder's next receive to private memory and returns its list.
// An entry of a shared queue is taken off the queue at once, because other queue pairs take
// entries from that queue too. An entry of the queue pair's own queue is consumed when the
// message is complete.
func (sh *responder) openReceive(j *job) (list []byte) {
	p := j.peer
	if s := j.srq; s != nil {
		entry := sh.scratch.recv[:1<<s.stride]
		j.index, j.shared = s.take(entry), s
		sh.observeLimit(s)
		return entry[wqe.SRQNextSize:]
	}
	j.index = uint16(p.rq.done)
	entry := sh.scratch.recv[:1<<p.rq.stride]
	copy(entry, p.rq.ring[p.rq.done&p.rq.mask<<p.rq.stride:])
	if p.signed {
		return entry[wqe.UnitSize:] // the first unit holds a signature, which is not checked
	}
	return entry
}

// scatter turns a receive's list into pieces, up to the length of the message.
func (sh *responder) scatter(j *job, entry []byte) answer {
	left := j.total
	for off := 0; left > 0; off += wqe.UnitSize {
		n, a := sh.scatterUnit(j, entry, off)
		if a != answerACK {
			return a
		}
		if n == 0 {
			return sh.receiveTooShort(j, entry, left)
		}
		left -= min(n, left)
	}
	j.carryMessage()
	return answerACK
}

// scatterUnit turns the data segment at byte off of a receive's list into pieces, and returns
// how many bytes they have: 0 at the end of the list. All bytes of the segment must be valid,
// even if the message ends within them.
func (sh *responder) scatterUnit(j *job, entry []byte, off int) (n uint64, a answer) {
	if off >= len(entry) {
		return 0, answerACK
	}
	d := wqe.ParseData((*[wqe.UnitSize]byte)(entry[off:]))
	if d.End() {
		return 0, answerACK
	}
	n = d.Length()
	k := sh.keys.find(d.LKey)
	switch {
	case k == nil && d.LKey == control.NullKey:
		sh.admitNull(&j.dst, n, control.AccessLocalWrite)
	case k == nil || k.pd != j.receiveDomain() || k.access&control.AccessLocalWrite == 0 ||
		!sh.admit(&j.dst, k, d.Addr, n, control.AccessLocalWrite):
		return 0, sh.badReceive(j, entry, off/wqe.UnitSize, d)
	}
	return n, answerACK
}

// deliver completes the receive of a message whose bytes have all been moved.
func (sh *requester) deliver(q *qp, j *job) answer {
	p, r := j.peer, &j.request
	info := r.op.Info()
	imm := uint32(0)
	switch info.Imm {
	case wqe.ImmData:
		imm = r.imm
	case wqe.ImmInvalRKey:
		if imm = r.imm; !sh.invalidate(p, j.domain(), imm) {
			return sh.badInvalidate(q, j)
		}
	}
	attention := quietly
	if r.solicited {
		attention = solicited
	}
	tail := responderTail(p.num, j.index, cqe.Opcode(info.Response))
	into, uidx := j.completion()
	var ok bool
	switch {
	case p.transport == control.QPTypeUD:
		ok = sh.completeDatagram(q, j, imm, tail, attention)
	case p.transport == control.QPTypeDCT:
		ok = sh.completeFrom(q.client.hosted.LID, into, r.fromQPN, uidx, imm, uint32(j.total), tail, attention)
	case j.carries && !info.Raddr:
		ok = sh.completeInline(into, j.carried[:j.total], r.fromQPN, uidx, imm, tail, attention)
	default:
		ok = sh.complete(into, r.fromQPN, uidx, imm, uint32(j.total), sh.clock(), tail, attention)
	}
	if !ok {
		sh.overrun(into)
		sh.setError(p)
		return p.nak(answerOperation)
	}
	sh.consume(j)
	return answerACK
}

// responderTail returns the tail of a responder's completion.
func responderTail(qpn uint32, index uint16, op cqe.Opcode) cqe.Tail {
	return cqe.MakeTail(qpn, 0, index, 0, cqe.MakeOpOwn(op, cqe.FormatPlain, false, 0))
}

// consume ends the receive that a message has used.
func (sh *responder) consume(j *job) {
	if j.shared != nil {
		j.shared = nil
	} else {
		j.peer.rq.done++
	}
	j.peer.client.count[control.CounterReceives]++
}

// putBack returns a shared receive that was opened and not used.
func (sh *mover) putBack(j *job) {
	s := j.shared
	if s == nil {
		return
	}
	if j.shared = nil; sh.holds(s.client.shard) {
		s.putBack(j.index)
	} else {
		sh.owed = append(sh.owed, owedReceive{s, j.index})
	}
}

// nak returns the NAK a. If q's transport is unreliable, it returns answerDrop, because no
// NAK is sent there.
func (q *qp) nak(a answer) answer {
	if !q.reliable() {
		return answerDrop
	}
	return a
}

// refuseRequest answers with a NAK. On a reliable connection it raises an event and puts
// the responder into error. A DCT has many peers, and one of them cannot do that to it.
func (sh *responder) refuseRequest(p *qp, kind control.EventKind, a answer) answer {
	if a = p.nak(a); a == answerDrop || sh.links.doubted(p) {
		return answerDrop
	}
	if p.transport != control.QPTypeDCT {
		p.event(kind)
		sh.setError(p)
	}
	return a
}

// failReceive completes, with an error, the receive that j has opened. It also puts the
// queue pair of that receive into error, unless it is a DCT (see refuseRequest).
func (sh *responder) failReceive(j *job, s cqe.Syndrome) {
	p := j.peer
	into, uidx := j.completion()
	ok := sh.completeError(into, uidx, s, responderTail(p.num, j.index, cqe.RespErr))
	sh.consume(j)
	if !ok {
		sh.overrun(into)
	}
	if !ok || p.transport != control.QPTypeDCT {
		sh.setError(p)
	}
}
