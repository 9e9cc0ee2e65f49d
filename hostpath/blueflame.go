package hostpath

import (
	"github.com/nicless/nicless/doorbell"
)

// publishBlueFlame tells the device of all WQEs from the count from on. It takes
// the place of publish for a queue that has a BlueFlame register of its own. The
// order differs from that of publish:
//
//  1. WQE bytes        plain stores into the ring
//  2. UAR register     the WQE itself, or the doorbell of several
//  3. doorbell record  Publish
//
// The device may execute the WQE as soon as it finds it in the register, before it
// sees the record. The record announces every WQE and the ring holds it, so nothing
// is lost when the register is written over.
//
// Every call writes the register. Otherwise a WQE could stay there until its index
// comes round again. The doorbell of several has ds 0: otherwise the WQE that was in
// the register before could be taken for the one that the doorbell names.
// docs/design/0012-blueflame.md has the rest.
func (q *SQ) publishBlueFlame(from uint64) {
	end := q.next
	q.posted.Publish(end)
	half := q.blueFlame[q.half]
	q.half ^= 1
	if end-from == 1 {
		half.PublishHead(q.block(from))
	} else {
		half.PublishFirst(uint64(doorbell.MakeRing(uint16(end), q.qpn)))
	}
	q.record.Publish(uint32(uint16(end)))
}

// clearBlueFlame empties the register. The WQE left in it is another queue's, or
// was posted before the QP went through RST.
func (q *SQ) clearBlueFlame() {
	for _, half := range q.blueFlame {
		if half != nil {
			half.PublishFirst(0)
		}
	}
}
