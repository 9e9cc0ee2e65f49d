package hostpath

import (
	"encoding/binary"
	"math/bits"

	"github.com/nicless/nicless/wqe"
)

// Offsets in a WQE of one block.
const (
	unit1 = 1 * wqe.UnitSize
	unit2 = 2 * wqe.UnitSize
	unit3 = 3 * wqe.UnitSize
)

// layPointer builds, in place, a WQE of one block for a connected transport, with one SGE
// whose length is not 0.
func (q *SendRing) layPointer(count uint64, wr *SendWR, op *opInfo, fence uint8) {
	b, sge := q.block(count), &wr.SGE[0]
	second := q.secondWord(wr, op, fence)
	first := q.firstWord(count, op)
	if op.raddr {
		putMove(b, first, second, &wr.RemoteAddr, &wr.RKey, sge)
	} else {
		putSend(b, first, second, sge)
	}
	q.slots[count&(q.size-1)] = noted(wr.ID, 1, wr.Op)
}

// layAtomic builds, in place, the WQE of an atomic on 8 bytes, with one SGE of that length.
func (q *SendRing) layAtomic(count uint64, wr *SendWR, op *opInfo, fence uint8) {
	b := q.block(count)
	sge := &wr.SGE[0]
	wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
	wqe.Atomic{SwapAdd: wr.SwapAdd, Compare: wr.Compare & op.compare}.Put((*[16]byte)(b[unit2:]))
	wqe.Data{ByteCount: atomicSize, LKey: sge.LKey, Addr: sge.Addr}.Put((*[16]byte)(b[unit3:]))
	second := q.secondWord(wr, op, fence)
	putControl(b, q.firstWord(count, op)|4, second)
	q.slots[count&(q.size-1)] = noted(wr.ID, 1, wr.Op)
}

// layInline builds, in place, a WQE of one block for a connected transport, with 1 to
// wqe.MoveInlineMost bytes of inline data.
func (q *SendRing) layInline(count uint64, wr *SendWR, op *opInfo, fence uint8) {
	b := q.block(count)
	at := unit1
	if op.raddr {
		wqe.Raddr{Addr: wr.RemoteAddr, RKey: wr.RKey}.Put((*[16]byte)(b[unit1:]))
		at = unit2
	}
	putInline((*[2 * wqe.UnitSize]byte)(b[at:]), wr.Data)
	second := q.secondWord(wr, op, fence)
	units := at/wqe.UnitSize + wqe.InlineUnits(len(wr.Data))
	putControl(b, q.firstWord(count, op)|wqe.OpWord(units), second)
	q.slots[count&(q.size-1)] = noted(wr.ID, 1, wr.Op)
}

// putMove writes a WQE with a remote address and one pointer, to sge. It takes pointers, so that each field
// is loaded right before it is stored. The loops that call putMove keep their variables in registers, and
// have no room for all fields at once.
func putMove(
	b *[wqe.BlockSize]byte, first wqe.OpWord, second wqe.FlagWord, raddr *uint64, rkey *uint32, sge *SGE,
) {
	le := binary.LittleEndian
	le.PutUint64(b[8*wqe.WordOp:], bits.ReverseBytes64(uint64(first|(wqe.UnitsBeforeMove+1))))
	le.PutUint64(b[8*wqe.WordFlag:], bits.ReverseBytes64(uint64(second)))
	le.PutUint64(b[8*wqe.WordRAddr:], bits.ReverseBytes64(*raddr))
	le.PutUint64(b[8*wqe.WordRKey:], bits.ReverseBytes64(uint64(*rkey)<<32))
	le.PutUint64(b[8*wqe.WordMoveData:],
		bits.ReverseBytes64(uint64(sge.Length&^wqe.InlineFlag)<<32|uint64(sge.LKey)))
	le.PutUint64(b[8*wqe.WordMoveLAddr:], bits.ReverseBytes64(sge.Addr))
}

// putSend is putMove for a message.
func putSend(b *[wqe.BlockSize]byte, first wqe.OpWord, second wqe.FlagWord, sge *SGE) {
	le := binary.LittleEndian
	le.PutUint64(b[8*wqe.WordOp:], bits.ReverseBytes64(uint64(first|(wqe.UnitsBeforeSend+1))))
	le.PutUint64(b[8*wqe.WordFlag:], bits.ReverseBytes64(uint64(second)))
	le.PutUint64(b[8*wqe.WordSendData:],
		bits.ReverseBytes64(uint64(sge.Length&^wqe.InlineFlag)<<32|uint64(sge.LKey)))
	le.PutUint64(b[8*wqe.WordSendLAddr:], bits.ReverseBytes64(sge.Addr))
}
