//go:build linux && (amd64 || arm64)

package custody

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A receives is the posted receives of one queue that belong to the device: of the receive queue of a queue
// pair, or of a shared receive queue.
type receives struct {
	posted uint64 // receives up to this count were found
	next   uint16 // slot of the next one; of a shared receive queue only
	list   []entry

	users int // of a shared receive queue: queue pairs in whose custody it is
}

// A place is the queue of receives.
type place struct {
	watches uint32 // for which events are recorded
	num     uint32
	client  uint32
	shared  bool
	pd      *object.PD
	ring    []byte
	stride  uint
	head    int // bytes of an entry before its list
}

func (p *place) bytes(slot uint16) []byte { return p.ring[int(slot)<<p.stride:][:1<<p.stride] }

// name returns the index of a receive in events.
func (p *place) name(e *entry) uint16 {
	if p.shared {
		return e.slot
	}
	return uint16(e.index)
}

func placeOf(q *object.QP) place {
	p := place{watches: watches(q), num: q.Num, client: q.Client.Number, pd: q.PD, ring: q.RQ.Ring,
		stride: uint(q.RQ.Stride)}
	if q.Signed {
		p.head = wqe.UnitSize
	}
	return p
}

// sharedPlace is the place of the receives that messages to q take from s.
func sharedPlace(q *object.QP, s *object.SRQ) place {
	return place{watches: watches(q), num: s.Num, client: s.Client.Number, shared: true, pd: s.PD,
		ring: s.Ring, stride: s.Stride, head: wqe.SRQNextSize}
}

// findReceives finds the receives that messages to q take, and records them.
func (w *work) findReceives(k *kept, q *object.QP) {
	if s := q.RQ.SRQ; s != nil {
		w.findShared(w.c.sharedBy(k, s), q, s)
		return
	}
	if q.RQ.Ring == nil {
		return
	}
	p := placeOf(q)
	for end := q.RQ.Done + uint64(q.Posted()); k.own.posted < end && !w.over(); k.own.posted++ {
		if _, ok := w.findReceive(&k.own, &p, uint16(k.own.posted&q.RQ.Mask)); !ok {
			break
		}
	}
}

// findShared is findReceives for a shared receive queue. Entries that were returned are not found again.
func (w *work) findShared(r *receives, q *object.QP, s *object.SRQ) {
	p := sharedPlace(q, s)
	if n := len(r.list); n > 0 {
		r.next = after(s, &r.list[n-1]) // the program may have changed the link
	}
	listed := s.Ready() - uint16(len(s.Returned))
	for end := s.Taken + uint64(listed); r.posted < end && !w.over(); r.posted++ {
		e, ok := w.findReceive(r, &p, r.next)
		if !ok {
			break
		}
		r.next = after(s, &e)
	}
}

// after returns the slot of the entry after one of a shared receive queue.
func after(s *object.SRQ, e *entry) uint16 {
	next := e.slot + 1
	if !s.Cyclic {
		next = wqe.ParseSRQNext((*[wqe.SRQNextSize]byte)(e.bytes)).Next
	}
	return next & s.Mask
}

// findReceive finds the next receive of a queue, which is in a slot. ok is false if there is no room for it.
func (w *work) findReceive(r *receives, p *place, slot uint16) (e entry, ok bool) {
	if w.c.full(r.list) {
		return e, false
	}
	e = entry{index: r.posted, slot: slot, bytes: make([]byte, 1<<p.stride)}
	copy(e.bytes, p.bytes(slot))
	w.spent += len(e.bytes)
	w.scatter(&e, p.pd, wqe.RecvList(e.bytes[p.head:]))
	if !w.c.keep(&r.list, e) {
		return e, false
	}
	x := trace.Event{Kind: trace.KindPosted, Queue: p.num, Index: p.name(&e), Value: uint64(p.client),
		Data: e.bytes}
	if p.shared {
		x.Count = 1
	}
	w.record(p.watches, &x)
	return e, true
}

// scatter finds the bytes that a receive is to fill.
func (w *work) scatter(e *entry, pd *object.PD, list wqe.RecvList) {
	for left := uint64(mostSummed); ; {
		d, ok := list.Next()
		if !ok {
			return
		}
		w.add(e, pd, d, &left)
	}
}

// compareReceives compares the receives that messages to q take, as long as the visit may.
func (w *work) compareReceives(q *object.QP) {
	k := w.c.of(q)
	w.findReceives(k, q)
	r, p, entries, buffers := &k.own, placeOf(q), trace.ChangedEntry, trace.ChangedBuffer
	if s := q.RQ.SRQ; s != nil {
		r, p = k.shared, sharedPlace(q, s)
		entries, buffers = trace.ChangedSharedEntry, trace.ChangedSharedBuffer
	}
	for i := 0; i < len(r.list) && !w.over(); i++ {
		e := &r.list[i]
		now := make([]byte, len(e.bytes))
		copy(now, p.bytes(e.slot))
		in := changes{p.watches, p.num, p.name(e), entries}
		e.bytes = w.compareBytes(e, in, now, len(now))
		in.part = buffers
		w.comparePieces(e, in, p.pd)
	}
}

// sharedBy returns the receives of s, of which k is in custody, too: no longer any that a message has taken.
func (c *Keeper) sharedBy(k *kept, s *object.SRQ) *receives {
	r := c.shared[s]
	if r == nil {
		r = &receives{posted: s.Taken, next: s.Head}
		c.shared[s] = r
	}
	if k.shared == nil {
		k.shared, k.srq = r, s
		r.users++
	}
	c.taken(r, s.Taken)
	first := r.next
	if len(r.list) > 0 {
		first = r.list[0].slot
	}
	if r.posted < s.Taken || first != s.Head { // nobody watched, or the program has changed a link
		c.release(&r.list, len(r.list))
		r.posted, r.next = s.Taken, s.Head
	}
	return r
}

// taken releases the receives of which messages have taken those below a count.
func (c *Keeper) taken(r *receives, count uint64) {
	n := 0
	for n < len(r.list) && r.list[n].index < count {
		n++
	}
	c.release(&r.list, n)
}

// leave ends the part of k in the custody of a shared receive queue.
func (c *Keeper) leave(k *kept) {
	r := k.shared
	if r == nil {
		return
	}
	r.users--
	if r.users == 0 {
		c.release(&r.list, len(r.list))
		delete(c.shared, k.srq)
	}
	k.shared, k.srq = nil, nil
}
