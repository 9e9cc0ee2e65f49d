package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/wqe"
)

// The loops in this file post the commonest requests, and poll their completions, many at a
// time. They keep their variables in CPU registers, so that there are no other stores between
// the stores to the rings. More cache lines of the rings are then in flight between poster
// and device at once.

// layRun posts work requests from the beginning of wrs, as long as they are READs or WRITEs
// of one block with one pointer and there is room. It returns how many it posted. The effect
// is the same as a Post of each of them.
func (q *SQ) layRun(wrs []SendWR) int {
	next, n := q.next, 0
	if next+uint64(len(wrs))-q.seen > q.size {
		q.seen = q.freed.Observe()
	}
	room := min(uint64(len(wrs)), q.seen+q.size-next)
	fence := q.fence
	for n < int(room) {
		wr := &wrs[n]
		if wr.Op >= numOps || wr.Flags > allFlags {
			break
		}
		op := &ops[wr.Op]
		if !op.raddr || q.form(wr, op) != pointer {
			break
		}
		// The same as layPointer.
		b, sge := q.block(next), &wr.SGE[0]
		wqe.PutUnit((*[wqe.UnitSize]byte)(b[:]), q.base|uint64(uint16(next))<<40|uint64(op.code)<<32|3, uint64(q.flags(wr.Flags, fence))<<32|uint64(wr.Imm&op.imm))
		wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
		wqe.Data{ByteCount: sge.Length &^ wqe.InlineFlag, LKey: sge.LKey, Addr: sge.Addr}.Put((*[16]byte)(b[unit2:]))
		q.slots[next&(q.size-1)] = noted(wr.ID, 1, wr.Op)
		fence = 0
		next++
		n++
	}
	if n > 0 {
		q.next, q.fence = next, 0
	}
	return n
}

// takeRun takes consecutive completions off the queue, as long as they are of the commonest
// kind: all of one send queue, successful, without inline data, and with the operation in
// the entry. It returns how many it took. Poll handles all other kinds itself.
//
// The caller has observed the tail of the first entry, so takeRun may read that entry.
func (q *CQ) takeRun(dst []Completion) (n int) {
	ci := q.ci
	b := q.entry(ci)
	tail, uidx := cqe.Tail(b.ObserveTail()), cqe.UIdx(b.Word(cqe.WordUIdx))
	qpn := tail.QPN()
	qp := q.table.find(uidx)
	if qp == nil || qp.QPN != qpn || qp.SQ == nil {
		return 0
	}
	sq := qp.SQ
	slots, mask := sq.slots, sq.size-1
	freed, posted := sq.freed.Observe(), sq.posted.Observe()
	for n < len(dst) && tail.OpOwn()&^cqe.SolicitedBit == cqe.OpOwn(cqe.Owner(ci, q.log)) {
		if tail.QPN() != qpn || cqe.UIdx(b.Word(cqe.WordUIdx)) != uidx {
			break
		}
		code, op, bytes := tail.WQEOpcode(), cqe.WCRDMAWrite, uint32(0)
		switch wqe.Opcode(code) {
		case wqe.OpRDMAWrite:
		case wqe.OpSend:
			op = cqe.WCSend
		case wqe.OpRDMARead:
			op, bytes = cqe.WCRDMARead, uint32(b.Word(cqe.WordByteCount))
		default:
			code = 0
		}
		count := ring.Extend(freed, tail.Counter())
		if code == 0 || count >= posted {
			break
		}
		s := slots[count&mask]
		if s.note == 0 {
			break
		}
		c := &dst[n]
		c.WC = cqe.WC{Opcode: op, WQEOpcode: code, Counter: tail.Counter(), ByteLen: bytes, QPN: qpn, UIdx: uidx}
		c.ID, c.Timestamp = s.id, b.Word(cqe.WordTimestamp)
		freed = count + s.blocks()
		n++
		ci++
		b = q.entry(ci)
		// Pairs with the device's Publish of the entry. The rest of the entry is read after it.
		tail = cqe.Tail(b.ObserveTail())
	}
	if n > 0 {
		q.ci = ci
		sq.freed.Publish(freed)
	}
	return n
}
