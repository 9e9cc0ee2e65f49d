package hostpath

import (
	"encoding/binary"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/wqe"
)

// The loops in this file post the commonest requests, many at a time. The first request of a list
// says what is the same in all of them, so that the loops only compare. They keep their variables in CPU
// registers and call no function that is not inlined, so that there are no other stores between the
// stores to the ring. More cache lines of the ring are then in flight between poster and device at
// once.

// A run is the requests at the beginning of a list that have one operation and one form. They take
// one block each, in a part of the ring that does not wrap. So their indices do not wrap either.
type run struct {
	wrs   []SendWR
	slots []slot // as many as wrs
	ring  []byte // as many blocks as wrs
	first wqe.OpWord
	imm   uint32
	note  uint16
	op    Op
	most  int    // for inline data: SQ.fewMost
	table uint64 // SendRing.flagTable: byte f is the field fm_ce_se of the flags f
}

// leastRun is how many requests a list has at least for which layRun costs less than Post of each.
const leastRun = 4

// nextIndex is added to the first word of a WQE for the WQE in the next block.
const nextIndex = wqe.OpWord(1) << 40

// layRun posts work requests from the beginning of wrs, as long as they are WRITEs, READs or SENDs
// of one operation, each of one block with one pointer or with few inline bytes, and there is room
// before the end of the ring. It returns how many it posted. The effect is the same as a Post of each
// of them. The slice wrs has leastRun requests or more.
func (q *SQ) layRun(wrs []SendWR) (n int) {
	wr := &wrs[0]
	if q.nextFence != 0 || wr.Op >= numOps || wr.Flags > allFlags {
		return 0 // Post adds the fence
	}
	op := &ops[wr.Op]
	f := q.form(wr, op)
	switch { // a run that is not at least two long costs more than Post
	case f == pointer && wrs[1].likePointer(wr.Op):
	case f == inline && fewBytes(wr.Data, q.fewMost()) && wrs[1].likeInline(wr.Op, q.fewMost()):
	default:
		return 0
	}
	if q.next+uint64(len(wrs))-q.seen > q.size {
		q.seen = q.freed.Observe()
	}
	at := q.next & (q.size - 1)
	room := min(uint64(len(wrs)), q.seen+q.size-q.next, q.size-at)
	r := run{
		wrs: wrs[:room], slots: q.slots[at:][:room], ring: q.ring[at*wqe.BlockSize:][:room*wqe.BlockSize],
		first: q.firstWord(q.next, op), imm: op.imm, note: noted(0, 1, wr.Op).note, op: wr.Op,
		most: q.fewMost(), table: binary.LittleEndian.Uint64(q.flagTable[:]),
	}
	if from, end := max(q.next, q.fetched), q.next+room; cpu.CanPrefetchWrite && from < end {
		r.prefetch(int(from-q.next) * wqe.BlockSize)
		q.fetched = end // each block is fetched once, however short the runs of a list are
	}
	switch {
	case f == pointer && op.raddr:
		n = r.layMoves()
	case f == pointer:
		n = r.layMessages()
	case op.raddr:
		n = r.layInlineMoves()
	default:
		n = r.layInlineMessages()
	}
	q.next += uint64(n)
	return n
}

// prefetch fetches the blocks of the run for writing. They were used a lap ago and are in the cache of the
// device. Otherwise the stores to a block wait for it, and all later stores wait for these stores.
func (r *run) prefetch(at int) {
	const most = ahead * wqe.BlockSize
	for ; at+most <= len(r.ring); at += most {
		cpu.PrefetchWrite((*[most]byte)(r.ring[at:]))
	}
}

// likePointer reports whether wr has the operation op and the form pointer.
func (wr *SendWR) likePointer(op Op) bool {
	return wr.Op == op && wr.Flags <= allFlags && len(wr.Data) == 0 && len(wr.SGE) == 1 &&
		wr.SGE[0].Length-1 < maxLength
}

// likeInline reports whether wr has the operation op and few inline bytes, at most the parameter most.
func (wr *SendWR) likeInline(op Op, most int) bool {
	return wr.Op == op && wr.Flags <= allFlags && len(wr.SGE) == 0 && fewBytes(wr.Data, most)
}

// second returns the second word of the control segment of wr.
func (r *run) second(wr *SendWR) wqe.FlagWord {
	return wqe.MakeFlagWord(uint8(r.table>>(wr.Flags*8&63)), wr.Imm&r.imm)
}

// layMoves lays WRITEs or READs with one pointer.
func (r *run) layMoves() int {
	wrs, slots, ring, first := r.wrs, r.slots, r.ring, r.first
	slots = slots[:len(wrs)]
	for i := range wrs {
		wr := &wrs[i]
		if !wr.likePointer(r.op) {
			return i
		}
		b := (*[wqe.BlockSize]byte)(ring[i*wqe.BlockSize : (i+1)*wqe.BlockSize])
		putMove(b, first, r.second(wr), &wr.RemoteAddr, &wr.RKey, &wr.SGE[0])
		slots[i] = slot{wr.ID, r.note}
		first += nextIndex
	}
	return len(wrs)
}

// layMessages lays SENDs with one pointer.
func (r *run) layMessages() int {
	wrs, slots, ring, first := r.wrs, r.slots, r.ring, r.first
	slots = slots[:len(wrs)]
	for i := range wrs {
		wr := &wrs[i]
		if !wr.likePointer(r.op) {
			return i
		}
		b := (*[wqe.BlockSize]byte)(ring[i*wqe.BlockSize : (i+1)*wqe.BlockSize])
		putSend(b, first, r.second(wr), &wr.SGE[0])
		slots[i] = slot{wr.ID, r.note}
		first += nextIndex
	}
	return len(wrs)
}

// layInlineMoves lays WRITEs with few inline bytes.
func (r *run) layInlineMoves() int {
	wrs, slots, ring, first := r.wrs, r.slots, r.ring, r.first|(wqe.UnitsBeforeMove+1)
	slots = slots[:len(wrs)]
	for i := range wrs {
		wr := &wrs[i]
		if !wr.likeInline(r.op, r.most) {
			return i
		}
		b := (*[wqe.BlockSize]byte)(ring[i*wqe.BlockSize : (i+1)*wqe.BlockSize])
		putControl(b, first, r.second(wr))
		wqe.PutUnit((*[wqe.UnitSize]byte)(b[unit1:]), wr.RemoteAddr, uint64(wr.RKey)<<32)
		putFewBytes((*[wqe.UnitSize]byte)(b[unit2:]), wr.Data)
		slots[i] = slot{wr.ID, r.note}
		first += nextIndex
	}
	return len(wrs)
}

// layInlineMessages lays SENDs with few inline bytes.
func (r *run) layInlineMessages() int {
	wrs, slots, ring, first := r.wrs, r.slots, r.ring, r.first|(wqe.UnitsBeforeSend+1)
	slots = slots[:len(wrs)]
	for i := range wrs {
		wr := &wrs[i]
		if !wr.likeInline(r.op, r.most) {
			return i
		}
		b := (*[wqe.BlockSize]byte)(ring[i*wqe.BlockSize : (i+1)*wqe.BlockSize])
		putControl(b, first, r.second(wr))
		putFewBytes((*[wqe.UnitSize]byte)(b[unit1:]), wr.Data)
		slots[i] = slot{wr.ID, r.note}
		first += nextIndex
	}
	return len(wrs)
}
