package sanitize

import (
	"slices"
	"sort"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
)

// numberMask is the bits of the number of a queue.
const numberMask = 1<<24 - 1

// grhSize is how many bytes a datagram has before its payload.
const grhSize = 40

// fetch notes the WQEs of a fetch that were not found before.
func (s *Sanitizer) fetch(e *trace.Event) {
	q := s.queues[e.Queue]
	if q == nil || s.table.Queue(e.Queue) == nil {
		return
	}
	for _, w := range s.table.Last() {
		if w.Whole() && !w.Again {
			s.found(q, w)
		}
	}
}

// found notes a WQE. It is started at once, unless a WQE before it waits for others.
func (s *Sanitizer) found(q *queue, w *objects.WQE) {
	if q.state == trace.ERR || q.state == trace.SQE {
		return // it is flushed
	}
	if n := len(q.works); n > 0 && int16(w.Index-q.works[n-1].index) <= 0 {
		return // it was found before
	}
	if q.hasEnded && int16(w.Index-q.ended) <= 0 {
		return // over a link, the WQEs of a visit are recorded after what the visit has completed
	}
	for len(q.works) > 0 && w.Index-q.works[0].index >= mostBlocks {
		s.end(q.works[0]) // its slot was used again
	}
	if s.workCount >= mostWorks {
		s.dropped++
		return
	}
	s.workCount++
	q.last++
	x := &work{queue: q, index: w.Index, number: q.last, ctrl: w.Ctrl, bytes: slices.Clone(w.Bytes),
		time: w.Time, found: s.now, foreign: s.foreign(q.client.process)}
	x.stack = s.stackOf(Post{q.client.number, q.number, Sends, w.Index})
	q.works = append(q.works, x)
	s.hold(q)
	s.startNext(q)
}

// startNext starts the WQEs that are behind no WQE that waits.
func (s *Sanitizer) startNext(q *queue) {
	for ; q.begun < len(q.works); q.begun++ {
		s.steps++
		if q.begun > 0 && q.works[q.begun-1].ctrl.Opcode == wqe.OpWait {
			return // the one before has not ended
		}
		s.start(q.works[q.begun])
	}
}

// start begins the accesses of a WQE: from now on the device may make them at any time.
func (s *Sanitizer) start(w *work) {
	w.started = true
	q, p := w.queue, w.queue.client.process
	p.knows, p.seen = s.clocks.joined(p.knows, p.seen), nil
	w.knows = s.clocks.joined(p.knows, q.extra)
	const fenced = wqe.FenceReads | wqe.FenceVerbs // FenceStrong has a bit of FenceReads
	if w.ctrl.Flags&fenced != 0 {
		q.fence = w.number
	}
	s.access(w)
	w.bytes = nil
	s.startKeys(w)
}

// access begins the accesses that the segments of a WQE say.
func (s *Sanitizer) access(w *work) {
	q := w.queue
	o := s.table.Queue(q.number)
	info := w.ctrl.Opcode.Info()
	if w.ctrl.Opcode == wqe.OpMMO {
		s.copyAccess(w)
		return
	}
	v, err := wqe.Parse(w.bytes, o.Address())
	if err != nil || info.Transports == 0 {
		return
	}
	near := reads
	if info.Reads || info.Atomic() {
		near = results
	}
	for list := v.Data(); ; {
		d, inline, ok := list.Next()
		if !ok {
			break
		}
		if d.Inline() {
			w.length += uint64(len(inline))
			continue
		}
		w.length += d.Length()
		s.begin(w, near, d.LKey, d.Addr, d.Length())
	}
	if w.length > wqe.MaxMessage {
		s.withdraw(w) // the device refuses such WQEs
		return
	}
	if x, ok := v.Find(wqe.KindWait); ok {
		w.target = wqe.ParseWait((*[wqe.WaitSize]byte)(x.Bytes)).Number & numberMask
	}
	r, remote := v.Find(wqe.KindRaddr)
	if !remote || w.length == 0 || o.Info.Port != 0 {
		return // keys of another device are not those of this one
	}
	a := wqe.ParseRaddr((*[wqe.RaddrSize]byte)(r.Bytes))
	far := writes
	switch {
	case info.Atomic():
		far = atomics
	case info.Reads:
		far = fetches
	}
	s.begin(w, far, a.RKey, a.Addr, w.length)
}

// copyAccess is access for a WQE that copies local memory.
func (s *Sanitizer) copyAccess(w *work) {
	const source, target = wqe.CtrlSize + wqe.MMOMetaSize, wqe.CtrlSize + wqe.MMOMetaSize + wqe.DataSize
	if len(w.bytes) < target+wqe.DataSize {
		return
	}
	from := wqe.ParseData((*[wqe.DataSize]byte)(w.bytes[source:]))
	to := wqe.ParseData((*[wqe.DataSize]byte)(w.bytes[target:]))
	if from.Length() > wqe.MaxMessage || to.Length() > wqe.MaxMessage {
		return
	}
	w.length = from.Length()
	s.begin(w, reads, from.LKey, from.Addr, from.Length())
	s.begin(w, results, to.LKey, to.Addr, to.Length())
}

// workAt returns the WQE of a queue pair that begins at an index and has not ended, or nil.
func (s *Sanitizer) workAt(qp uint32, index uint16) *work {
	if q := s.queues[qp]; q != nil {
		return workAt(q.works, index)
	}
	return nil
}

// workAt returns the WQE of a list, in the order of a queue, that begins at an index, or nil.
func workAt(list []*work, index uint16) *work {
	if len(list) == 0 {
		return nil
	}
	last := list[len(list)-1].index
	i := sort.Search(len(list), func(i int) bool { return last-list[i].index <= last-index })
	if i < len(list) && list[i].index == index {
		return list[i]
	}
	return nil
}

// payload notes that bytes of a WQE are moved.
func (s *Sanitizer) payload(e *trace.Event) {
	w := s.workAt(e.Queue, e.Index)
	if w == nil || !w.started {
		return
	}
	s.claim(w)
	s.touch(w)
	at, _ := e.PayloadAt()
	length := w.length
	if o := s.table.Queue(e.Queue); o != nil && o.Transport == trace.UD {
		length += grhSize
	}
	if at+uint64(len(e.Data)) >= length {
		s.move(w)
	}
}

// slice notes that some bytes of a WQE were moved.
func (s *Sanitizer) slice(e *trace.Event) {
	if w := s.workAt(e.Queue, e.Index); w != nil && w.started {
		s.touch(w)
	}
}

// move notes that the bytes of a WQE were moved. From now on, a program that looks at them may know that.
func (s *Sanitizer) move(w *work) {
	if w.moved {
		return
	}
	if !w.started {
		s.start(w)
	}
	s.touch(w)
	s.endKeys(w)
	w.moved = true
	if w.blind {
		s.blind++
	}
	news := s.clocks.raised(w.knows, w.queue.slot, w.number)
	for _, r := range w.records {
		p := r.owner
		switch {
		case r.mode == fetches:
			w.queue.brings = s.clocks.joined(w.queue.brings, s.clocks.joined(p.knows, p.seen))
		case r.mode == atomics:
			before := s.words.exchange(&s.clocks, p, r.from, news)
			w.queue.brings = s.clocks.joined(w.queue.brings, before)
			p.seen = s.clocks.joined(p.seen, news)
		case r.mode.stores() && r.mode != results:
			s.words.written(&s.clocks, p, r.span, news)
			p.seen = s.clocks.joined(p.seen, news)
		}
	}
	if !s.options.Strict {
		s.release(w)
	}
}

// executed notes that the WQEs in the blocks of an event have ended.
func (s *Sanitizer) executed(e *trace.Event) {
	q := s.queues[e.Queue]
	if q == nil {
		return
	}
	last := e.Index + max(e.Count, 1) - 1
	s.endUpTo(q, last)
}

// endUpTo ends the WQEs of a queue pair whose first blocks are not behind an index.
func (s *Sanitizer) endUpTo(q *queue, index uint16) {
	q.ended, q.hasEnded = index, true
	ended := false
	for len(q.works) > 0 && int16(index-q.works[0].index) >= 0 {
		ended = true
		s.end(q.works[0])
	}
	if ended {
		s.startNext(q)
	}
}

// end ends the first WQE of its queue pair.
func (s *Sanitizer) end(w *work) {
	q := w.queue
	s.claim(w)
	s.move(w)
	q.works[0] = nil
	q.works = q.works[1:]
	q.begun = max(q.begun-1, 0)
	s.workCount--
	q.done = w.number
	for len(q.taken) > 0 && q.taken[0].number <= q.done {
		q.taken = q.taken[1:]
	}
	s.trail(w)
	switch w.ctrl.Opcode {
	case wqe.OpUMR:
		s.keys.filled(w.ctrl.Imm)
	case wqe.OpWait:
		if c := s.cqs[w.target]; c != nil {
			q.extra = s.clocks.joined(q.extra, c.all)
		}
	case wqe.OpSendEn:
		if to := s.queues[w.target]; to != nil {
			to.extra = s.clocks.joined(to.extra, s.clocks.raised(w.knows, q.slot, w.number))
		}
	}
	w.knows = nil // records of it may stay, which need only its number
}

// trail keeps a WQE that has ended and has no completion. Its memory belongs to the device until a later one
// has completed.
func (s *Sanitizer) trail(w *work) {
	q := w.queue
	if w.ctrl.Completion()<<2 >= wqe.CEAlways {
		q.tail = nil
		return
	}
	if len(q.tail) >= mostTail {
		q.tail = q.tail[1:]
	}
	q.tail = append(q.tail, w)
}

// abandon drops the WQEs of a queue pair: it was reset, or they are flushed. The program knows that the
// device does not touch their memory any more.
func (s *Sanitizer) abandon(q *queue) {
	for _, w := range q.works {
		s.release(w)
	}
	s.workCount -= len(q.works)
	q.works, q.tail, q.begun, q.taken = nil, nil, 0, nil
	p := q.client.process
	p.knows = s.clocks.raised(p.knows, q.slot, q.last)
}
