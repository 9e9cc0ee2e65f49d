package objects

import (
	"bytes"
	"iter"
	"slices"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// mostBlocks bounds the blocks of WQEs that a Table keeps: the WQEs of 128 queues with the largest ring, none
// of which has been executed. They have 256 MiB. WQEs beyond are not kept.
const mostBlocks = 1 << 22

// A WQE is a WQE that the device has fetched.
type WQE struct {
	Index uint16 // of its first block
	Ctrl  wqe.Ctrl
	Bytes []byte // its blocks. There are fewer than Ctrl.Blocks says if the trace has not got the others yet.
	Time  uint64 // when it was fetched first, in ticks of the device clock
	Again bool   // it is whole, and was fetched with the same bytes before

	before []byte // bytes with which it was fetched before
	turn   *turn  // if it is kept
}

// A turn is the place of a WQE in the order of its queue pair. It keeps it when it is fetched again.
type turn struct{ w *WQE } // nil: it is not kept any more

// Whole reports whether all bytes of the WQE are there.
func (w *WQE) Whole() bool { return w.Ctrl.DS > 0 && len(w.Bytes) >= int(w.Ctrl.DS)*wqe.UnitSize }

func (w *WQE) blocks() int { return len(w.Bytes) / wqe.BlockSize }

// missing returns how many blocks of the WQE are not there. A WQE whose control segment has no size is one
// block.
func (w *WQE) missing() int { return max(w.Ctrl.Blocks(), 1) - w.blocks() }

// place returns the block of the ring that has an index, or the index if the ring's size is not known.
func (q *Queue) place(index uint16) uint16 {
	if n := q.Info.SendBlocks; n > 0 && n&(n-1) == 0 && n <= 1<<16 {
		return index & uint16(n-1)
	}
	return index
}

// fetch divides the blocks of an event of kind KindFetch into WQEs and keeps them. The first blocks belong
// to the last WQE of the fetch before if that lacks them: a fetch may end within a WQE.
func (t *Table) fetch(e *trace.Event) {
	q := t.queue(e.Queue)
	if q == nil {
		if len(t.strange) >= mostQueues {
			return
		}
		if t.strange == nil {
			t.strange = map[uint32]*Queue{}
		}
		q = &Queue{Number: e.Queue}
		t.strange[e.Queue] = q
	}
	if t.busy == nil {
		t.busy = map[*Queue]struct{}{}
	}
	t.busy[q] = struct{}{}
	index, b := e.Index, e.Data[:len(e.Data)&^(wqe.BlockSize-1)]
	if w := q.open; w != nil && index == w.Index+uint16(w.blocks()) {
		n := min(w.missing()*wqe.BlockSize, len(b))
		index, b = t.extend(q, w, index, b[:n]), b[n:]
	}
	for len(b) > 0 {
		c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(b))
		n := min(max(c.Blocks(), 1)*wqe.BlockSize, len(b))
		w := &WQE{Index: index, Ctrl: c, Time: e.Time}
		t.keep(q, w)
		index, b = t.extend(q, w, index, b[:n]), b[n:]
	}
}

// extend adds blocks to a WQE, the first of which has this index. It returns the index after them.
func (t *Table) extend(q *Queue, w *WQE, index uint16, b []byte) uint16 {
	w.Bytes = append(w.Bytes, b...)
	n := len(b) / wqe.BlockSize
	if q.fetched[q.place(w.Index)] == w {
		t.blocks += n
	}
	t.last = append(t.last, w)
	q.open = nil
	if w.missing() > 0 {
		q.open = w
	} else {
		w.Again = w.before != nil && bytes.Equal(w.before, w.Bytes)
		w.before = nil
	}
	return index + uint16(n)
}

// keep keeps a WQE that has no blocks yet, in place of the one that was there before.
func (t *Table) keep(q *Queue, w *WQE) {
	at := q.place(w.Index)
	var same *turn
	if old := q.fetched[at]; old != nil {
		if old.Index == w.Index {
			w.Time, w.before, same = old.Time, old.Bytes, old.turn
		}
		t.end(q, old)
	}
	if t.blocks+wqe.MaxBlocks > mostBlocks {
		return
	}
	if q.fetched == nil {
		q.fetched = map[uint16]*WQE{}
	}
	q.fetched[at] = w
	w.turn = same
	if same == nil {
		w.turn = &turn{}
		if len(q.order) > 2*len(q.fetched)+leastOrder {
			q.order = slices.DeleteFunc(q.order, func(x *turn) bool { return x.w == nil })
		}
		q.order = append(q.order, w.turn)
	}
	w.turn.w = w
}

// leastOrder is how many turns a queue pair may have besides those of the WQEs that are kept.
const leastOrder = 64

// Last returns the WQEs of which the last event has brought blocks, if it is of kind KindFetch. It is valid
// until the next event. The first and the last of them may lack blocks that the fetches before and
// after have; such a WQE is in the results for both.
func (t *Table) Last() []*WQE { return t.last }

// Fetched returns the WQE of a queue pair that begins with a block, or nil if the table does not have it.
// The caller must not change it.
func (t *Table) Fetched(queue uint32, index uint16) *WQE {
	q := t.queue(queue)
	if q == nil {
		return nil
	}
	if w := q.fetched[q.place(index)]; w != nil && w.Index == index {
		return w
	}
	return nil
}

// Of returns the WQEs of which an event of kind KindExecute or KindFail tells, as far as the table has them.
func (t *Table) Of(e *trace.Event) iter.Seq[*WQE] {
	return func(yield func(*WQE) bool) {
		for at := 0; at < max(int(e.Count), 1); {
			w := t.Fetched(e.Queue, e.Index+uint16(at))
			if w == nil {
				at++
				continue
			}
			if !yield(w) {
				return
			}
			at += max(w.Ctrl.Blocks(), 1)
		}
	}
}

// executed removes the WQEs in these blocks.
func (t *Table) executed(q *Queue, index, count uint16) {
	count = max(count, 1)
	if int(count) > len(q.order) { // there are fewer WQEs than blocks
		for _, x := range q.order {
			if x.w != nil && x.w.Index-index < count {
				t.end(q, x.w)
			}
		}
	} else {
		for i := range count {
			if w := q.fetched[q.place(index+i)]; w != nil && w.Index == index+i {
				t.end(q, w)
			}
		}
	}
	t.idle(q)
}

// end removes a WQE that is kept.
func (t *Table) end(q *Queue, w *WQE) {
	t.blocks -= w.blocks()
	delete(q.fetched, q.place(w.Index))
	w.turn.w = nil
	if q.open == w {
		q.open = nil
	}
}

// idle drops a queue pair that no event has described if it has no WQEs.
func (t *Table) idle(q *Queue) {
	if len(q.fetched) > 0 {
		return
	}
	q.order = nil
	if t.strange[q.Number] == q {
		delete(t.strange, q.Number)
		delete(t.busy, q)
	}
}

// completed removes the WQEs up to the one that begins with a block. A queue pair whose peer is on another
// device has no events of kind KindExecute. All others have them after their completions.
func (t *Table) completed(q *Queue, index uint16) {
	for ; len(q.order) > 0; q.order = q.order[1:] {
		w := q.order[0].w
		if w != nil && int16(index-w.Index) < 0 {
			break
		}
		if w != nil {
			t.end(q, w)
		}
	}
	t.idle(q)
}

// drop removes all WQEs of a queue pair.
func (t *Table) drop(q *Queue) {
	for _, w := range q.fetched {
		t.blocks -= w.blocks()
	}
	q.fetched, q.order, q.open = nil, nil, nil
	delete(t.busy, q)
}
