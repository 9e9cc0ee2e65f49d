package traffic

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

const line = model.LineSize

// cqeInline is how many bytes of data a CQE can carry, by its size.
var cqeInline = map[int]int{cqe.Size: cqe.MaxInline32, cqe.Size128: cqe.MaxInline64}

// add adds an access to n lines from index on, and returns its Seq.
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

// look adds the device's search for a key.
func (x *Expander) look(p piece) {
	if p.key != nil {
		x.add(model.Dev, model.Load, model.Key, model.Follow, KeyTable, p.key.index, 1, line)
	}
}

// wqe adds accesses to blocks of a WQE that begin at the count at; the ring may end within them.
func (x *Expander) wqe(who model.Agent, op model.Op, why model.Why, at uint64, blocks, bytes int) {
	for blocks > 0 {
		slot := int(at & uint64(x.c.SendBlocks-1))
		n := min(blocks, x.c.SendBlocks-slot)
		x.add(who, op, model.WQE, why, SendRing, slot, n, min(bytes, n*wqe.BlockSize))
		at, blocks, bytes = at+uint64(n), blocks-n, bytes-n*wqe.BlockSize
	}
}

// entry adds an access to n bytes of an entry of the receive ring, from byte off of the entry on.
func (x *Expander) entry(who model.Agent, op model.Op, why model.Why, count uint64, off, n int,
	after ...int) {
	at := count&uint64(x.c.Receives-1)*uint64(x.c.Stride) + uint64(off)
	first, lines := span(at, uint64(n))
	x.add(who, op, model.RxWQE, why, RecvRing, first, lines, n, after...)
}

// A cq is a completion queue as the device and its poller see it.
type cq struct {
	region, ci string
	entries    uint64
	size       int
	next       uint64 // CQEs written
	taken      uint64 // CQEs polled
	seen       uint64 // value of taken when the device last read the consumer index
}

// A completion is a CQE that was written and is not yet polled.
type completion struct {
	*work
	index uint64
	seq   int
}

// last is the line with the last byte of a CQE, which pollers read. Before it comes the other line
// of a CQE of 128 bytes.
func (q *cq) last(index uint64) int {
	per := q.size / cqe.Size
	return int(index&(q.entries-1))*per + per - 1
}

// room adds the device's look at the consumer index, if it seems that n more CQEs have no room.
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
		if w.carried && w.info.Reads == (q == &x.send) {
			store(at, model.Once) // all but the tail
		}
		store(at-1, model.Once) // data, or zeros
	}
	q.next++
	return completion{w, q.next - 1, store(at, model.Complete)}
}
