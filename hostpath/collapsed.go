package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
)

// pollCollapsed reports the newest completion of a collapsed queue, unless the
// last call has reported it. The device may overwrite the entry at any time, so
// only the last eight bytes of a success are read, which change together: there is
// no byte count, no immediate and no time. A CQE completes everything up to its
// index.
func (q *CQ) pollCollapsed(dst []Completion) int {
	e := q.entry(0)
	// Pairs with the device's Publish of the entry.
	tail := cqe.Tail(e.ObserveTail())
	o := tail.OpOwn()
	if len(dst) == 0 || tail == q.newest || o.Opcode() == cqe.Invalid {
		return 0
	}
	q.newest = tail
	var b shm.Block
	be.PutUint64(b[cqe.OffTail:], uint64(tail))
	if k := o.Opcode(); k == cqe.ReqErr || k == cqe.RespErr {
		copy(b[cqe.OffVendor:cqe.OffTail], e[cqe.OffVendor:]) // an error stays, so this is of the same entry
	}
	c := &dst[0]
	c.Parse((*[cqe.Size]byte)(&b))
	c.UIdx, q.at = q.table.findQPN(c.QPN, q.at)
	if !q.resolve(c, cqe.MakeOpOwn(o.Opcode(), cqe.FormatPlain, false, 0), &b) {
		return 0
	}
	return 1
}

// cleanCollapsed is Clean of a collapsed queue. The entry is invalidated: after the
// reset the device may write the very same bytes, which would look as if they had
// been reported.
func (q *CQ) cleanCollapsed(qp *QP) (cleaned int) {
	e := q.entry(0)
	tail := cqe.Tail(e.ObserveTail())
	if tail.OpOwn().Opcode() == cqe.Invalid || tail.QPN() != qp.QPN {
		return 0
	}
	e.PublishTail(uint64(cqe.MakeOpOwn(cqe.Invalid, cqe.FormatPlain, false, 0)))
	seen := tail == q.newest
	q.newest = 0 // no entry has these bytes: its QPN would be 0
	if seen {
		return 0
	}
	return 1
}
