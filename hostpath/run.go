package hostpath

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/wqe"
)

// What is commonest is done for many requests in one loop, with what changes kept in
// registers: the fewer other stores come between those to the rings, the more lines
// of them are on their way between poster and device at once.

// layRun lays the work requests at the beginning of wrs that are READs or writes of
// one block with one pointer, as many as there is room for, and returns how many. It
// is Post of each of them.
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
		// As layPointer.
		b, sge := q.block(next), &wr.SGE[0]
		be.PutUint64(b[0:8], q.base|uint64(uint16(next))<<40|uint64(op.code)<<32|3)
		be.PutUint64(b[8:16], uint64(q.flags(wr.Flags, fence))<<32|uint64(wr.Imm&op.imm))
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

// takeRun takes completions off the queue that follow each other, as long as they
// are the commonest: of one send queue, a success without data, whose entry says
// what was done. It returns how many; for anything else the long way is asked.
//
// The first of them has been observed, and so may be read.
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
		if s.what == 0 {
			break
		}
		c := &dst[n]
		c.WC = cqe.WC{Opcode: op, WQEOpcode: code, Counter: tail.Counter(), ByteLen: bytes, QPN: qpn, UIdx: uidx}
		c.ID, c.Timestamp = s.id, b.Word(cqe.WordTimestamp)
		freed = count + s.blocks()
		n++
		ci++
		b = q.entry(ci)
		// Pairs with the device's Publish of the entry: the rest of it is read after.
		tail = cqe.Tail(b.ObserveTail())
	}
	if n > 0 {
		q.ci = ci
		sq.freed.Publish(freed)
	}
	return n
}
