package sanitize

import (
	"fmt"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// changed notes bytes that belong to the device, and that somebody has changed.
func (s *Sanitizer) changed(e *trace.Event) {
	part := trace.ChangedPart(e.Count)
	switch part {
	case trace.ChangedSource:
		s.sourceChanged(e)
	case trace.ChangedBuffer, trace.ChangedSharedBuffer:
		s.bufferChanged(e, part.Shared())
	case trace.ChangedWQE:
		s.rewritten(e)
	case trace.ChangedEntry, trace.ChangedSharedEntry:
		s.entryRewritten(e, part.Shared())
	}
}

// sourceChanged reports that a program has changed bytes that a WQE sends. If the device has written them
// for another WQE, these are two accesses, which have an order or not: check has found out.
func (s *Sanitizer) sourceChanged(e *trace.Event) {
	c, err := trace.ParseChange(e.Data)
	q := s.queues[e.Queue]
	if err != nil || q == nil {
		return
	}
	severity := Error
	w := workAt(q.works, e.Index)
	if w == nil {
		w, severity = workAt(q.tail, e.Index), s.ended()
	}
	if w == nil || s.knowsEnd(w) {
		return
	}
	p := q.client.process
	if w.foreign != s.foreign(p) || w.overwritten {
		return // the device has changed them, perhaps for a packet of a link
	}
	pieces, _ := s.keys.resolve(nil, c.Key, c.Addr, c.Length)
	b := budget(mostFound)
	for _, m := range pieces {
		at := span{m.from, m.from + m.n}
		r := w.queue.records[recordKey{p, reads, at}]
		if (r != nil && r.wrote >= w.found) || s.beingWritten(p, at, &b, w) {
			return
		}
	}
	about := subject{SendBufferChanged, e.Queue, c.Key, span{c.Addr, c.Addr + c.Length}}
	if !s.wanted(about, severity) {
		return
	}
	a := s.workAccess(w, "read")
	a.Addr, a.Length, a.Key = c.Addr, c.Length, c.Key
	until := "executed"
	if w.moved {
		until = "completed"
	}
	s.report(about, Report{
		Severity: severity,
		Text: fmt.Sprintf("%s has changed %s that a WQE sends, after the WQE was posted and before it was %s",
			s.nameOf(p), countBytes(c.Length), until),
		Accesses: []Access{a, s.store(q.client, c)},
		Hint:     "Memory belongs to the device from the post until the completion was polled (IBV_SEND_INLINE copies it at the post).",
	})
}

// ended returns how certain it is that a change after the execution of a WQE is a mistake. The program may
// have heard over a socket that its message has arrived.
func (s *Sanitizer) ended() Severity {
	if s.options.Strict {
		return Error
	}
	return Note
}

// knowsEnd reports whether the program of a WQE may know that its bytes have arrived: its peer has answered.
func (s *Sanitizer) knowsEnd(w *work) bool {
	p := w.queue.client.process
	return max(p.knows.at(w.queue.slot), p.seen.at(w.queue.slot)) >= w.number
}

// store describes that a program has stored to its memory.
func (s *Sanitizer) store(c *client, x trace.Change) Access {
	a := s.clientAccess(c, "store")
	a.Addr, a.Length, a.Ticks = x.Addr, x.Length, s.ticks
	return a
}

// bufferChanged reports that a program has changed the buffer of a receive.
func (s *Sanitizer) bufferChanged(e *trace.Event, shared bool) {
	x, err := trace.ParseChange(e.Data)
	all, c := s.receivesOf(e.Queue, shared)
	if err != nil || all == nil {
		return
	}
	r := all.posted[e.Index]
	if r == nil || e.Value >= uint64(len(r.list)) || s.foreign(c.process) != r.foreign {
		return
	}
	severity, b := Error, budget(mostFound)
	if shared {
		severity = Note // UCX uses the last bytes of what it posts, which no message of it fills
	}
	for _, m := range r.list[e.Value].records {
		if m.wrote >= r.found || s.beingWritten(m.owner, m.span, &b, nil) {
			return
		}
		if m.ours >= r.found {
			severity = Note // it sends from there: it does not mind what comes
		}
	}
	s.report(subject{ReceiveBufferChanged, e.Queue, x.Key, span{x.Addr, x.Addr + x.Length}}, Report{
		Severity: severity,
		Text: fmt.Sprintf("%s has changed the buffer of a receive, %s, after the receive was posted and before its message came",
			s.nameOf(c.process), countBytes(x.Length)),
		Accesses: []Access{s.receiveAccess(r, e.Value), s.store(c, x)},
		Hint:     "A buffer belongs to the device from the post until the completion of the receive was polled.",
	})
}

// receiveAccess describes a piece of a receive.
func (s *Sanitizer) receiveAccess(r *receive, i uint64) Access {
	a := s.clientAccess(r.client, "receive")
	index := r.index
	a.Index, a.Ticks, a.Stack = &index, r.time, r.stack
	if r.shared {
		a.SRQ = r.queue
	} else {
		a.QP = r.queue
	}
	if i < uint64(len(r.list)) {
		p := &r.list[i]
		a.Addr, a.Length, a.Key = p.addr, p.n, p.key
	}
	return a
}

// rewritten reports that a program has written a slot of a send queue whose WQE was not executed yet.
func (s *Sanitizer) rewritten(e *trace.Event) {
	q := s.queues[e.Queue]
	was, is, ok := halves(e.Data, wqe.BlockSize)
	if q == nil || !ok {
		return
	}
	a, severity := s.clientAccess(q.client, "post"), Error
	if w := s.workAt(e.Queue, e.Index); w != nil {
		a = s.workAccess(w, "post")
	} else {
		severity = Note // it was executed, so nobody reads the slot any more; the program may know that
	}
	index := e.Index
	a.QP, a.Index = q.number, &index
	b := s.clientAccess(q.client, "store")
	b.QP, b.Index, b.Opcode, b.Ticks = q.number, &index, a.Opcode, s.ticks
	s.report(subject{code: WQERewritten, a: e.Queue, b: uint32(e.Index)}, Report{
		Severity: severity,
		Text: fmt.Sprintf("block %d of a WQE was written again, after it was posted and before it was executed: %s",
			e.Value, difference(was, is)),
		Accesses: []Access{a, b},
		Hint:     "A slot of a send queue is free again when the completion of its WQE, or of a later one, was polled.",
	})
}

// entryRewritten reports that a program has written an entry of a receive queue that was not used yet.
func (s *Sanitizer) entryRewritten(e *trace.Event, shared bool) {
	all, c := s.receivesOf(e.Queue, shared)
	was, is, ok := halves(e.Data, 1)
	if all == nil || !ok {
		return
	}
	r := all.posted[e.Index]
	if r == nil {
		r = &receive{index: e.Index, queue: e.Queue, shared: shared, client: c}
	}
	b := s.receiveAccess(r, 0)
	a := b
	a.Does, b.Does, b.Ticks, b.Stack = "post", "store", s.ticks, nil
	s.report(subject{code: ReceiveRewritten, a: e.Queue, b: uint32(e.Index)}, Report{
		Text: "an entry of a receive queue was written again, after it was posted and before a message came: " +
			difference(was, is),
		Accesses: []Access{a, b},
		Hint:     "An entry is free again when the completion of its receive was polled.",
	})
}

// halves divides the bytes that were found and those that are there now, each a multiple of a size.
func halves(b []byte, size int) (was, is []byte, ok bool) {
	n := len(b) / 2
	return b[:n], b[n:], n > 0 && len(b) == 2*n && n%size == 0
}

// difference says where two byte strings of the same length differ first.
func difference(was, is []byte) string {
	for i := range was {
		if was[i] != is[i] {
			n := min(len(was)-i, 8)
			return fmt.Sprintf("from byte %d on it was % x, and is % x", i, was[i:i+n], is[i:i+n])
		}
	}
	return "it was written and restored"
}
