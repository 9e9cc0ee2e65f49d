package traffic

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

const line = model.LineSize

// cqeInline is how many bytes of data a CQE can carry, by its size.
var cqeInline = map[int]int{cqe.Size: cqe.MaxInline32, cqe.Size128: cqe.MaxInline64}

// add adds an access to n lines of the region, from line index on, and returns the Seq of the access.
// after lists the Seq of the stores that the access sees; 0 stands for no store.
func (x *Expander) add(who model.Agent, op model.Op, kind model.Kind, why model.Why, region string, index, n,
	bytes int, after ...int) int {
	x.seq++
	var visible []int
	for _, s := range after {
		if s != 0 {
			visible = append(visible, s)
		}
	}
	x.trace.Accesses = append(x.trace.Accesses, model.Access{
		Seq: x.seq, After: visible, Who: who, Op: op, Kind: kind, Why: why,
		Line: model.Line{Region: region, Index: index}, N: n, Bytes: bytes, Req: x.req,
	})
	return x.seq
}

// span returns the lines of n bytes, at least 1, that begin at the offset off.
func span(off, n uint64) (first, lines int) {
	return int(off / line), int((off+n-1)/line - off/line + 1)
}

// memory adds an access to a piece of registered memory, and returns its Seq.
func (x *Expander) memory(who model.Agent, op model.Op, why model.Why, p piece, after ...int) int {
	first, n := span(p.off, p.n)
	return x.add(who, op, model.Payload, why, p.key.Region, first, n, int(p.n), after...)
}

// look adds the device's search for the key of p. Bytes in the WQE have no key.
func (x *Expander) look(p piece) {
	if p.key != nil {
		x.add(model.Dev, model.Load, model.Key, model.Follow, KeyTable, p.key.index, 1, line)
	}
}

// wqe adds accesses to blocks of a WQE. The first of them is the block number at of all blocks posted
// so far. If the ring ends between the blocks, wqe adds two accesses.
func (x *Expander) wqe(who model.Agent, op model.Op, why model.Why, at uint64, blocks, bytes int) {
	for blocks > 0 {
		slot := int(at & uint64(x.c.SendBlocks-1))
		n := min(blocks, x.c.SendBlocks-slot)
		x.add(who, op, model.WQE, why, SendRing, slot, n, min(bytes, n*wqe.BlockSize))
		at, blocks, bytes = at+uint64(n), blocks-n, bytes-n*wqe.BlockSize
	}
}

// entry adds an access to n bytes of the entry of the receive number count, from byte off of the entry
// on.
func (x *Expander) entry(who model.Agent, op model.Op, why model.Why, count uint64, off, n int,
	after ...int) {
	at := count&uint64(x.c.Receives-1)*uint64(x.c.Stride) + uint64(off)
	first, lines := span(at, uint64(n))
	x.add(who, op, model.RxWQE, why, RecvRing, first, lines, n, after...)
}

// A cq is a completion queue as the device and its poller see it.
type cq struct {
	region, ci string // regions of the CQEs and of the consumer index
	entries    uint64
	size       int    // bytes of a CQE
	next       uint64 // CQEs written
	taken      uint64 // CQEs polled
	seen       uint64 // value of taken when the device last read the consumer index
}

// A completion is a CQE that was written and is not yet polled.
type completion struct {
	*work
	index uint64 // number of the CQE, counted from 0
	seq   int    // Seq of the store of the CQE's last line
}

// last returns the line with the last byte of the CQE number index. Pollers read this line. A CQE of
// 128 bytes also has the line before it.
func (q *cq) last(index uint64) int {
	slot := int(index & (q.entries - 1))
	linesPerCQE := q.size / cqe.Size
	return slot*linesPerCQE + linesPerCQE - 1
}

// room returns for how many of n more CQEs q has room. The device uses the consumer index that it read
// last; if there is no room for all n, room adds the device's load of the consumer index.
func (x *Expander) room(q *cq, n int) (left int) {
	if left = int(q.entries - (q.next - q.seen)); left < n {
		x.add(model.Dev, model.Load, model.CI, model.Once, q.ci, 0, 1, 4)
		q.seen = q.taken
		left = int(q.entries - (q.next - q.seen))
	}
	return min(left, n)
}

// complete adds the stores of a CQE.
func (x *Expander) complete(q *cq, w *work) completion {
	x.room(q, 1)
	at := q.last(q.next)
	store := func(at int, why model.Why) int {
		return x.add(model.Dev, model.Store, model.CQE, why, q.region, at, 1, cqe.Size)
	}
	if q.size == cqe.Size128 {
		carries := w.carried && w.info.Reads == (q == &x.send) // results are in the CQ of sends
		if carries {
			store(at, model.Once) // all but the tail
		}
		store(at-1, model.Once) // data, or zeros
	}
	q.next++
	return completion{w, q.next - 1, store(at, model.Complete)}
}
