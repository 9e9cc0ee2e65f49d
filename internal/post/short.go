package post

import "github.com/nicless/nicless/wqe"

// Offsets in a WQE of one block.
const (
	unit1 = 1 * wqe.UnitSize
	unit2 = 2 * wqe.UnitSize
	unit3 = 3 * wqe.UnitSize
)

// shortInline is the longest inline data of a WRITE of one block.
const shortInline = wqe.BlockSize - unit2 - wqe.InlineHead

// postPointer posts a work request with one SGE that has a length, on a
// connected transport: one block, built in place.
func (q *SQ) postPointer(wr *SendWR, op *opInfo) error {
	count, ok := q.reserve(1)
	if !ok {
		return ErrFull
	}
	b := q.block(count)
	sge := &wr.SGE[0]
	data := wqe.Data{ByteCount: sge.Length &^ wqe.InlineFlag, LKey: sge.LKey, Addr: sge.Addr}
	c := q.control(count, wr, op)
	if op.raddr {
		wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
		data.Put((*[16]byte)(b[unit2:]))
		c.DS = 3
	} else {
		data.Put((*[16]byte)(b[unit1:]))
		c.DS = 2
	}
	c.Put((*[16]byte)(b[:]))
	q.commit(count, 1, wr.ID, wr.Op)
	return nil
}

// postInline posts a work request of 1 to shortInline inline bytes, on a
// connected transport: one block, built in place.
func (q *SQ) postInline(wr *SendWR, op *opInfo) error {
	count, ok := q.reserve(1)
	if !ok {
		return ErrFull
	}
	b := q.block(count)
	c := q.control(count, wr, op)
	at := unit1
	if op.raddr {
		wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
		at = unit2
	}
	n := len(wr.Data)
	be.PutUint32(b[at:], wqe.InlineFlag|uint32(n))
	copy(b[at+wqe.InlineHead:], wr.Data)
	c.DS = uint8(at/wqe.UnitSize + wqe.InlineUnits(n))
	c.Put((*[16]byte)(b[:]))
	q.commit(count, 1, wr.ID, wr.Op)
	return nil
}

// control returns the control segment of a WQE that is built in place.
func (q *SQ) control(count uint64, wr *SendWR, op *opInfo) wqe.Ctrl {
	c := wqe.Ctrl{Index: uint16(count), Opcode: op.code, QPN: q.qpn, Flags: q.flags(wr.Flags)}
	if op.imm {
		c.Imm = wr.Imm
	}
	return c
}
