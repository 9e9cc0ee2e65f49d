//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/engine/internal/rights"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/wqe"
)

// Each of these functions explains in words what the responder finds wrong, and returns the
// responder's answer.

// NoReceive answers a message for which no receive is posted.
func (sh *responder) NoReceive(j *object.Job) object.Answer {
	p := j.Peer
	traffic.Refused(p, nic.OutOfBuffer, sh.Trial)
	if p.Reliable() {
		return object.AnswerRNR | object.Answer(p.Attr.MinRNRTimer)
	}
	sh.ExplainReceive(j, nil, codes.ReceiveNone, "no receive is posted for a message of QP %#06x, which is lost", j.Request.FromQPN)
	return object.AnswerDrop
}

// refused answers a request that the queue pair does not allow. If info is not nil, the
// reason is that the queue pair allows neither READs nor atomics (max_dest_rd_atomic 0). If
// info is nil, the reason is that the queue pair's access lacks the right that the request
// needs.
func (sh *responder) refused(q *object.QP, j *object.Job, info *wqe.Info) object.Answer {
	what := "this operation"
	switch {
	case info == nil:
	case info.Atomic():
		what = "atomics"
	default:
		what = "READ"
	}
	sh.ExplainRequester(q, j, codes.ResponderRefuses, "peer QP %#06x does not allow %s (%v): its access is %s, its max_dest_rd_atomic %d",
		j.Peer.Num, what, j.Request.Op, rights.Names(j.Peer.Attr.Access), j.Peer.Attr.MaxDestRdAtomic)
	return sh.RefuseRequest(j.Peer, control.EventInvalidRequest, object.AnswerInvalidRequest)
}

func (sh *responder) badRemote(q *object.QP, j *object.Job, need uint32) object.Answer {
	p, r := j.Peer, &j.Request
	traffic.Refused(p, nic.RespAccess, sh.Trial)
	if p.Wire != nil {
		p.Wire.Port.Stats.WrongKeys++
	}
	why := sh.WhyNoAccess(report.Use{Name: "rkey", Key: r.RKey, Addr: r.Addr, N: r.Length, Need: need,
		Client: j.Owner(), PD: j.Domain(), QP: p})
	if q == nil || j.Owner() != q.Client && why.Code != codes.KeyByteOrder {
		// A client that knew which keys are stale, and how large their memory is, could find a
		// valid key. So this is explained only to the owner of the memory.
		sh.ExplainResponder(j, why.Code, "%v of peer QP %#06x: %s", r.Op, r.FromQPN, why)
		why = object.Because(codes.KeyRefused, "rkey %#08x does not give peer QP %#06x's memory, %d bytes at %#x; why is said to its owner",
			r.RKey, p.Num, r.Length, r.Addr)
	}
	if q != nil {
		sh.Explain(q, why.Code, "%v: %s", r.Op, why)
	}
	if j.Recv && r.Length <= traffic.MTU(p) && p.Transport != control.QPTypeDCT && !sh.Trial {
		return sh.endImmediate(j)
	}
	return sh.RefuseRequest(p, control.EventAccessError, object.AnswerRemoteAccess)
}

// endImmediate refuses a WRITE with immediate whose remote key gives no access. The receive, in which the
// immediate would have been reported, completes with an error of its own: the verbs have it for this case.
// A message of several packets is refused with the first, which takes no receive.
func (sh *responder) endImmediate(j *object.Job) object.Answer {
	a := j.Peer.Nak(object.AnswerRemoteAccess)
	if a == object.AnswerDrop || sh.Links.Doubted(j.Peer) {
		return object.AnswerDrop
	}
	j.Peer.Event(control.EventAccessError)
	sh.OpenReceive(j)
	sh.failReceive(j, cqe.LocalAccess)
	return a
}

func (sh *responder) badInvalidate(q *object.QP, j *object.Job) object.Answer {
	sh.ExplainRequester(q, j, codes.SendInval, "SEND_INVAL of key %#08x: it is no memory window of type 2 that is bound to QP %#06x", j.Request.Imm, j.Peer.Num)
	if p := j.Peer; p.Reliable() && p.Transport != control.QPTypeDCT && !sh.Links.Doubted(p) {
		// An error of class J (InfiniBand Architecture Specification, volume 1, 9.9.6.3): the receive fails,
		// and the requester gets no NAK. The syndrome is that of Linux's Soft-RoCE.
		p.Event(control.EventInvalidRequest)
		sh.failReceive(j, cqe.RemoteInvalidRequest)
		return object.AnswerNone
	}
	sh.ReturnReceive(j)
	return sh.RefuseRequest(j.Peer, control.EventInvalidRequest, object.AnswerInvalidRequest)
}

// badReceive answers a message for which an entry of the receive's list gives no access to memory.
func (sh *responder) badReceive(j *object.Job, entry []byte, unit int, d wqe.Data) object.Answer {
	u := report.LocalUse(d, control.AccessLocalWrite, j.Peer, j.ReceiveDomain())
	u.Client = j.Owner()
	why := sh.WhyNoAccess(u)
	switch {
	case unit == 0 && d == wqe.Data{}:
		why = object.Because(codes.ReceiveUnwritten, "its entry is all zeros; it was announced before it was written, or written elsewhere")
	case unit > 0 && (why.Code == codes.KeyUnknown || why.Code == codes.KeyStale):
		why = object.Because(codes.ReceiveNoEnd, "its list goes on with unit %d: %s; to end it there, write byte_count 0 and lkey %#x", unit, why, wqe.KeyEnd)
	}
	sh.ExplainReceive(j, entry, why.Code, "receive %d: %s", j.Index, why)
	return sh.endReceive(j, cqe.LocalProtection, object.AnswerOperation)
}

func (sh *responder) ReceiveTooShort(j *object.Job, entry []byte, left uint64) object.Answer {
	sh.ExplainReceive(j, entry, codes.ReceiveShort, "receive %d takes %d bytes, the message has %d", j.Index, j.Total-left, j.Total)
	return sh.endReceive(j, cqe.LocalLength, object.AnswerInvalidRequest)
}

// endReceive answers a message whose bytes cannot be put into the receive that j has
// opened. On a reliable connection the receive fails, and its queue pair with it.
func (sh *responder) endReceive(j *object.Job, s cqe.Syndrome, a object.Answer) object.Answer {
	if a = j.Peer.Nak(a); a == object.AnswerDrop || sh.Links.Doubted(j.Peer) {
		return object.AnswerDrop
	}
	sh.failReceive(j, s)
	return a
}

// RefuseRequest answers with a NAK. On a reliable connection it raises an event and puts
// the responder into error. A DCT has many peers, and one of them cannot do that to it.
func (sh *responder) RefuseRequest(p *object.QP, kind control.EventKind, a object.Answer) object.Answer {
	if a = p.Nak(a); a == object.AnswerDrop || sh.Links.Doubted(p) {
		return object.AnswerDrop
	}
	if p.Transport != control.QPTypeDCT && !sh.Trial {
		p.Event(kind)
		sh.SetError(p)
	}
	return a
}

// failReceive completes, with an error, the receive that j has opened. It also puts the
// queue pair of that receive into error, unless it is a DCT (see RefuseRequest).
func (sh *responder) failReceive(j *object.Job, s cqe.Syndrome) {
	p := j.Peer
	into, uidx := j.Completion()
	sh.Carry(into.Client, reason.Place{Queue: p.Num, Index: j.Index, Of: control.OfReceive}, s)
	ok := sh.CompleteError(into, uidx, s, object.ResponderTail(p.Num, j.Index, cqe.RespErr))
	sh.Consume(j)
	if !ok {
		sh.Overrun(into)
	}
	if !ok || p.Transport != control.QPTypeDCT {
		sh.SetError(p)
	}
}

// UnreachableHere returns the answer for memory of the responder that could not be reached.
// It is the answer for a bad remote key or for a bad receive.
func (sh *responder) UnreachableHere(q *object.QP, j *object.Job, g object.Gap) object.Answer {
	why := g.Why()
	p, r := j.Peer, &j.Request
	taken := j.Recv && !r.Op.Info().Raddr
	if taken {
		sh.NewFault()
		receive := report.Subject{Client: j.Owner(), Number: p.Num, Index: j.Index, Kind: control.OfReceive}
		sh.ExplainSubject(receive, why.Code, "receive %d: %s", []any{j.Index, why})
	} else {
		sh.ExplainResponder(j, why.Code, "%v of peer QP %#06x: %s", r.Op, r.FromQPN, why)
	}
	if q != nil && j.Owner() != q.Client {
		sh.Explain(q, why.Code, "%v: memory of peer QP %#06x cannot be reached; its owner is told why", r.Op, p.Num)
	}
	if taken {
		return sh.endReceive(j, cqe.LocalProtection, object.AnswerOperation)
	}
	return sh.RefuseRequest(p, control.EventAccessError, object.AnswerRemoteAccess)
}
