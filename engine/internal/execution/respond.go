//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Respond checks the request of j as the responder, which is the queue pair j.Peer. q is the requester, or
// nil if the requester is on another device. Respond puts the memory that the request names into the list
// far. If the request is an atomic, Respond executes it and puts the old value into far.
func (sh *requester) Respond(q *object.QP, j *object.Job, info *wqe.Info, far *object.List) object.Answer {
	if q != nil && q.Transport == control.QPTypeUD && !sh.takesDatagram(q, j) {
		return object.AnswerDrop
	}
	if a := sh.CheckReceive(q, j); a != object.AnswerACK {
		return a
	}
	return sh.Grant(q, j, info, far)
}

// Grant is the second half of Respond. The caller has checked that there is a receive if the request needs
// one.
func (sh *requester) Grant(q *object.QP, j *object.Job, info *wqe.Info, far *object.List) object.Answer {
	p := j.Peer
	if info.Reads && p.Attr.MaxDestRdAtomic == 0 && p.Transport != control.QPTypeDCT {
		return sh.refused(q, j, info)
	}
	if info.Atomic() && j.Request.Addr%j.Request.Length != 0 {
		return sh.misaligned(q, j)
	}
	// The key and the address of a request for 0 bytes are not checked.
	if info.Remote != 0 && j.Request.Length > 0 {
		if a := sh.Translate(q, j, far, info); a != object.AnswerACK {
			return a
		}
	}
	switch {
	case info.Atomic():
		return sh.executeAtomic(q, j, far)
	case j.Recv && !info.Raddr:
		return sh.Scatter(j, sh.OpenReceive(j))
	case j.Recv:
		sh.OpenReceive(j) // the message needs the receive, but not its list
	}
	return object.AnswerACK
}

// Deliver completes the receive of a message whose bytes have all been moved. Any answer but AnswerACK
// means that the responder has refused the message.
func (sh *requester) Deliver(q *object.QP, j *object.Job) object.Answer {
	p, r := j.Peer, &j.Request
	info := r.Op.Info()
	imm := uint32(0)
	switch info.Imm {
	case wqe.ImmData:
		imm = r.Imm
	case wqe.ImmInvalRKey:
		imm = r.Imm
		if !sh.invalidate(p, j.Domain(), imm) {
			return sh.badInvalidate(q, j)
		}
	}
	attention := object.Quietly
	if r.Solicited {
		attention = object.Solicited
	}
	tail := object.ResponderTail(p.Num, j.Index, cqe.Opcode(info.Response))
	into, uidx := j.Completion()
	var ok bool
	switch {
	case p.Transport == control.QPTypeUD:
		ok = sh.completeDatagram(q, j, imm, tail, attention)
	case p.Transport == control.QPTypeDCT:
		ok = sh.CompleteFrom(q.Client.Hosted.LID, into, r.FromQPN, uidx, imm, uint32(j.Total), tail,
			attention)
	case j.Carries && !info.Raddr:
		ok = sh.CompleteInline(into, j.Carried[:j.Total], r.FromQPN, uidx, imm, tail, attention)
	default:
		ok = sh.Complete(into, r.FromQPN, uidx, imm, uint32(j.Total), sh.Clock(), tail, attention)
	}
	if !ok {
		sh.Overrun(into)
		sh.SetError(p)
		return p.Nak(object.AnswerOperation)
	}
	sh.Consume(j)
	return object.AnswerACK
}
