package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
)

// Clean removes the unpolled CQEs of a QP from the queue and returns how many it removed.
// SRQ entries that these CQEs complete are given back to the SRQ.
//
// Call Clean for a QP that was reset or destroyed, and whose user index is index. Otherwise the
// old CQEs of the QP would complete work that is posted after the reset. Before the call, wait
// until the device has answered the request to reset or destroy the QP: the device writes no
// more CQEs of the QP after the answer. Only the poller may call Clean.
func (q *CQ) Clean(index uint32, qp *QP) (cleaned int) {
	q.lockPolling()
	defer q.unlockPolling()
	if q.collapsed {
		return q.cleanCollapsed(qp)
	}
	end := q.ci
	for end-q.ci < 1<<q.log {
		o := cqe.OpOwn(q.entry(end).ObserveTail())
		if !cqe.Valid(o, end, q.log) {
			break
		}
		if q.isTitle(o) {
			q.expandSession(end, o)
		}
		end++
	}
	// The loop goes from the newest entry to the oldest. An entry that stays moves up by
	// the number of newer entries that the loop has removed.
	removed := uint64(0)
	for i := end; i > q.ci; {
		i--
		w := cqe.ParseWC((*[cqe.Size]byte)(q.entry(i)))
		if w.UIdx == index && w.QPN == qp.QPN {
			removed++
			if qp.SRQ != nil && !w.Requester() {
				if _, ok := qp.SRQ.take(w.Counter); ok {
					qp.SRQ.give(w.Counter)
				}
			}
			continue
		}
		if removed > 0 {
			copy(q.slot(i+removed), q.slot(i))
			b := &q.entry(i + removed)[cqe.OffOpOwn]
			*b = *b&^1 | cqe.Owner(i+removed, q.log)
		}
	}
	if removed > 0 {
		q.ci += removed
		q.ciWord.Publish(uint32(q.ci) & doorbell.CIMask)
	}
	return int(removed)
}
