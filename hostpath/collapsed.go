package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
)

// pollCollapsed reports the newest completion of a collapsed queue, unless an earlier call
// has reported it, and returns how many completions it reported: 0 or 1. The device may
// overwrite the entry at any time. So pollCollapsed reads only the last eight bytes of a
// success, which the device writes together. The completion has no byte count, no immediate
// and no time. A CQE completes all work up to its index.
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
		// The device does not overwrite an error: these bytes belong to the same entry.
		copy(b[cqe.OffVendor:cqe.OffTail], e[cqe.OffVendor:])
	}
	c := &dst[0]
	c.Parse((*[cqe.Size]byte)(&b))
	c.UIdx, q.newestIndex = q.table.findQPN(c.QPN, q.newestIndex)
	if !q.resolve(c, cqe.MakeOpOwn(o.Opcode(), cqe.FormatPlain, false, 0), &b) {
		return 0
	}
	return 1
}

// cleanCollapsed is Clean of a collapsed queue. It invalidates the entry. Otherwise the device
// could write exactly the same bytes after the reset, and pollCollapsed would take them for the
// entry that it has reported already.
func (q *CQ) cleanCollapsed(qp *QP) (cleaned int) {
	e := q.entry(0)
	tail := cqe.Tail(e.ObserveTail())
	if tail.OpOwn().Opcode() == cqe.Invalid || tail.QPN() != qp.QPN {
		return 0
	}
	e.PublishTail(uint64(cqe.MakeOpOwn(cqe.Invalid, cqe.FormatPlain, false, 0)))
	seen := tail == q.newest
	q.newest = 0 // no entry has this tail, because no QP has number 0
	if seen {
		return 0
	}
	return 1
}
