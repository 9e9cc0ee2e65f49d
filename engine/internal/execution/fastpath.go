//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// FastBytes is the longest payload in bytes that takes the fast path. fastCost is how many
// bytes of a visit's budget a WQE uses at least.
const (
	FastBytes = 4096
	fastCost  = 256
)

// HeadOf loads the control segment of a WQE that its client can change.
func HeadOf(b *shm.Block) object.Head {
	return object.Head{First: wqe.OpWord(b.Word(wqe.WordOp)), Second: wqe.FlagWord(b.Word(wqe.WordFlag))}
}

// completeFast ends q's next WQE. If the WQE asks for a completion, completeFast writes one,
// whose byte count is the parameter bytes. If there is no room for the completion, it puts q
// into error and returns false.
func (sh *Executor) completeFast(q *object.QP, h object.Head, bytes uint64) bool {
	counter := uint16(q.SQ.Done)
	q.SQ.Done++
	if h.Second.CE() != wqe.CEAlways { // rule: only signaled WQEs complete
		return true
	}
	tail := object.RequesterTail(h.First.Opcode(), q.Num, counter)
	if q.SQ.CQ.Session != nil {
		if sh.CollectSend(q, uint32(bytes), tail) {
			return true
		}
	} else if sh.Complete(q.SQ.CQ, 0, q.UIDX, 0, uint32(bytes), sh.Clock(), tail,
		object.Quietly) { // rule: completions of the fast path raise no event
		return true
	}
	sh.Overrun(q.SQ.CQ)
	sh.SetError(q)
	return false
}
