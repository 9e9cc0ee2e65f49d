package hostpath

// An orphan is an SRQ that a destroyed QP used. CQEs of the QP may still be in the
// completion queue. These CQEs are not reported, but the SRQ entries that they complete must
// be given back to the SRQ.
type orphan struct {
	qpn  uint32
	srq  *SRQ
	next *orphan
}

// Orphan notifies the queue that the QP with number qpn was destroyed. The QP took its
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

// adopt is called for a CQE whose QP is not in the CQ's table of queue pairs. If the QP is an
// orphan, adopt gives the SRQ entry that the CQE completes back to the SRQ.
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

// dropOrphans drops the list of orphans that begins with o. The caller first loaded the list and
// then found the queue empty, so no CQE of these orphans can be left.
func (q *CQ) dropOrphans(o *orphan) { q.orphans.CompareAndSwap(o, nil) }
