package engine

import (
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/wqe"
)

// If a WQE claims more blocks than were announced, its error completion consumes only the
// blocks that were announced.
func TestFlushAfterWQEPastRecord(t *testing.T) {
	r, p, _ := duo(t, Config{})
	var b [64]byte
	wqe.Ctrl{Opcode: wqe.OpNop, QPN: p.num, DS: 12, Flags: wqe.CEAlways}.Put((*[16]byte)(b[:]))
	p.raw(b[:])
	r.settle()
	r.failed(p.scq.one(), cqe.LocalQPOp, 0)
	for i := range uint16(3) {
		p.post(ctrl(wqe.OpNop))
		r.settle()
		r.failed(p.scq.one(), cqe.Flush, 1+i)
	}
}
