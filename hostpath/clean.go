package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
)

// Clean takes the CQEs of a QP that have not been polled off the queue, and
// returns how many there were. It is for a QP that was reset or destroyed,
// once the device has answered, so that it writes no more of them: otherwise
// they would complete work that the QP's next life posts. Entries of the SRQ
// return to it. The poller's.
func (q *CQ) Clean(index uint32, qp *QP) (cleaned int) {
	defer q.alone()()
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
	// From the newest to the oldest, each entry that stays moves up by as many
	// as were taken out after it.
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
