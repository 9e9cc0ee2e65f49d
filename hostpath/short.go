package hostpath

import (
	"github.com/nicless/nicless/wqe"
)

// Offsets in a WQE of one block.
const (
	unit1 = 1 * wqe.UnitSize
	unit2 = 2 * wqe.UnitSize
	unit3 = 3 * wqe.UnitSize
)

// shortInline is the size of the longest inline data of a WRITE of one block, in bytes.
const shortInline = wqe.BlockSize - unit2 - wqe.InlineHead

// layPointer builds, in place, a WQE of one block for a connected transport, with one SGE
// whose length is not 0.
func (q *SendRing) layPointer(count uint64, wr *SendWR, op *opInfo, fence uint8) {
	b := q.block(count)
	sge := &wr.SGE[0]
	data := wqe.Data{ByteCount: sge.Length &^ wqe.InlineFlag, LKey: sge.LKey, Addr: sge.Addr}
	ds := uint64(2)
	if op.raddr {
		wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
		data.Put((*[16]byte)(b[unit2:]))
		ds = 3
	} else {
		data.Put((*[16]byte)(b[unit1:]))
	}
	q.putControl(b, count, wr, op, ds, fence)
	q.slots[count&(q.size-1)] = noted(wr.ID, 1, wr.Op)
}

// layAtomic builds, in place, the WQE of an atomic on 8 bytes, with one SGE of that length.
func (q *SendRing) layAtomic(count uint64, wr *SendWR, op *opInfo, fence uint8) {
	b := q.block(count)
	sge := &wr.SGE[0]
	wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
	wqe.Atomic{SwapAdd: wr.SwapAdd, Compare: wr.Compare & op.compare}.Put((*[16]byte)(b[unit2:]))
	wqe.Data{ByteCount: atomicSize, LKey: sge.LKey, Addr: sge.Addr}.Put((*[16]byte)(b[unit3:]))
	q.putControl(b, count, wr, op, 4, fence)
	q.slots[count&(q.size-1)] = noted(wr.ID, 1, wr.Op)
}

// layInline builds, in place, a WQE of one block for a connected transport, with 1 to
// shortInline bytes of inline data.
func (q *SendRing) layInline(count uint64, wr *SendWR, op *opInfo, fence uint8) {
	b := q.block(count)
	at := unit1
	if op.raddr {
		wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
		at = unit2
	}
	n := len(wr.Data)
	be.PutUint32(b[at:], wqe.InlineFlag|uint32(n))
	copy(b[at+wqe.InlineHead:], wr.Data)
	q.putControl(b, count, wr, op, uint64(at/wqe.UnitSize+wqe.InlineUnits(n)), fence)
	q.slots[count&(q.size-1)] = noted(wr.ID, 1, wr.Op)
}

// putControl writes the control segment of a WQE of ds units that is built in place. It
// writes the same bytes as wqe.Ctrl.Put, but in two stores. A wqe.Ctrl has too many fields
// for registers and would first be assembled in memory, byte by byte.
func (q *SendRing) putControl(b *[wqe.BlockSize]byte, count uint64, wr *SendWR, op *opInfo, ds uint64, fence uint8) {
	wqe.PutUnit((*[wqe.UnitSize]byte)(b[:]), q.base|uint64(uint16(count))<<40|uint64(op.code)<<32|ds, uint64(q.flags(wr.Flags, fence))<<32|uint64(wr.Imm&op.imm))
}
