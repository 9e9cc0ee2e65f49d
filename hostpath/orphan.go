package hostpath

// An orphan is an SRQ that a destroyed QP used. CQEs of the QP may still be in the
// queue. These CQEs are not reported, but the SRQ entries that they complete must be given
// back to the SRQ.
type orphan struct {
	qpn  uint32
	srq  *SRQ
	next *orphan
}

// Orphan tells the queue that the QP with number qpn was destroyed. The QP took its
// receives from srq, and their completions came to this queue. Call Orphan when the device
// writes no more CQEs of the QP, but before the user index of the QP is freed. Orphan is
// safe for concurrent use.
func (q *CQ) Orphan(qpn uint32, srq *SRQ) {
	o := &orphan{qpn: qpn, srq: srq}
	for {
		o.next = q.orphans.Load()
		if q.orphans.CompareAndSwap(o.next, o) {
			return
		}
	}
}

// adopt gives back the SRQ entry that a CQE completes, if the CQE's QP is not in the table.
func (q *CQ) adopt(c *Completion) {
	if c.Requester() {
		return
	}
	for o := q.orphans.Load(); o != nil; o = o.next {
		if o.qpn != c.QPN {
			continue
		}
		if _, ok := o.srq.take(c.Counter); ok {
			o.srq.give(c.Counter)
		}
		return
	}
}

// forget drops the list of orphans o. The caller first loaded the list and then found the
// queue empty, so that no CQE of these orphans is left.
func (q *CQ) forget(o *orphan) { q.orphans.CompareAndSwap(o, nil) }
