//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Each of these functions explains in words what the responder finds wrong, and returns the
// responder's answer.

// noReceive answers a message for which no receive is posted.
func (sh *responder) noReceive(j *job) answer {
	p := j.peer
	if p.reliable() {
		return answerRNR | answer(p.attr.MinRNRTimer)
	}
	sh.explainReceive(j, nil, codes.ReceiveNone, "no receive is posted for a message of QP %#06x, which is lost", j.request.fromQPN)
	return answerDrop
}

// refused answers a request that the queue pair does not allow. If info is not nil, the
// reason is that the queue pair allows neither READs nor atomics (max_dest_rd_atomic 0). If
// info is nil, the reason is that the queue pair's access lacks the right that the request
// needs.
func (sh *responder) refused(q *qp, j *job, info *wqe.Info) answer {
	what := "this operation"
	switch {
	case info == nil:
	case info.Atomic():
		what = "atomics"
	default:
		what = "READ"
	}
	sh.explainRequester(q, j, codes.ResponderRefuses, "peer QP %#06x does not allow %s (%v): its access is %s, its max_dest_rd_atomic %d",
		j.peer.num, what, j.request.op, rights(j.peer.attr.Access), j.peer.attr.MaxDestRdAtomic)
	return sh.refuseRequest(j.peer, control.EventInvalidRequest, answerInvalidRequest)
}

func (sh *responder) badRemote(q *qp, j *job, need uint32) answer {
	p, r := j.peer, &j.request
	if p.wire != nil {
		p.wire.port.stats.WrongKeys++
	}
	why := sh.whyNoAccess(use{name: "rkey", key: r.rkey, addr: r.addr, n: r.length, need: need, client: j.owner(), pd: j.domain(), qp: p})
	if q == nil || j.owner() != q.client && why.code != codes.KeyByteOrder {
		// A client that learned which keys are stale, and how large their memory is, could
		// find a valid key. So only the owner of the memory is told.
		sh.explainResponder(j, why.code, "%v of peer QP %#06x: %s", r.op, r.fromQPN, why)
		why = because(codes.KeyRefused, "rkey %#08x does not give peer QP %#06x's memory, %d bytes at %#x; why is said to its owner",
			r.rkey, p.num, r.length, r.addr)
	}
	if q != nil {
		sh.explain(q, why.code, "%v: %s", r.op, why)
	}
	return sh.refuseRequest(p, control.EventAccessError, answerRemoteAccess)
}

func (sh *responder) badInvalidate(q *qp, j *job) answer {
	sh.explainRequester(q, j, codes.SendInval, "SEND_INVAL of key %#08x: it is no memory window of type 2 that is bound to QP %#06x", j.request.imm, j.peer.num)
	sh.putBack(j)
	return sh.refuseRequest(j.peer, control.EventInvalidRequest, answerInvalidRequest)
}

// badReceive answers a message for which an entry of the receive's list gives no access to
// memory.
func (sh *responder) badReceive(j *job, entry []byte, unit int, d wqe.Data) answer {
	u := localUse(d, control.AccessLocalWrite, j.peer, j.receiveDomain())
	u.client = j.owner()
	why := sh.whyNoAccess(u)
	switch {
	case unit == 0 && d == wqe.Data{}:
		why = because(codes.ReceiveUnwritten, "its entry is all zeros; it was announced before it was written, or written elsewhere")
	case unit > 0 && (why.code == codes.KeyUnknown || why.code == codes.KeyStale):
		why = because(codes.ReceiveNoEnd, "its list goes on with unit %d: %s; to end it there, write byte_count 0 and lkey %#x", unit, why, wqe.KeyEnd)
	}
	sh.explainReceive(j, entry, why.code, "receive %d: %s", j.index, why)
	return sh.endReceive(j, cqe.LocalProtection, answerOperation)
}

func (sh *responder) receiveTooShort(j *job, entry []byte, left uint64) answer {
	sh.explainReceive(j, entry, codes.ReceiveShort, "receive %d takes %d bytes, the message has %d", j.index, j.total-left, j.total)
	return sh.endReceive(j, cqe.LocalLength, answerInvalidRequest)
}

// endReceive answers a message whose bytes cannot be put into the receive that j has
// opened. On a reliable connection the receive fails, and its queue pair with it.
func (sh *responder) endReceive(j *job, s cqe.Syndrome, a answer) answer {
	if a = j.peer.nak(a); a == answerDrop || sh.links.doubted(j.peer) {
		return answerDrop
	}
	sh.failReceive(j, s)
	return a
}
