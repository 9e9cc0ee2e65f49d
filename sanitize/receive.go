package sanitize

import (
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// An arrival is a receive whose message is of a WQE that the next event names.
type arrival struct {
	list  []wqe.Data
	taker uint32
}

// receivesOf returns the receives of the queue of an event.
func (s *Sanitizer) receivesOf(number uint32, shared bool) (*receives, *client) {
	if shared {
		if q := s.srqs[number]; q != nil {
			return &q.receives, q.client
		}
		return nil, nil
	}
	if q := s.queues[number]; q != nil {
		return &q.receives, q.client
	}
	return nil, nil
}

// holdReceives notes that a queue has receives.
func (s *Sanitizer) holdReceives(number uint32, shared bool) {
	if shared {
		s.hold(s.srqs[number])
		return
	}
	s.hold(s.queues[number])
}

// listOf returns the pointers in the entry of a receive.
func (s *Sanitizer) listOf(queue uint32, shared bool, entry []byte) (list []wqe.Data) {
	skip := 0
	if shared {
		skip = wqe.SRQNextSize
	} else if q := s.queues[queue]; q != nil && q.signed {
		skip = wqe.UnitSize
	}
	if len(entry) < skip {
		return nil
	}
	for all := wqe.RecvList(entry[skip:]); len(list) < mostPieces; {
		d, ok := all.Next()
		if !ok {
			break
		}
		d.ByteCount &^= wqe.InlineFlag
		if d.ByteCount != 0 {
			list = append(list, d)
		}
	}
	return list
}

// posted notes a receive that a program has posted.
func (s *Sanitizer) posted(e *trace.Event) {
	all, c := s.receivesOf(e.Queue, e.Count != 0)
	if all == nil {
		return
	}
	all.count++
	s.unpost(all, e.Index)
	r := &receive{index: e.Index, queue: e.Queue, shared: e.Count != 0, client: c, found: s.now, time: e.Time,
		foreign: s.foreign(c.process)}
	r.stack = s.receiveStack(r)
	list := s.listOf(e.Queue, r.shared, e.Data)
	var pieces []piece
	ends := make([]int, len(list)) // of each, in pieces
	for i, d := range list {
		pieces, _ = s.keys.resolve(pieces, d.LKey, d.Addr, d.Length())
		ends[i] = len(pieces)
	}
	if s.taken >= mostReceives || s.buffers+len(pieces) > mostBuffers || len(pieces) >= mostPieces {
		s.dropped++
		return
	}
	b, from := budget(mostFound), 0
	for i, d := range list {
		p := part{addr: d.Addr, n: d.Length(), key: d.LKey}
		for _, m := range pieces[from:ends[i]] {
			if x := s.await(m, &b); x != nil {
				p.records = append(p.records, x)
			}
		}
		from = ends[i]
		s.buffers += len(p.records)
		r.list = append(r.list, p)
	}
	if all.posted == nil {
		all.posted = map[uint16]*receive{}
	}
	all.posted[e.Index] = r
	s.taken++
	s.holdReceives(e.Queue, r.shared)
}

// receiveStack returns the stack of the poster of a receive.
func (s *Sanitizer) receiveStack(r *receive) []string {
	of := Receives
	if r.shared {
		of = SharedReceives
	}
	return s.stackOf(Post{r.client.number, r.queue, of, r.index})
}

// await notes that memory was posted for messages.
func (s *Sanitizer) await(m piece, b *budget) *record {
	c := s.clients[m.client]
	if c == nil || m.n == 0 {
		return nil
	}
	p, at := c.process, span{m.from, m.from + m.n}
	r := p.posted[at]
	if r == nil {
		r = &record{span: at, owner: p, mode: awaits}
		p.posted[at] = r
		p.memory.insert(r)
	}
	r.count++
	all := s.overlapping(p, at, b, func(x *record) {
		if x.mode.local() && !x.work.moved {
			r.ours = s.now // it is in use while it is posted
		}
	})
	if !all {
		r.ours = s.now // it may be
	}
	return r
}

// leave undoes await.
func (s *Sanitizer) leave(r *record) {
	r.count--
	if r.count == 0 {
		delete(r.owner.posted, r.span)
		r.owner.memory.remove(r)
	}
}

// use notes that a receive was used: its memory is not posted any more.
func (s *Sanitizer) use(r *receive) {
	if r.taken {
		return
	}
	r.taken = true
	for _, p := range r.list {
		for _, x := range p.records {
			s.leave(x)
		}
		s.buffers -= len(p.records)
	}
}

// unpost removes a receive.
func (s *Sanitizer) unpost(all *receives, index uint16) {
	if r := all.posted[index]; r != nil {
		s.use(r)
		delete(all.posted, index)
		s.taken--
	}
}

// unpostAll removes all receives of a queue.
func (s *Sanitizer) unpostAll(all *receives) {
	for i := range all.posted {
		s.unpost(all, i)
	}
	all.posted = nil // a map is as large as it ever was
}

// receive notes that a message has got a receive.
func (s *Sanitizer) receive(e *trace.Event) {
	shared := e.Count != 0
	all, c := s.receivesOf(e.Queue, shared)
	if all == nil {
		return
	}
	all.consumed++
	r := all.posted[e.Index]
	if r != nil {
		s.use(r)
	}
	list := s.listOf(e.Queue, shared, e.Data)
	s.receiveKeys(e, c, r, list)
	taker := uint32(e.Value)
	q, o := s.queues[taker], s.table.Queue(taker)
	s.unclaimed = nil
	switch {
	case q == nil || o == nil:
	case o.Info.Port != 0:
		q.client.process.foreign++
	case o.Info.Peer != 0:
		s.land(s.queues[o.Info.Peer], list)
	default:
		s.unclaimed = &arrival{list, taker}
	}
}

// land notes that the first message of a queue pair that has no receive has got one.
func (s *Sanitizer) land(from *queue, list []wqe.Data) {
	if from == nil || len(from.works) == 0 {
		return
	}
	first := from.works[0].number
	for from.untaken = max(from.untaken, first); from.untaken < first+uint64(from.begun); from.untaken++ {
		s.steps++
		w := from.works[from.untaken-first]
		if !w.took && w.ctrl.Opcode.Info().Receive() {
			s.landAt(w, list)
			return
		}
	}
}

// landAt begins the writes of a message into the memory of its receive.
func (s *Sanitizer) landAt(w *work, list []wqe.Data) {
	w.took = true
	w.queue.taken = append(w.queue.taken, w)
	if w.ctrl.Opcode.Info().Raddr {
		return // the message is elsewhere
	}
	left := w.length
	if o := s.table.Queue(w.queue.number); o != nil && o.Transport == trace.UD {
		left += grhSize
	}
	for _, d := range list {
		if n := min(left, d.Length()); n > 0 {
			s.begin(w, lands, d.LKey, d.Addr, n)
			left -= n
		}
	}
}

// claim gives a datagram, or a message of DC, the receive of the event before. Such a WQE names its
// destination itself, so the receive does not tell whose it is.
func (s *Sanitizer) claim(w *work) {
	a := s.unclaimed
	if a == nil || w.took || !w.started {
		return
	}
	s.unclaimed = nil
	o := s.table.Queue(w.queue.number)
	if o == nil || !w.ctrl.Opcode.Info().Receive() {
		return
	}
	if o.Transport == trace.UD || o.Transport == trace.DCI {
		s.landAt(w, a.list)
	}
}
