package sanitize

// begin begins an access of a WQE to n bytes at an address of a key. Nothing begins if it is not known where
// the memory is.
func (s *Sanitizer) begin(w *work, m mode, number uint32, addr, n uint64) {
	if m != lands {
		w.used = append(w.used, use{number, m == writes || m == fetches || m == atomics})
	}
	pieces, ok := s.keys.resolve(nil, number, addr, n)
	if ok && len(w.records)+len(pieces) > mostPieces {
		s.dropped++
		ok = false
	}
	if !ok {
		if m.stores() {
			w.blind = true
			s.blind++
		}
		return
	}
	b := budget(mostFound)
	for _, x := range pieces {
		c := s.clients[x.client]
		if c == nil || x.n == 0 {
			continue
		}
		at := recordKey{c.process, m, span{x.from, x.from + x.n}}
		r := w.queue.records[at]
		if r == nil {
			r = &record{span: at.span, owner: c.process, queue: w.queue, mode: m}
			w.queue.records[at] = r
			c.process.memory.insert(r)
			s.recordCount++
		} else {
			s.unlink(r)
		}
		r.work, r.key, r.addr = w, number, addr
		s.link(r)
		w.records = append(w.records, r)
		s.check(r, &b)
		addr += x.n
	}
	for s.recordCount > mostRecords {
		s.dropped++
		s.drop(s.oldest)
	}
}

// foreign returns a count that has grown if the device may have written to the memory of a process for
// something of which no record tells: a packet of a link, or a WQE whose key is a list that another one has
// filled.
func (s *Sanitizer) foreign(p *process) uint64 { return p.foreign + s.blind }

// link makes r the newest record.
func (s *Sanitizer) link(r *record) {
	r.older, r.newer = s.newest, nil
	if s.newest != nil {
		s.newest.newer = r
	} else {
		s.oldest = r
	}
	s.newest = r
}

func (s *Sanitizer) unlink(r *record) {
	if r.older != nil {
		r.older.newer = r.newer
	} else {
		s.oldest = r.newer
	}
	if r.newer != nil {
		r.newer.older = r.older
	} else {
		s.newest = r.older
	}
	r.older, r.newer = nil, nil
}

// drop removes a record of a queue pair.
func (s *Sanitizer) drop(r *record) {
	at := recordKey{r.owner, r.mode, r.span}
	if r.queue.records[at] != r {
		return // it was removed before
	}
	delete(r.queue.records, at)
	r.owner.memory.remove(r)
	s.unlink(r)
	s.recordCount--
}

// release removes the records of a WQE that no later one has made its own.
func (s *Sanitizer) release(w *work) {
	for _, r := range w.records {
		w.overwritten = w.overwritten || (r.mode == reads && r.wrote >= w.found)
		if r.work == w {
			s.drop(r)
		}
	}
}

// withdraw releases a WQE that accesses nothing.
func (s *Sanitizer) withdraw(w *work) {
	s.release(w)
	w.records = nil
}

// touch marks the memory of others that a WQE writes: a change of it is none of the program's own.
func (s *Sanitizer) touch(w *work) {
	b := budget(mostFound)
	for _, r := range w.records {
		if !r.mode.stores() {
			continue
		}
		all := s.overlapping(r.owner, r.span, &b, func(x *record) {
			if x != r {
				x.wrote = s.now
			}
		})
		if !all {
			r.owner.foreign++ // nothing is said about what is not marked
		}
	}
}

// beingWritten reports whether the device may write some bytes of a process, for another WQE than w.
func (s *Sanitizer) beingWritten(p *process, m span, b *budget, w *work) bool {
	found := false
	all := s.overlapping(p, m, b, func(x *record) {
		found = found || (x.mode.stores() && x.work != w && !x.work.moved)
	})
	return found || !all
}

// overlapping calls f with the records of a process that have a byte of m; see tree.overlapping.
func (s *Sanitizer) overlapping(p *process, m span, b *budget, f func(*record)) (all bool) {
	before := *b
	all = p.memory.overlapping(m, b, f)
	s.steps += uint64(before - *b)
	return all
}

// slots are the places of queue pairs in clocks.
type slots struct {
	free []uint32
	last []uint64 // number of the last WQE of the queue pair that had the slot
}

// take returns a slot that is free, or mostSlots if none is.
func (x *slots) take() (slot uint32, last uint64) {
	if n := len(x.free); n > 0 {
		slot = x.free[n-1]
		x.free = x.free[:n-1]
		return slot, x.last[slot]
	}
	if len(x.last) >= mostSlots {
		return mostSlots, 0
	}
	x.last = append(x.last, 0)
	return uint32(len(x.last) - 1), 0
}

func (x *slots) give(slot uint32, last uint64) {
	if slot == mostSlots {
		return
	}
	x.last[slot] = last
	x.free = append(x.free, slot)
}

// mostWords is how many words of atomics have clocks of their own. Those that have none share one, which
// knows what all of them know: so orders between more accesses are assumed, and no race is reported that
// is none.
const mostWords = 1 << 16

// words are the clocks that atomics have left at their words.
type words struct {
	clocks map[word]*clock
	order  []word
	rest   *clock
}

type word struct {
	of   *process
	addr uint64
}

// wordSize is the size of the memory that has one clock.
const wordSize = 8

func newWords() words { return words{clocks: map[word]*clock{}} }

// exchange returns what the last atomics of a word have left there, and leaves more.
func (x *words) exchange(k *clocks, p *process, addr uint64, news *clock) (before *clock) {
	at := word{p, addr &^ (wordSize - 1)}
	before, ok := x.clocks[at]
	if !ok {
		before = x.rest
		x.order = append(x.order, at)
	}
	x.clocks[at] = k.joined(before, news)
	for len(x.order) > mostWords {
		x.rest = k.joined(x.rest, x.clocks[x.order[0]])
		delete(x.clocks, x.order[0])
		x.order = x.order[1:]
	}
	return before
}

// written notes a write to a word that atomics use: as one that sets a lock free.
func (x *words) written(k *clocks, p *process, m span, news *clock) {
	at := word{p, m.from &^ (wordSize - 1)}
	if c, ok := x.clocks[at]; ok && m.end-m.from <= wordSize {
		x.clocks[at] = k.joined(c, news)
	}
}
