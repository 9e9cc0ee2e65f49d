//go:build linux && (amd64 || arm64)

package custody

import (
	"time"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// HoldTime is for how long WQEs are held back. A program that goes on with a buffer right after it has posted
// touches it within a microsecond, and one that destroys a queue then needs up to some 100.
const HoldTime = 200 * time.Microsecond

// A Keeper has what belongs to the device, of the queue pairs of one shard that the sanitizer watches. Only
// the shard's thread may use it, and, while no shard works, Drop and HoldNothing.
type Keeper struct {
	Hold   time.Duration // HoldTime, except in tests
	Budget int           // bytes that are read in one visit: a slice. 0, in tests: no limit, and nobody pays

	queues map[*object.QP]*kept
	shared map[*object.SRQ]*receives
	size   int         // bytes of all that is kept
	record *shm.BE32   // takes the place of the record of a queue pair while the queue pair is visited
	list   object.List // scratch
}

// A kept is what belongs to the device of one queue pair.
type kept struct {
	life     uint32 // QP.Life when the custody began: it ends when the queue pair is reset,
	watches  uint32 // and these were its watches: it ends when they change, so that new ones see everything
	found    uint64 // blocks up to this count were found,
	released uint64 // and may be executed up to this count
	until    uint64 // device clock, until which blocks are held; 0: none are
	sends    []entry

	own    receives  // of its own queue
	shared *receives // or those of srq, once they were looked for
	srq    *object.SRQ

	polled map[uint32]uint64 // how far completions were taken, by the number of the completion queue
}

// NewKeeper returns a Keeper that keeps nothing, for visits of slice bytes.
func NewKeeper(slice int) Keeper {
	return Keeper{Hold: HoldTime, Budget: slice, queues: make(map[*object.QP]*kept),
		shared: make(map[*object.SRQ]*receives), record: shm.BE32At(make([]byte, 8), 0)}
}

// Drop ends the custody of a queue pair, if there is one.
func (c *Keeper) Drop(q *object.QP) {
	if k := c.queues[q]; k != nil {
		c.release(&k.sends, len(k.sends))
		c.release(&k.own.list, len(k.own.list))
		c.leave(k)
		delete(c.queues, q)
	}
}

// HoldNothing releases what is held, and holds nothing from now on. The device stops: it executes what was
// announced.
func (c *Keeper) HoldNothing() {
	c.Hold = 0
	for q, k := range c.queues {
		k.until = min(k.until, 1)
		if q.Stall.Kind == object.Kept {
			q.Stall.Deadline = 0
		}
	}
}

// full reports whether a list has no room. It is asked before the bytes of an entry are read.
func (c *Keeper) full(list []entry) bool {
	return len(list) >= mostKept || c.size+entrySize > mostSize
}

// keep appends an entry to a list, if there is room for it.
func (c *Keeper) keep(list *[]entry, e entry) (ok bool) {
	if c.full(*list) || c.size+e.size() > mostSize {
		return false
	}
	c.size += e.size()
	*list = append(*list, e)
	return true
}

// release gives the first n entries of a list back to their program.
func (c *Keeper) release(list *[]entry, n int) {
	for i := range (*list)[:n] {
		c.size -= (*list)[i].size()
	}
	*list = (*list)[n:]
}

// Admit is called before a queue pair is visited that the watches of mask watch for the sanitizer. If it
// returns false, nothing is to be executed now. Otherwise the send record of q says how much may be executed,
// until the function restore is called, in both cases. spent is what the client of q pays for, in bytes.
func (c *Keeper) Admit(sh *execution.Executor, q *object.QP, mask uint32) (restore func(),
	spent int, ok bool) {
	nothing := func() {}
	if q.Attr.State != control.StateRTS || q.Source != nil {
		c.Drop(q) // nothing is executed, or registers announce it
		return nothing, 0, true
	}
	k := c.of(q)
	w := work{sh: sh, c: c, q: q, mask: mask}
	n := sh.Pending(q)
	if n > 0 && k.released == q.SQ.Done && q.Job == nil && q.Stall.Kind == object.NoStall {
		if k.until == 0 {
			w.find(k, n)
			k.until = clock.After(sh.Now(), c.Hold)
		}
		if now := sh.Now(); now < k.until {
			sh.StallFor(q, object.Stall{Kind: object.Kept, Since: now, Deadline: k.until})
			return nothing, w.price(), false
		}
		w.compare(k)
		k.released, k.until = k.found, 0
	} else if n > 0 && q.Job == nil && q.Stall.Kind == object.NoStall {
		w.compareNext(k) // which may have waited for a receive for long
	}
	record := q.SQ.Record // which may announce more meanwhile
	c.record.Publish(record.Observe()&^0xffff | uint32(k.released)&0xffff)
	q.SQ.Record = c.record
	return func() { q.SQ.Record = record }, w.price(), true
}

// of returns what belongs to the device of q: no longer anything that was completed.
func (c *Keeper) of(q *object.QP) *kept {
	k := c.queues[q]
	unseen := k != nil && k.found < q.SQ.Done // blocks were executed while nobody watched
	if k == nil || k.life != q.Life || k.watches != watches(q) || unseen {
		c.Drop(q)
		k = &kept{life: q.Life, watches: watches(q), found: q.SQ.Done, own: receives{posted: q.RQ.Done},
			polled: make(map[uint32]uint64)}
		c.queues[q] = k
	}
	k.released = max(k.released, q.SQ.Done)
	c.release(&k.sends, ended(k.sends, completed(q)))
	c.taken(&k.own, q.RQ.Done)
	k.own.posted = max(k.own.posted, q.RQ.Done)
	return k
}

// completed returns up to which block q has executed its WQEs and has got their acknowledgements.
func completed(q *object.QP) uint64 {
	if w := q.Wire; w != nil && w.Out.First != w.Out.Last {
		return w.Out.Oldest().Index
	}
	return q.SQ.Done
}

// ended returns how many of the WQEs sends belong to the program again when the blocks below end are
// executed. A WQE without a completion belongs to the device until one after it completes.
func ended(sends []entry, end uint64) (n int) {
	for i := range sends {
		if sends[i].index >= end {
			break
		}
		if sends[i].signaled {
			n = i + 1
		}
	}
	return n
}
