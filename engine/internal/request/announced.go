//go:build linux && (amd64 || arm64)

package request

import (
	source "github.com/nicless/nicless/engine/internal/announce"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// announcedTo returns the count of blocks of q's send queue that are announced now, also by registers that
// the device has not looked at since.
func announcedTo(sh *loop.Loop, q *object.QP) uint64 {
	if q.Source == nil {
		return q.SQ.Done + uint64(sh.Pending(q))
	}
	sh.Admit(q, 0)
	return q.Source.Announced()
}

// costOf returns what the new queue pair q will cost when announceBy has made its source.
func costOf(q *object.QP, doorbells uint8, ring []byte) int {
	if doorbells == control.DoorbellGuarded {
		return q.Cost() + len(ring)
	}
	return q.Cost()
}

// announceBy gives the new queue pair q, which has its number, a source of work that is not its record alone.
// page is its UAR page, ring the client's send queue, all of which a guard marks as not written. So the
// request must have been checked, and the cost of q taken. If the ring has no memory, announceBy refunds the
// cost and faults, and the request is refused.
func announceBy(q *object.QP, doorbells uint8, page, ring []byte) {
	done := false
	defer func() {
		if !done {
			q.Client.Refund(q.Cost())
		}
	}()
	record := q.SQ.Record
	if doorbells == control.DoorbellRegister {
		record = nil
	}
	q.Source = source.New(page, record)
	if doorbells == control.DoorbellGuarded {
		q.SQ.Blocks = q.Source.Guard(ring, wqe.Transport(q.Transport))
	}
	q.SQ.Record = q.Source.Record
	markRing(q)
	q.Source.Reset(q.Num)
	q.SetAside()
	done = true
}

// markRing marks the ring of q, if it is guarded, as not written, before q.Source is reset. If the ring has
// no memory, markRing faults, and only the ring has changed.
func markRing(q *object.QP) {
	if q.Source.Guarded() {
		q.Client.Device.Mail.Stored += q.Source.Mark(q.Num)
	}
}
