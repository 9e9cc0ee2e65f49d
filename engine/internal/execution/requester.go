//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The requester takes a snapshot of the WQE, checks it, gathers the local memory, sends the request
// to the responder, and acts on the answer.

// DataOffset is where the data segments of a WQE with a remote address begin.
const DataOffset = wqe.CtrlSize + wqe.RaddrSize

// parseRaddr puts the remote address segment at the offset at into the request.
func (sh *requester) parseRaddr(j *object.Job, at int) {
	r := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(sh.Scratch.WQE[at:]))
	j.Request.Addr, j.Request.RKey = r.Addr, r.RKey
}

// gather turns the data segments between the bytes off and end of the WQE into pieces of the
// list l, and sets the Total of j to the sum of their lengths. need is the right that each key
// must give. Inline data can only be read, so need must be 0 for them.
func (sh *requester) gather(q *object.QP, j *object.Job, l *object.List, off, end int,
	need uint32) object.Verdict {
	total := uint64(0)
	for off < end {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(sh.Scratch.WQE[off:]))
		if d.Inline() {
			size := wqe.InlineLength(d.ByteCount)
			start := off + wqe.InlineHead
			off += (wqe.InlineHead + size + wqe.UnitSize - 1) &^ (wqe.UnitSize - 1) // rounded up to units
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
			if j.Reads() && !j.TooManyUnits(d) {
				return sh.postpone(q, j, total, off-wqe.UnitSize, end)
			}
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

// postpone notes that the data segment at byte off gives no access to the place for the answer of a READ or
// an atomic. A NIC looks at that place when the answer arrives. So the request is sent, an atomic is
// executed, and if the responder refuses the request, the WQE fails for that reason. total is the sum of the
// lengths before off; the other segments are only counted.
func (sh *requester) postpone(q *object.QP, j *object.Job, total uint64, off, end int) object.Verdict {
	j.NoPlace = uint16(off)
	for ; off < end; off += wqe.UnitSize {
		d := wqe.ParseData((*[wqe.UnitSize]byte)(sh.Scratch.WQE[off:]))
		if d.Inline() {
			return sh.badInline(q, j, wqe.InlineLength(d.ByteCount), off, end)
		}
		total += d.Length()
	}
	if total > wqe.MaxMessage {
		return sh.TooLong(q, j, total, wqe.MaxMessage)
	}
	j.Total = total
	return object.Accepted
}

// request sends the request of j to the responder, and acts on the answer if the answer is not an
// ACK. The responder puts the memory that the request names into the list far.
func (sh *requester) request(q *object.QP, j *object.Job, info *wqe.Info, far *object.List) object.Verdict {
	r := &j.Request
	r.Op, r.FromQPN, r.Length = j.Head.Opcode(), q.Num, j.Total
	j.Recv = info.Receive()
	if j.Recv {
		r.Imm, r.Solicited = j.Head.Imm(), j.Head.Solicited()
	}
	if q.Faults != nil {
		if v := sh.InjectRequest(q, j); v != object.Accepted {
			return v
		}
	}
	if q.Transport == control.QPTypeUD {
		if v := sh.addressDatagram(q, j); v != object.Accepted {
			return v
		}
		j.Local, j.Request.SL = !sh.Scratch.Global, sh.Scratch.Level
	} else if q.Wire != nil {
		return object.Accepted // the responder checks the packets
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
			sh.NotifyEstablished(q.Conn.Peer)
		}
		j.Peer = q.Conn.Peer
	}
	if a := sh.Respond(q, j, info, far); a != object.AnswerACK {
		return sh.answered(q, j, a)
	}
	if j.NoPlace != 0 {
		return sh.NoPlace(q, j, int(j.NoPlace))
	}
	return object.Accepted
}

// answered acts on an answer other than AnswerACK. The WQE is tried again, is lost, or fails.
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
// the requester gets no NAK, and continues as if the message had arrived.
func (sh *responder) LoseMessage(j *object.Job) object.Verdict {
	j.Src.Reset()
	j.Dst.Reset()
	j.Total, j.Recv, j.Lost = 0, false, true
	sh.ReturnReceive(j)
	return object.Lost
}
