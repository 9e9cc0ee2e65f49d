package objects

import (
	"iter"

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
	Bytes []byte // all its blocks. There are fewer than Ctrl.Blocks says if the trace has not got more.
	Time  uint64 // when it was fetched first, in ticks of the device clock
}

// Whole reports whether all bytes of the WQE are there.
func (w *WQE) Whole() bool { return w.Ctrl.DS > 0 && len(w.Bytes) >= int(w.Ctrl.DS)*wqe.UnitSize }

// Fetched divides the blocks of an event of kind KindFetch into WQEs. Their bytes are those of the event.
// A WQE whose control segment has no size counts as one block.
func Fetched(e *trace.Event) iter.Seq[WQE] {
	return func(yield func(WQE) bool) {
		index := e.Index
		for b := e.Data; len(b) >= wqe.BlockSize; {
			c := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(b))
			blocks := max(c.Blocks(), 1)
			n := min(blocks*wqe.BlockSize, len(b)/wqe.BlockSize*wqe.BlockSize)
			if !yield(WQE{Index: index, Ctrl: c, Bytes: b[:n], Time: e.Time}) {
				return
			}
			index, b = index+uint16(blocks), b[n:]
		}
	}
}

// place returns the block of the ring that has an index, or the index if the ring's size is not known.
func (q *Queue) place(index uint16) uint16 {
	if n := q.Info.SendBlocks; n > 0 && n&(n-1) == 0 && n <= 1<<16 {
		return index & uint16(n-1)
	}
	return index
}

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
	if q.fetched == nil {
		q.fetched = map[uint16]*WQE{}
	}
	for w := range Fetched(e) {
		at := q.place(w.Index)
		old := q.fetched[at]
		if old != nil {
			if old.Index == w.Index {
				w.Time = old.Time
			}
			t.blocks -= blocksOf(old)
			delete(q.fetched, at)
		}
		if n := blocksOf(&w); t.blocks+n <= mostBlocks {
			t.blocks += n
			if old != nil {
				w.Bytes = append(old.Bytes[:0], w.Bytes...)
			} else {
				w.Bytes = append([]byte(nil), w.Bytes...)
			}
			q.fetched[at] = &w
		}
	}
}

func blocksOf(w *WQE) int { return len(w.Bytes) / wqe.BlockSize }

// Fetched returns the WQE of a queue pair that begins with a block, or nil if the table does not have it.
// The caller must not change it, nor keep it beyond the next event.
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
	for i := range max(count, 1) {
		at := q.place(index + i)
		if w := q.fetched[at]; w != nil && w.Index == index+i {
			t.blocks -= blocksOf(w)
			delete(q.fetched, at)
		}
	}
	if len(q.fetched) == 0 {
		delete(t.strange, q.Number)
	}
}

// drop removes all WQEs of a queue pair.
func (t *Table) drop(q *Queue) {
	for _, w := range q.fetched {
		t.blocks -= blocksOf(w)
	}
	q.fetched = nil
}
