package hostpath

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
)

// Resize moves the queue to the ring in to, whose entries have the same size. move makes the
// device switch to the new ring: the device writes an entry with opcode RESIZE_CQ as its
// last entry in the old ring, and continues in the new ring at the next index. Resize copies
// into the new ring all entries that have not been polled. As in libmlx5, the index of each
// copy is greater by one than that of the entry. So the last copy is just before the device's
// first entry in the new ring.
//
// If move fails, the queue does not change. Only the poller may call Resize.
func (q *CQ) Resize(to []byte, move func() error) error {
	q.lockPolling()
	defer q.unlockPolling()
	size := 1 << q.shift
	log, err := ring.Log2("hostpath: completion ring of entries", uint64(len(to)/size), maxCQ)
	switch {
	case err != nil:
		return err
	case len(to)%size != 0:
		return fmt.Errorf("hostpath: completion ring of %d bytes, not whole entries of %d", len(to), size)
	case q.collapsed:
		return errors.New("hostpath: a collapsed completion queue keeps its ring")
	}
	if err := checkMemory("completion ring", to, size, cqe.Size); err != nil {
		return err
	}
	next := &CQ{ring: to, blocks: shm.Blocks(to), log: log, shift: q.shift, step: q.step}
	next.fill()
	if err := move(); err != nil {
		return err
	}
	i := q.ci
	for {
		o := cqe.OpOwn(q.entry(i).ObserveTail())
		if i-q.ci == 1<<q.log || !cqe.Valid(o, i, q.log) {
			return fmt.Errorf("hostpath: the device has resized CQ %#06x without an entry that says so", q.cqn)
		}
		if o.Opcode() == cqe.ResizeCQ {
			break
		}
		if q.isTitle(o) {
			q.expandSession(i, o)
		}
		copy(next.slot(i+1), q.slot(i))
		b := &next.entry(i + 1)[cqe.OffOpOwn]
		*b = *b&^1 | cqe.Owner(i+1, log)
		i++
	}
	q.ring, q.blocks, q.log = to, next.blocks, log
	q.ci++
	q.ciWord.Publish(uint32(q.ci) & doorbell.CIMask)
	return nil
}

// fill gives all entries to the device, as libmlx5 does (op_own 0xf0).
func (q *CQ) fill() {
	clear(q.ring)
	for i := range uint64(1) << q.log {
		q.entry(i)[cqe.OffOpOwn] = uint8(cqe.MakeOpOwn(cqe.Invalid, cqe.FormatPlain, false, 0))
	}
}
