//go:build linux && (amd64 || arm64)

package execution

import (
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/wqe"
)

// A WQE of a DCI begins with an address vector. It names a DCT by its number, by the address of
// its port and by its access key. If one of them is wrong, there is no answer, as on a wire: the
// DCT drops requests with another key. So the WQE waits as for an absent peer, and fails when its
// retries have run out. A request that the DCT refuses fails the WQE, and the DCT goes on.

// readAddress reads the address vector of a WQE, and returns where the segments after it begin. A WQE of a
// stream that has failed is flushed.
func (sh *requester) readAddress(q *object.QP, j *object.Job, info *wqe.Info) (data int, v object.Verdict) {
	if v := sh.flushStream(q, j); v != object.Accepted {
		return 0, v
	}
	q.DC.To = sh.addressVector()
	return sh.addressEnd(q, j, info)
}

// addressTarget makes the DCT that a WQE of q names the peer of j. If there is none that answers, q waits.
func (sh *requester) addressTarget(q *object.QP, j *object.Job) object.Verdict {
	j.Request.ToQPN = q.DC.To.DQP
	p := sh.TargetOf(q)
	if p != nil && sh.Several && !sh.Holds(p.Client.Shard) {
		sh.Postpone(q, p.Client.Shard)
		return object.Waiting
	}
	if !q.ReachesTarget(p) {
		return sh.answered(q, j, object.AnswerNone)
	}
	q.Conn.Peer, j.Peer = p, p
	return object.Accepted
}

// flushStream flushes the WQE of j if its stream has failed.
func (sh *requester) flushStream(q *object.QP, j *object.Job) object.Verdict {
	if len(q.DC.Errored) == 0 || !slices.Contains(q.DC.Errored, j.Head.Stream()) {
		return object.Accepted
	}
	sh.Explain(q, codes.DCStream, "stream %d of this DCI has failed; the work request is flushed", j.Head.Stream())
	if len(q.DC.Errored) > 1 { // otherwise the fault before it is the cause
		sh.Carry(q.Client, reason.Place{Queue: q.Num, Index: uint16(q.SQ.Done)}, cqe.Flush)
	}
	sh.requesterError(q, j.Head, cqe.Flush)
	q.SQ.Done += uint64(j.Blocks)
	return object.Failed
}
