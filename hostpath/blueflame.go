package hostpath

import (
	"github.com/nicless/nicless/doorbell"
)

// flare is publish for a queue whose BlueFlame register is its own, and tells the
// device of all WQEs from the count from on. The order is another one:
//
//  1. WQE bytes        plain stores into the ring, as ever
//  2. UAR register     the WQE itself, or the doorbell of several
//  3. doorbell record  Publish
//
// The device may execute the WQE as soon as it finds it in the register, before it
// sees the record. Whatever it does not find there the record tells it of, and the
// ring holds; so nothing is lost with a register that is written over.
//
// Each call writes the register, lest a WQE stay there until its index comes round
// again; and the doorbell of several has ds 0, lest the WQE that was there before
// be taken for the one that it names. docs/design/0012-blueflame.md has the rest.
func (q *SQ) flare(from uint64) {
	end := q.next
	q.posted.Publish(end)
	half := q.flame[q.half]
	q.half ^= 1
	if end-from == 1 {
		half.PublishHead(q.block(from))
	} else {
		half.PublishFirst(uint64(doorbell.MakeRing(uint16(end), q.qpn)))
	}
	q.record.Publish(uint32(uint16(end)))
}

// dark empties the register: what is left in it is of another queue, or of a life
// before RST.
func (q *SQ) dark() {
	for _, half := range q.flame {
		if half != nil {
			half.PublishFirst(0)
		}
	}
}
