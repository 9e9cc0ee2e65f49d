package record

import (
	"cmp"
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// grhSize is how many bytes a datagram has before its payload.
const grhSize = 40

// leaveOut finds objects whose numbers an object of another device has at the same time, because a replay has
// one device, and those whose rings the program reads or writes itself, because not all that it does is seen.
// Queue pairs that use them are left out too.
func (g *gatherer) leaveOut() {
	type name struct {
		kind   uint8
		number uint32
	}
	alive := map[name]*object{}
	for i := range g.happenings {
		h := &g.happenings[i]
		o := h.object
		n := name{o.kind, o.number}
		switch h.kind {
		case rawGone:
			if alive[n] == o {
				delete(alive, n)
			}
			if o.kind == rawContext { // a process may have forgotten to destroy the rest
				for n, x := range alive {
					if x.context == o {
						delete(alive, n)
					}
				}
			}
		case rawCQ, rawSRQ, rawQP, rawKey:
			if old := alive[n]; old != nil && old.replacedBy(o, h.time) {
				o.before = old
				delete(alive, n)
			}
			o.left = alive[n] != nil
			if q := o.qp; q != nil {
				for _, x := range []*object{q.sendCQ, q.recvCQ, q.srq} {
					o.left = o.left || (x != nil && x.left)
					o.own = o.own || (x != nil && x.own)
				}
			}
			switch {
			case o.own: // its number is not taken: nobody sees it
				o.left = true
				if o.kind == rawQP {
					g.summary.Own++
				}
			case o.left:
				g.summary.Taken++
			default:
				alive[n] = o
			}
			if q := o.qp; q != nil && (q.transport == 0 || q.transport == driver) {
				o.left = true // the library has noted it
			}
		}
	}
}

// replacedBy reports whether o is gone, because n was made at a time and has its number: the device has given
// it to n. Another thread may have destroyed o and not noted that yet, or the process of o was killed.
func (o *object) replacedBy(n *object, time uint64) bool {
	return o.context == n.context || (o.process != n.process && o.process.last < time)
}

// match finds out which receives the messages have taken, and which WQEs are in the trace.
func (g *gatherer) match() {
	byNumber := map[uint32][]*queue{}
	for _, q := range g.queues {
		if !q.left {
			byNumber[q.number] = append(byNumber[q.number], q)
		}
	}
	g.pair(byNumber)
	for _, q := range g.queues {
		if q.replayed() && q.peer != nil {
			q.takeReceives()
		}
	}
	g.takeDatagrams(byNumber)
	for _, q := range g.queues {
		q.cut(g.summary)
	}
	g.drop()
}

func (c *completion) success() bool {
	return c.wc.Kind >= cqe.RespWriteImm && c.wc.Kind <= cqe.RespSendInv
}

// takeReceives gives the messages of q the receives of its peer, in their order.
func (q *queue) takeReceives() {
	next := 0
	for _, w := range q.works {
		if !w.ctrl.Opcode.Info().Receive() || w.flushed {
			continue
		}
		for next < len(q.peer.receives) && q.peer.receives[next].wc.Syndrome == cqe.Flush {
			next++
		}
		if next == len(q.peer.receives) {
			return
		}
		c := q.peer.receives[next]
		if w.failed == c.success() {
			continue // it has failed before it took a receive
		}
		if q.transport == trace.UC && uint64(be.Uint32(c.entry[cqe.OffByteCount:])) != w.length {
			continue // it was lost
		}
		next++
		w.take(c)
	}
}

// take notes that the message of w has taken a receive. So w was executed, and those before it.
func (w *work) take(c *completion) {
	w.taken, c.work = c, w
	for _, x := range slices.Backward(w.queue.works[:w.order+1]) {
		if x.executed {
			break
		}
		x.executed = true
	}
}

// An arrival is what a datagram and its receive have in common.
type arrival struct {
	to     *queue
	from   uint32
	length uint64 // with its header
}

// takeDatagrams gives datagrams receives. A datagram that was lost has none.
func (g *gatherer) takeDatagrams(byNumber map[uint32][]*queue) {
	var datagrams []*work
	arrived := map[arrival][]*completion{}
	for _, q := range g.queues {
		if q.left || q.transport != trace.UD {
			continue
		}
		datagrams = append(datagrams, q.works...)
		for _, c := range q.receives {
			if c.success() {
				a := arrival{q, c.wc.SrcQP, uint64(be.Uint32(c.entry[cqe.OffByteCount:]))}
				arrived[a] = append(arrived[a], c)
			}
		}
	}
	slices.SortStableFunc(datagrams, func(a, b *work) int { return cmp.Compare(a.time, b.time) })
	for _, w := range datagrams {
		if w.failed || !w.ctrl.Opcode.Info().Receive() {
			continue
		}
		for _, p := range byNumber[w.dest] {
			a := arrival{p, w.queue.number, w.length + grhSize}
			list := arrived[a]
			for len(list) > 0 && list[0].time < w.time {
				list = list[1:] // it came from elsewhere
			}
			arrived[a] = list
			if len(list) > 0 {
				w.take(list[0])
				arrived[a] = list[1:]
				break
			}
		}
	}
}

// replayed reports whether the trace has WQEs of q.
func (q *queue) replayed() bool { return !q.left && (q.transport == trace.UD || q.peer != nil) }

// headerOf returns the version of IP in h if h is the header with which the datagram x has arrived: its
// destination and its length are those of x. Otherwise it returns 0: a program that lets several datagrams
// write to the same memory may have another header there, or none.
func (x *work) headerOf(h []byte) int {
	if len(h) != grhSize || len(x.blocks) < wqe.CtrlSize+wqe.AVSize {
		return 0
	}
	to := wqe.ParseAV((*[wqe.AVSize]byte)(x.blocks[wqe.CtrlSize:])).RGID
	// Headers of IPv4 are the last 20 bytes. Both have their length, which includes BTH, DETH, ICRC, padding,
	// and perhaps UDP: 24 to 35 bytes.
	const ipv4, least, most = 20, 24, 35
	fits := func(n uint16) bool { return uint64(n) >= x.length+least && uint64(n) <= x.length+most }
	v4 := h[ipv4:]
	switch {
	case h[0]>>4 == 6 && [16]byte(h[24:]) == to && fits(be.Uint16(h[4:])):
		return 6
	case v4[0] == 0x45 && [4]byte(v4[16:]) == [4]byte(to[12:]) && fits(be.Uint16(v4[2:])-ipv4):
		return 4
	}
	return 0
}

// cut ends the works of q before the first one of which not all is known.
func (q *queue) cut(s *Summary) {
	end := 0
	for _, w := range q.works {
		always := w.ctrl.Completion() == wqe.CEAlways>>2
		needs := w.ctrl.Opcode.Info().Receive() && !w.failed && q.transport == trace.RC
		if !q.replayed() || !w.executed || (always && w.done == nil) || (needs && w.taken == nil) {
			break
		}
		end++
	}
	for _, w := range q.works[end:] {
		for _, c := range []*completion{w.done, w.taken} {
			if c != nil {
				c.work = nil
			}
		}
		if q.replayed() {
			s.Unfinished++
		} else {
			s.Unpaired++
		}
	}
	q.works = q.works[:end]
}

// drop removes completions that a replay could not make: those of WQEs that are not in the trace, and of
// messages that came from elsewhere. Completions of queue pairs without a peer in the trace stay: a replay
// knows that they are not its own.
func (g *gatherer) drop() {
	for _, cq := range g.cqs {
		kept := cq.list[:0]
		for _, c := range cq.list {
			q := c.qp
			flushed := c.wc.Kind == cqe.RespErr && c.wc.Syndrome == cqe.Flush
			foreign := q != nil && q.transport != trace.UD && q.peer == nil
			gone := cq.left || q == nil || q.left
			if gone || (c.work == nil && !flushed && !foreign) {
				c.dropped = true
				g.summary.Dropped++
				continue
			}
			kept = append(kept, c)
		}
		cq.list = kept
	}
}
