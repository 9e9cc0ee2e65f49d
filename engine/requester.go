//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The requester takes a snapshot of the WQE, checks it, gathers the local memory, asks
// the responder, and acts on the answer.

// dataOffset is where the data segments of a WQE with a remote address begin.
const dataOffset = wqe.CtrlSize + wqe.RaddrSize

// snapshot copies the first block of the next WQE to private memory. From then on only the
// copy is read, because the client could change the ring.
func (sh *queues) snapshot(q *qp) {
	*(*shm.Block)(sh.scratch.wqe[:]) = *q.sq.blocks.At(q.sq.done)
}

// A requester judges WQEs.
type requester struct{ responder }

// judge judges the WQE of the snapshot and fills sh.scratch.job with the work to do. n is
// the number of blocks that are announced.
//
// Local keys are judged before the peer is asked, because a NIC gathers before it sends.
func (sh *requester) judge(q *qp, n uint16) verdict {
	j := sh.scratch.job
	h := parseHead((*[wqe.CtrlSize]byte)(sh.scratch.wqe[:]))
	j.reset(h)
	if j.blocks != 1 {
		if j.blocks == 0 || j.blocks > int(n) {
			return sh.badSize(q, j, n)
		}
		for i := 1; i < j.blocks; i++ {
			*(*shm.Block)(sh.scratch.wqe[i*wqe.BlockSize:]) = *q.sq.blocks.At(q.sq.done + uint64(i))
		}
	}
	if q.signed && wqe.Sign(sh.scratch.wqe[:h.ds()*wqe.UnitSize]) != h.signature() {
		return sh.badSignature(q, j)
	}
	op := h.opcode()
	if op > 63 || q.allowed>>(op&63)&1 == 0 {
		return sh.badOpcode(q, j)
	}
	sh.checkPlace(q, h)
	info := op.Info()
	switch {
	case info.Atomic():
		return sh.judgeAtomic(q, j, info)
	case info.Remote != 0 || info.Receive():
		return sh.judgeTransfer(q, j, info)
	}
	switch op {
	case wqe.OpUMR:
		return sh.judgeUMR(q, j)
	case wqe.OpDump:
		return sh.judgeDump(q, j)
	case wqe.OpMMO:
		return sh.judgeMMO(q, j)
	case wqe.OpWait:
		return sh.judgeWait(q, j)
	case wqe.OpSendEn:
		return sh.judgeSendEnable(q, j)
	case wqe.OpNop:
		return accepted
	}
	return sh.badOpcode(q, j)
}

// tooShort reports whether a WQE lacks segments that its opcode needs.
func (q *qp) tooShort(j *job, info *wqe.Info) bool {
	return j.head.ds() < info.LeastUnits(wqe.Transport(q.transport))
}

// judgeTransfer judges a SEND, a WRITE or a READ.
func (sh *requester) judgeTransfer(q *qp, j *job, info *wqe.Info) verdict {
	if q.tooShort(j, info) {
		return sh.badSize(q, j, 0)
	}
	data := wqe.CtrlSize
	switch {
	case q.transport != control.QPTypeRC:
		var v verdict
		if data, v = sh.addressed(q, j, info); v != accepted {
			return v
		}
		if info.Raddr {
			sh.parseRaddr(j, data)
			data += wqe.RaddrSize
		}
	case info.Raddr:
		sh.parseRaddr(j, wqe.CtrlSize)
		data += wqe.RaddrSize
	}
	near, far := &j.src, &j.dst
	if info.Reads {
		near, far = far, near
	}
	if v := sh.gather(q, j, near, data, j.head.ds()*wqe.UnitSize, uint32(info.Local)); v != accepted {
		return v
	}
	if info.Reads {
		j.carryResult(q)
	}
	return sh.ask(q, j, info, far)
}

// addressed returns where the segments after the address segment begin. It puts the address
// segment of an XRC message into the request, and reads that of a DC message.
func (sh *requester) addressed(q *qp, j *job, info *wqe.Info) (data int, v verdict) {
	switch q.transport {
	case control.QPTypeUD:
		return wqe.CtrlSize + wqe.AVSize, accepted
	case control.QPTypeXRC:
		j.request.srqn = wqe.ParseXRC((*[wqe.XRCSize]byte)(sh.scratch.wqe[wqe.CtrlSize:])).SRQN & 0xffffff
		return wqe.CtrlSize + wqe.XRCSize, accepted
	case control.QPTypeDCI:
		return sh.readAddress(q, j, info)
	}
	return wqe.CtrlSize, accepted
}

// parseRaddr puts the remote address segment at the offset at into the request.
func (sh *requester) parseRaddr(j *job, at int) {
	r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(sh.scratch.wqe[at:]))
	j.request.addr, j.request.rkey = r.Addr, r.RKey
}

// gather turns data segments of the WQE into pieces of the list l, and adds up their
// lengths. The segments are those from byte off of the WQE to byte end. need is the right
// that each key must give.
func (sh *requester) gather(q *qp, j *job, l *list, off, end int, need uint32) verdict {
	total := uint64(0)
	for off < end {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(sh.scratch.wqe[off:]))
		if d.Inline() {
			size := wqe.InlineLength(d.ByteCount)
			start := off + wqe.InlineHead
			off += (wqe.InlineHead + size + wqe.UnitSize - 1) &^ (wqe.UnitSize - 1)
			if off > end || need != 0 {
				return sh.badInline(q, j, size, off, end)
			}
			if size > 0 {
				l.add(sh.scratch.wqe[start:start+size], nil, 0, uint64(size))
				total += uint64(size)
			}
			continue
		}
		off += wqe.UnitSize
		n := d.Length()
		k := sh.keys.find(d.LKey)
		switch {
		case k == nil && d.LKey == control.NullKey:
			sh.admitNull(l, n, need)
		case k == nil || k.pd != q.pd || k.access&need != need || !sh.admit(l, k, d.Addr, n, need):
			return sh.badLocal(q, j, d, need)
		}
		total += n
	}
	if total > wqe.MaxMessage {
		return sh.tooLong(q, j, total, wqe.MaxMessage)
	}
	j.total = total
	return accepted
}

// ask sends the request to the responder. The responder puts the memory that the request
// names into the list far.
func (sh *requester) ask(q *qp, j *job, info *wqe.Info, far *list) verdict {
	r := &j.request
	r.op, r.fromQPN, r.length = j.head.opcode(), q.num, j.total
	if j.recv = info.Receive(); j.recv {
		r.imm, r.solicited = j.head.imm(), j.head.solicited()
	}
	if q.transport == control.QPTypeUD {
		if v := sh.addressDatagram(q, j); v != accepted {
			return v
		}
		j.local, j.request.sl = !sh.scratch.global, sh.scratch.level
	} else if q.wire != nil {
		return accepted // the responder judges the packets
	} else if q.transport == control.QPTypeDCI {
		if v := sh.addressTarget(q, j); v != accepted {
			return v
		}
	} else {
		r.toQPN = q.attr.DestQPN
		if !q.connected(q.conn.peer) {
			if !sh.find(q) {
				return sh.answered(q, j, answerNone)
			}
			sh.established(q.conn.peer)
		}
		j.peer = q.conn.peer
	}
	if a := sh.respond(q, j, info, far); a != answerACK {
		return sh.answered(q, j, a)
	}
	return accepted
}

// find looks for the queue pair that q is connected to, and reports whether q may send to
// that queue pair.
func (sh *queues) find(q *qp) bool {
	if q.transport == control.QPTypeDCI {
		return sh.findTarget(q)
	}
	p := sh.boundPeer(q)
	if !q.connected(p) {
		return false
	}
	q.conn.peer = p
	return true
}

// answered acts on an answer other than answerACK.
func (sh *requester) answered(q *qp, j *job, a answer) verdict {
	timer, rnr := a.rnr()
	switch {
	case a == answerAgain:
		return waiting
	case !q.reliable():
		if a == answerNone {
			why := sh.whyNoPeer(q)
			sh.explain(q, why.code, "%s; the message is lost", why)
		}
		return sh.loseMessage(j)
	case a == answerNone:
		return sh.wait(q, noPeer, 0)
	case rnr:
		return sh.wait(q, notReady, timer)
	}
	return sh.fail(q, j, a.syndrome())
}

// syndrome returns the syndrome that the requester's completion has after this NAK.
func (a answer) syndrome() cqe.Syndrome {
	switch a {
	case answerInvalidRequest:
		return cqe.RemoteInvalidRequest
	case answerRemoteAccess:
		return cqe.RemoteAccess
	}
	return cqe.RemoteOperation
}

// loseMessage ends a message that the responder does not take. On an unreliable transport
// the requester is not told of this, and continues as if the message had arrived.
func (sh *requester) loseMessage(j *job) verdict {
	j.src.reset()
	j.dst.reset()
	j.total, j.recv = 0, false
	sh.putBack(j)
	return lost
}

// fail completes the WQE at the head of q with an error, even if the WQE asks for no
// completion, and puts q into error (see sendError), or only the stream of the WQE (see
// failStream).
func (sh *queues) fail(q *qp, j *job, s cqe.Syndrome) verdict {
	if sh.trial {
		return waiting
	}
	if q.wire != nil {
		sh.links.rewindQueue(q) // later messages are flushed
	}
	q.client.count[control.CounterWQEs]++
	q.client.count[control.CounterFailed]++
	sh.requesterError(q, j.head, s)
	// A WQE may claim more blocks than were announced. Then only the announced blocks count
	// as its own, so that the flush begins at the first block of the next WQE.
	q.sq.done += uint64(min(max(j.blocks, 1), max(int(sh.pending(q)), 1)))
	sh.putBack(j)
	if q.failStream(j.head) {
		sh.parkJob(q) // a long transfer ends with its WQE; sendError does the same
	} else {
		sh.sendError(q)
	}
	return failed
}
