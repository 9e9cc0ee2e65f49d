//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// The requester takes a snapshot of the WQE, checks it, gathers the local memory, asks
// the responder, and acts on the answer.

// DataOffset is where the data segments of a WQE with a remote address begin.
const DataOffset = wqe.CtrlSize + wqe.RaddrSize

// Snapshot copies the first block of the next WQE to private memory. From then on only the
// copy is read, because the client could change the ring.
func (sh *queues) Snapshot(q *object.QP) {
	*(*shm.Block)(sh.Scratch.WQE[:]) = *q.SQ.Blocks.At(q.SQ.Done)
}

// A requester judges WQEs.
type requester struct{ responder }

// Judge judges the WQE of the snapshot and fills sh.scratch.job with the work to do. n is
// the number of blocks that are announced.
//
// Local keys are judged before the peer is asked, because a NIC gathers before it sends.
func (sh *requester) Judge(q *object.QP, n uint16) object.Verdict {
	j := sh.Scratch.Job
	h := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	j.Reset(h)
	if j.Blocks != 1 {
		if j.Blocks == 0 || j.Blocks > int(n) {
			return sh.badSize(q, j, n)
		}
		for i := 1; i < j.Blocks; i++ {
			*(*shm.Block)(sh.Scratch.WQE[i*wqe.BlockSize:]) = *q.SQ.Blocks.At(q.SQ.Done + uint64(i))
		}
	}
	if q.Signed && wqe.Sign(sh.Scratch.WQE[:h.DS()*wqe.UnitSize]) != h.Signature() {
		return sh.badSignature(q, j)
	}
	op := h.Opcode()
	if op > 63 || q.Allowed>>(op&63)&1 == 0 {
		return sh.badOpcode(q, j)
	}
	sh.CheckPlace(q, h)
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
		return object.Accepted
	}
	return sh.badOpcode(q, j)
}

// judgeTransfer judges a SEND, a WRITE or a READ.
func (sh *requester) judgeTransfer(q *object.QP, j *object.Job, info *wqe.Info) object.Verdict {
	if q.TooShort(j, info) {
		return sh.badSize(q, j, 0)
	}
	data := wqe.CtrlSize
	switch {
	case q.Transport != control.QPTypeRC:
		var v object.Verdict
		if data, v = sh.addressed(q, j, info); v != object.Accepted {
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
	near, far := &j.Src, &j.Dst
	if info.Reads {
		near, far = far, near
	}
	if v := sh.gather(q, j, near, data, j.Head.DS()*wqe.UnitSize, uint32(info.Local)); v != object.Accepted {
		return v
	}
	if info.Reads {
		j.CarryResult(q)
	}
	return sh.ask(q, j, info, far)
}

// addressed returns where the segments after the address segment begin. It puts the address
// segment of an XRC message into the request, and reads that of a DC message.
func (sh *requester) addressed(q *object.QP, j *object.Job, info *wqe.Info) (data int, v object.Verdict) {
	switch q.Transport {
	case control.QPTypeUD:
		return wqe.CtrlSize + wqe.AVSize, object.Accepted
	case control.QPTypeXRC:
		j.Request.SRQN = wqe.ParseXRC((*[wqe.XRCSize]byte)(sh.Scratch.WQE[wqe.CtrlSize:])).SRQN & 0xffffff
		return wqe.CtrlSize + wqe.XRCSize, object.Accepted
	case control.QPTypeDCI:
		return sh.readAddress(q, j, info)
	}
	return wqe.CtrlSize, object.Accepted
}

// parseRaddr puts the remote address segment at the offset at into the request.
func (sh *requester) parseRaddr(j *object.Job, at int) {
	r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(sh.Scratch.WQE[at:]))
	j.Request.Addr, j.Request.RKey = r.Addr, r.RKey
}

// gather turns data segments of the WQE into pieces of the list l, and adds up their
// lengths. The segments are those from byte off of the WQE to byte end. need is the right
// that each key must give.
func (sh *requester) gather(q *object.QP, j *object.Job, l *object.List, off, end int, need uint32) object.Verdict {
	total := uint64(0)
	for off < end {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(sh.Scratch.WQE[off:]))
		if d.Inline() {
			size := wqe.InlineLength(d.ByteCount)
			start := off + wqe.InlineHead
			off += (wqe.InlineHead + size + wqe.UnitSize - 1) &^ (wqe.UnitSize - 1)
			if off > end || need != 0 {
				return sh.badInline(q, j, size, off, end)
			}
			if size > 0 {
				l.Add(sh.Scratch.WQE[start:start+size], nil, 0, uint64(size))
				total += uint64(size)
			}
			continue
		}
		off += wqe.UnitSize
		n := d.Length()
		k := sh.Keys.Find(d.LKey)
		switch {
		case k == nil && d.LKey == control.NullKey:
			sh.admitNull(l, n, need)
		case k == nil || k.PD != q.PD || k.Access&need != need || !sh.admit(l, k, d.Addr, n, need):
			return sh.badLocal(q, j, d, need)
		}
		total += n
	}
	if total > wqe.MaxMessage {
		return sh.TooLong(q, j, total, wqe.MaxMessage)
	}
	j.Total = total
	return object.Accepted
}

// ask sends the request to the responder. The responder puts the memory that the request
// names into the list far.
func (sh *requester) ask(q *object.QP, j *object.Job, info *wqe.Info, far *object.List) object.Verdict {
	r := &j.Request
	r.Op, r.FromQPN, r.Length = j.Head.Opcode(), q.Num, j.Total
	if j.Recv = info.Receive(); j.Recv {
		r.Imm, r.Solicited = j.Head.Imm(), j.Head.Solicited()
	}
	if q.Transport == control.QPTypeUD {
		if v := sh.addressDatagram(q, j); v != object.Accepted {
			return v
		}
		j.Local, j.Request.SL = !sh.Scratch.Global, sh.Scratch.Level
	} else if q.Wire != nil {
		return object.Accepted // the responder judges the packets
	} else if q.Transport == control.QPTypeDCI {
		if v := sh.addressTarget(q, j); v != object.Accepted {
			return v
		}
	} else {
		r.ToQPN = q.Attr.DestQPN
		if !q.Connected(q.Conn.Peer) {
			if !sh.find(q) {
				return sh.answered(q, j, object.AnswerNone)
			}
			sh.Established(q.Conn.Peer)
		}
		j.Peer = q.Conn.Peer
	}
	if a := sh.Respond(q, j, info, far); a != object.AnswerACK {
		return sh.answered(q, j, a)
	}
	return object.Accepted
}

// find looks for the queue pair that q is connected to, and reports whether q may send to
// that queue pair.
func (sh *queues) find(q *object.QP) bool {
	if q.Transport == control.QPTypeDCI {
		return sh.FindTarget(q)
	}
	p := sh.BoundPeer(q)
	if !q.Connected(p) {
		return false
	}
	q.Conn.Peer = p
	return true
}

// answered acts on an answer other than AnswerACK.
func (sh *requester) answered(q *object.QP, j *object.Job, a object.Answer) object.Verdict {
	timer, rnr := a.RNR()
	switch {
	case a == object.AnswerAgain:
		return object.Waiting
	case !q.Reliable():
		if a == object.AnswerNone {
			why := sh.WhyNoPeer(q)
			sh.Explain(q, why.Code, "%s; the message is lost", why)
		}
		return sh.LoseMessage(j)
	case a == object.AnswerNone:
		return sh.wait(q, object.NoPeer, 0)
	case rnr:
		return sh.wait(q, object.NotReady, timer)
	}
	return sh.Fail(q, j, a.Syndrome())
}

// LoseMessage ends a message that the responder does not take. On an unreliable transport
// the requester is not told of this, and continues as if the message had arrived.
func (sh *requester) LoseMessage(j *object.Job) object.Verdict {
	j.Src.Reset()
	j.Dst.Reset()
	j.Total, j.Recv = 0, false
	sh.PutBack(j)
	return object.Lost
}

// Fail completes the WQE at the head of q with an error, even if the WQE asks for no
// completion, and puts q into error (see sendError), or only the stream of the WQE (see
// FailStream).
func (sh *queues) Fail(q *object.QP, j *object.Job, s cqe.Syndrome) object.Verdict {
	if sh.Trial {
		return object.Waiting
	}
	if q.Wire != nil {
		sh.Links.RewindQueue(q) // later messages are flushed
	}
	q.Client.Count[control.CounterWQEs]++
	q.Client.Count[control.CounterFailed]++
	sh.requesterError(q, j.Head, s)
	// A WQE may claim more blocks than were announced. Then only the announced blocks count
	// as its own, so that the flush begins at the first block of the next WQE.
	q.SQ.Done += uint64(min(max(j.Blocks, 1), max(int(sh.Pending(q)), 1)))
	sh.PutBack(j)
	if q.FailStream(j.Head) {
		sh.ParkJob(q) // a long transfer ends with its WQE; sendError does the same
	} else {
		sh.sendError(q)
	}
	return object.Failed
}
