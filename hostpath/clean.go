package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
)

// Clean takes the unpolled CQEs of a QP off the queue and returns how many there
// were. Entries of the SRQ return to it.
//
// Call it for a QP that was reset or destroyed, once the device has answered and so
// writes no more of them. Otherwise they would complete work that is posted after
// the reset. Only the poller calls it.
func (q *CQ) Clean(index uint32, qp *QP) (cleaned int) {
	defer q.exclude()()
	if q.collapsed {
		return q.cleanCollapsed(qp)
	}
	end := q.ci
	for end-q.ci < 1<<q.log {
		o := cqe.OpOwn(q.entry(end).ObserveTail())
		if !cqe.Valid(o, end, q.log) {
			break
		}
		if q.title(o) {
			q.expand(end, o)
		}
		end++
	}
	// From the newest entry to the oldest: an entry that stays moves up by the
	// number of entries taken out after it.
	gone := uint64(0)
	for i := end; i > q.ci; {
		i--
		w := cqe.ParseWC((*[cqe.Size]byte)(q.entry(i)))
		if w.UIdx == index && w.QPN == qp.QPN {
			gone++
			if qp.SRQ != nil && !w.Requester() {
				if _, ok := qp.SRQ.take(w.Counter); ok {
					qp.SRQ.give(w.Counter)
				}
			}
			continue
		}
		if gone > 0 {
			copy(q.slot(i+gone), q.slot(i))
			b := &q.entry(i + gone)[cqe.OffOpOwn]
			*b = *b&^1 | cqe.Owner(i+gone, q.log)
		}
	}
	if gone > 0 {
		q.ci += gone
		q.ciWord.Publish(uint32(q.ci) & doorbell.CIMask)
	}
	return int(gone)
}
