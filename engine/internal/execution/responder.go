//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// The responder is the peer's side of a work request. It checks a request against the peer's queue
// pair, keys and receives. It answers, and completes the receives that messages have used. On a
// reliable connection, a fault that the responder finds puts both queue pairs into error. On other
// transports only the message is lost.

// NotifyEstablished sends the client of a queue pair in RTR the event that its first request has come.
// On a wire it is called for each packet, and sends the event once.
func (sh *responder) NotifyEstablished(p *object.QP) {
	if p.Attr.State != control.StateRTR || p.Wire != nil && p.Wire.In.Established {
		return
	}
	if p.Wire != nil {
		p.Wire.In.Established = true
	}
	p.Event(control.EventEstablished)
}

// CheckReceive checks that there is a receive for the message of j, if it needs one.
func (sh *responder) CheckReceive(q *object.QP, j *object.Job) object.Answer {
	if a := sh.NameReceives(q, j); a != object.AnswerACK {
		return a
	}
	if j.Recv && j.Receives() == 0 {
		return sh.NoReceive(j)
	}
	return object.AnswerACK
}

// NameReceives finds out where the receives for the message of j are.
func (sh *responder) NameReceives(q *object.QP, j *object.Job) object.Answer {
	if p := j.Peer; p.Transport == control.QPTypeXRC {
		return sh.nameSRQ(q, j)
	} else if j.Recv {
		j.SRQ = p.RQ.SRQ
	}
	return object.AnswerACK
}

// Translate finds the memory at the request's key and address, and adds it to far.
func (sh *responder) Translate(q *object.QP, j *object.Job, far *object.List, info *wqe.Info) object.Answer {
	p, r, need := j.Peer, &j.Request, uint32(info.Remote)
	if p.Attr.Access&need == 0 {
		return sh.refused(q, j, nil)
	}
	k := sh.Keys.Find(r.RKey)
	if k == nil || (!k.Serves(p) && !j.ServedBy(k)) || k.Access&need == 0 ||
		!sh.admit(far, k, r.Addr, r.Length, need) {
		return sh.badRemote(q, j, need)
	}
	return object.AnswerACK
}

// OpenReceive copies the responder's next receive to private memory and returns its list. An entry of a
// shared queue is taken off the queue at once, because other queue pairs take entries from that queue too.
// An entry of the queue pair's own queue is consumed when the message is complete.
func (sh *responder) OpenReceive(j *object.Job) (list []byte) {
	p := j.Peer
	if s := j.SRQ; s != nil {
		entry := sh.Scratch.Recv[:1<<s.Stride]
		j.Index, j.Shared = s.Take(entry), s
		sh.ObserveLimit(s)
		if p.Replayable() != 0 {
			sh.RecordReceive(j, entry)
		}
		return entry[wqe.SRQNextSize:]
	}
	j.Index = uint16(p.RQ.Done)
	entry := sh.Scratch.Recv[:1<<p.RQ.Stride]
	copy(entry, p.RQ.Ring[p.RQ.Done&p.RQ.Mask<<p.RQ.Stride:])
	if p.Replayable() != 0 {
		sh.RecordReceive(j, entry)
	}
	if p.Signed {
		return entry[wqe.UnitSize:] // the first unit holds a signature, which is not checked
	}
	return entry
}

// Scatter turns a receive's list into pieces, up to the length of the message.
func (sh *responder) Scatter(j *object.Job, entry []byte) object.Answer {
	left := j.Total
	for off := 0; left > 0; off += wqe.UnitSize {
		n, a := sh.ScatterUnit(j, entry, off)
		if a != object.AnswerACK {
			return a
		}
		if n == 0 {
			return sh.ReceiveTooShort(j, entry, left)
		}
		left -= min(n, left)
	}
	j.CarryMessage()
	return object.AnswerACK
}

// ScatterUnit turns the data segment at byte off of a receive's list into pieces, and returns
// how many bytes they have: 0 at the end of the list. All bytes of the segment must be valid,
// even if the message ends within them.
func (sh *responder) ScatterUnit(j *object.Job, entry []byte, off int) (n uint64, a object.Answer) {
	if off >= len(entry) {
		return 0, object.AnswerACK
	}
	d := wqe.ParseData((*[wqe.UnitSize]byte)(entry[off:]))
	if d.End() {
		return 0, object.AnswerACK
	}
	n = d.Length()
	k := sh.Keys.Find(d.LKey)
	switch {
	case k == nil && d.LKey == control.NullKey:
		sh.admitNull(&j.Dst, n, control.AccessLocalWrite)
	case k == nil || k.PD != j.ReceiveDomain() || k.Access&control.AccessLocalWrite == 0 ||
		!sh.admit(&j.Dst, k, d.Addr, n, control.AccessLocalWrite):
		return 0, sh.badReceive(j, entry, off/wqe.UnitSize, d)
	}
	return n, object.AnswerACK
}

// Consume ends the receive that a message has used.
func (sh *responder) Consume(j *object.Job) {
	if j.Shared != nil {
		j.Shared = nil
	} else {
		j.Peer.RQ.Done++
	}
	j.Peer.Client.Count[control.CounterReceives]++
}

// A request to a target names an XSRQ. The target checks only the connection. The receive, the
// completion, and the protection domain of all keys are those of the XSRQ.

// nameSRQ finds the XSRQ that a request to a target names, and makes it the one from which j takes receives.
func (sh *responder) nameSRQ(q *object.QP, j *object.Job) object.Answer {
	p, n := j.Peer, j.Request.SRQN
	if p.Target() == nil {
		sh.ExplainRequester(q, j, codes.PeerTransport, "peer QP %#06x is an XRC queue pair that sends; one that receives (XRC_RECV) is needed", p.Num)
		return sh.RefuseRequest(p, control.EventInvalidRequest, object.AnswerInvalidRequest)
	}
	var s *object.SRQ
	if q != nil {
		s = q.XRC.SRQ
	}
	if s == nil || s.Num != n || s.Gone {
		s = sh.SRQs[n]
	}
	if s == nil || s.XRCD != p.Target() {
		sh.ExplainRequester(q, j, codes.XRCSRQ, "%v for SRQ %#06x, which is none of the XRC domain of peer QP %#06x", j.Request.Op, n, p.Num)
		return sh.RefuseRequest(p, control.EventInvalidRequest, object.AnswerInvalidRequest)
	}
	j.SRQ = s
	if q != nil {
		q.XRC.SRQ = s
	}
	return object.AnswerACK
}
