package hostpath

import "github.com/nicless/nicless/cqe"

// A destroyedQP is a QP that was destroyed and took its receives from an SRQ. CQEs of the QP
// may still be in the completion queue. Poll does not report these CQEs, but the SRQ entries
// that they complete must be given back to the SRQ.
type destroyedQP struct {
	qpn  uint32
	srq  *SRQ
	next *destroyedQP
}

// Orphan notifies the queue that the QP with number qpn was destroyed. The QP took its
// receives from srq, and their completions came to this queue. Call Orphan when the device
// writes no more CQEs of the QP, but before the user index of the QP is freed. Orphan is
// safe for concurrent use.
func (q *CQ) Orphan(qpn uint32, srq *SRQ) {
	d := &destroyedQP{qpn: qpn, srq: srq}
	for {
		d.next = q.destroyed.Load()
		if q.destroyed.CompareAndSwap(d.next, d) {
			return
		}
	}
}

// returnReceive is called for a CQE whose QP is not in the CQ's table of QPs. If the CQE
// completes a receive of a destroyed QP, returnReceive gives the receive's entry back to the
// SRQ.
func (q *CQ) returnReceive(c *Completion) {
	if c.Requester() {
		return
	}
	for d := q.destroyed.Load(); d != nil; d = d.next {
		if d.qpn != c.QPN {
			continue
		}
		if _, ok := d.srq.take(c.Counter); ok {
			d.srq.give(c.Counter)
		}
		return
	}
}

// dropDestroyed empties the list of destroyed QPs if the queue is empty: no CQE of these QPs
// can then be left. The caller has loaded list before dropDestroyed looks into the queue. So
// a QP that Orphan adds in between stays in the list.
func (q *CQ) dropDestroyed(list *destroyedQP) {
	if !cqe.Valid(cqe.OpOwn(q.entry(q.ci).ObserveTail()), q.ci, q.log) {
		q.destroyed.CompareAndSwap(list, nil)
	}
}
