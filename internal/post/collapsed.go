package post

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/shm"
)

// pollCollapsed reports the newest completion of a collapsed queue, unless the
// last call has reported it. The device overwrites the entry whenever it likes,
// so of a success only the last eight bytes, which change together, are read:
// there is no byte count, no immediate and no time. What one CQE says is done
// is done: everything up to its index.
func (q *CQ) pollCollapsed(dst []Completion) int {
	e := q.entry(0)
	// Pairs with the device's Publish of the entry.
	tail := e.ObserveTail()
	o := cqe.OpOwn(tail)
	if len(dst) == 0 || tail == q.newest || o.Opcode() == cqe.Invalid {
		return 0
	}
	q.newest = tail
	var b shm.Block
	be.PutUint64(b[cqe.OffQPN:], tail)
	if k := o.Opcode(); k == cqe.ReqErr || k == cqe.RespErr {
		copy(b[52:56], e[52:56]) // an error stays, so this is of the same entry
	}
	c := &dst[0]
	c.Parse((*[cqe.Size]byte)(&b))
	c.UIdx, q.at = q.table.findQPN(c.QPN, q.at)
	if !q.resolve(c, cqe.MakeOpOwn(o.Opcode(), cqe.FormatPlain, false, 0), &b) {
		return 0
	}
	return 1
}
