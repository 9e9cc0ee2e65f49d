package hostpath

import (
	"github.com/nicless/nicless/doorbell"
)

// publishBlueFlame notifies the device of the new WQEs. from is the count of the block at which
// the first of them begins. publishBlueFlame is called in place of publish for a queue that
// has its own BlueFlame register. The order of its stores differs from that of publish:
//
//  1. WQE bytes        plain stores into the ring
//  2. UAR register     the WQE itself, or a doorbell for several WQEs
//  3. doorbell record  Publish
//
// The device may execute the WQE as soon as it finds the WQE in the register, before it
// sees the record. No WQE is lost when the register is overwritten, because the ring
// contains every WQE and the record announces it.
//
// Every call writes the register. Otherwise a WQE could stay in the register until its index
// is used again. A doorbell for several WQEs overwrites only the first eight bytes of the
// register. The doorbell has ds 0, so that the device does not take the doorbell and the rest of
// an older WQE for one WQE.
// docs/design/0012-blueflame.md has the details.
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

// clearBlueFlame empties the register. The WQE left in the register belongs to another
// queue, or was posted before the QP went through RST.
func (q *SQ) clearBlueFlame() {
	for _, half := range q.blueFlame {
		if half != nil {
			half.PublishFirst(0)
		}
	}
}
