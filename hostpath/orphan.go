package hostpath

// An orphan is an SRQ that a destroyed QP used. CQEs of the QP may still be in the
// queue. They are not reported, but their entries must return to the SRQ.
type orphan struct {
	qpn  uint32
	srq  *SRQ
	next *orphan
}

// Orphan says that the QP numbered qpn, which received from srq into this
// queue, is gone. Call it once the device writes no more CQEs of the QP, and before
// its user index is freed. Safe for concurrent use.
func (q *CQ) Orphan(qpn uint32, srq *SRQ) {
	o := &orphan{qpn: qpn, srq: srq}
	for {
		o.next = q.orphans.Load()
		if q.orphans.CompareAndSwap(o.next, o) {
			return
		}
	}
}

// adopt gives the entry back that a CQE of no QP in the table has used.
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

// forget drops the orphans o, all there were when the queue was found empty
// after they were looked up: no CQE of theirs is left.
func (q *CQ) forget(o *orphan) { q.orphans.CompareAndSwap(o, nil) }
