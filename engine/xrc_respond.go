//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
)

// A request to a target names an XSRQ. The target judges only the connection. The receive, the
// completion, and the protection domain of all keys are those of the XSRQ.

// nameSRQ finds the XSRQ that a request to a target names, and makes it the one from which j
// takes receives.
func (sh *responder) nameSRQ(q *qp, j *job) answer {
	p, n := j.peer, j.request.srqn
	if p.xrcd == nil {
		sh.explainRequester(q, j, codes.PeerTransport, "peer QP %#06x is an XRC queue pair that sends; one that receives (XRC_RECV) is needed", p.num)
		return sh.refuseRequest(p, control.EventInvalidRequest, answerInvalidRequest)
	}
	var s *srq
	if q != nil {
		s = q.xrc.srq
	}
	if s == nil || s.num != n || s.gone {
		s = sh.srqs[n]
	}
	if s == nil || s.xrcd != p.xrcd {
		sh.explainRequester(q, j, codes.XRCSRQ, "%v for SRQ %#06x, which is none of the XRC domain of peer QP %#06x", j.request.op, n, p.num)
		return sh.refuseRequest(p, control.EventInvalidRequest, answerInvalidRequest)
	}
	if j.srq = s; q != nil {
		q.xrc.srq = s
	}
	return answerACK
}

// receives returns how many receives are posted for the message of j.
func (j *job) receives() uint16 {
	if j.srq != nil {
		return j.srq.ready()
	}
	return j.peer.posted()
}

// owner returns the client whose memory and receives the request of j is for.
func (j *job) owner() *client {
	if j.peer.xrcd != nil && j.srq != nil {
		return j.srq.client
	}
	return j.peer.client
}

// servedBy reports whether the key k may give access to the request of j, which is for a target.
// A window of type 2 is bound to a queue pair that can post, so it never serves a target.
func (j *job) servedBy(k *mkey) bool {
	return j.peer.xrcd != nil && k.domain() == j.srq.pd && (k.window == nil || k.window.kind == 1)
}

// domain returns the protection domain to which the keys must belong that the request of j
// names.
func (j *job) domain() *pd {
	if j.peer.xrcd != nil {
		return j.srq.pd
	}
	return j.peer.pd
}

// receiveDomain returns the protection domain to which the keys in the receive of j must belong.
func (j *job) receiveDomain() *pd {
	if j.srq != nil {
		return j.srq.pd
	}
	return j.peer.pd
}

// completion returns where the receive of j completes, and the user index there.
func (j *job) completion() (c *cq, uidx uint32) {
	if j.peer.xrcd != nil {
		return j.srq.cq, j.srq.uidx
	}
	return j.peer.rq.cq, j.peer.uidx
}
