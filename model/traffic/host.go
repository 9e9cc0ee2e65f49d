package traffic

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// An arrival is a payload whose last line the peer polls, because no completion reports it.
type arrival struct {
	piece piece
	seq   int // the device's store
}

// postReceives adds what the peer does to post the receives of these requests.
func (x *Expander) postReceives(works []*work) {
	posted := false
	for _, w := range works {
		if w.receive == nil {
			continue
		}
		if x.c.SRQ && !posted {
			x.linkEntries()
		}
		at, bytes := 0, len(w.list)*wqe.DataSize
		if x.c.SRQ {
			at = wqe.SRQNextSize
		}
		if at+bytes < x.c.Stride {
			bytes += wqe.DataSize // the mark at the end of the list
		}
		w.entry = x.received
		x.received++
		x.entry(model.Peer, model.Store, model.Once, w.entry, at, bytes)
		posted = true
	}
	if posted {
		x.announce = x.add(model.Peer, model.Store, model.Record, model.Once, x.receiveRecord(), 0, 1, 4)
	}
}

// linkEntries adds the stores that append the completed entries of an SRQ to its free list: each is
// made the successor of the entry before it, which completed earlier.
func (x *Expander) linkEntries() {
	for ; x.linked < x.received; x.linked++ {
		x.entry(model.Peer, model.Store, model.Once, x.linked-1, 0, wqe.SRQNextSize)
	}
}

// lookInVain adds the last polls before the news.
func (x *Expander) lookInVain(works []*work) {
	for _, w := range works {
		if p, ok := w.arrives(); ok {
			x.memory(model.Peer, model.Load, model.Poll, p.lastLine())
		}
	}
	for _, w := range works {
		if w.receive != nil {
			x.pollCQE(model.Peer, &x.recv, x.recv.next)
			break
		}
	}
	for _, w := range works {
		if w.signaled {
			x.pollCQE(model.Host, &x.send, x.send.next)
			break
		}
	}
}

func (x *Expander) pollCQE(who model.Agent, q *cq, index uint64, after ...int) {
	x.add(who, model.Load, model.CQE, model.Poll, q.region, q.last(index), 1, cqe.Size, after...)
}

// arrives returns the payload by which the peer notices that w is done.
func (w *work) arrives() (piece, bool) {
	if !w.Use || w.remote == nil || w.info.Reads || w.receive != nil || w.total == 0 {
		return piece{}, false
	}
	return *w.remote, true
}

// lastLine returns the part of p in its last line.
func (p piece) lastLine() piece {
	end := p.off + p.n
	from := max(p.off, (end-1)/line*line)
	return piece{p.key, from, end - from}
}

// fill adds the stores of the payloads before they are sent.
func (x *Expander) fill(works []*work) {
	for _, w := range works {
		if !w.Fill || w.atomic || w.total == 0 {
			continue
		}
		who := model.Host
		if w.info.Reads {
			who = model.Peer
		}
		for _, p := range w.src {
			if p.key != nil {
				w.filled = x.memory(who, model.Store, model.Once, p)
			}
		}
	}
}

// A news is the stores that announce requests to the device.
type news struct {
	record, register int // Seq
	half             int // number of the half of the register
}

// post adds what the host does to post these requests.
func (x *Expander) post(works []*work) (n news) {
	for _, w := range works {
		w.block = x.sent
		x.sent += uint64(w.blocks)
		x.wqe(model.Host, model.Store, model.Once, w.block, w.blocks, int(w.ctrl.DS)*wqe.UnitSize)
	}
	n.half, x.half = x.half, x.half^1
	record := func() {
		n.record = x.add(model.Host, model.Store, model.Record, model.Signal, HostRecord, 0, 1, 4)
	}
	register := func(why model.Why, bytes int) {
		n.register = x.add(model.Host, model.Store, model.UAR, why, Registers, x.registerLine(n.half), 1,
			bytes)
	}
	switch {
	case x.c.BlueFlame == 0:
		record()
		register(model.Once, 8)
	case len(works) == 1 && works[0].blocks == 1:
		register(model.Signal, wqe.BlockSize)
		record()
	default: // only the first 8 bytes of the register are written
		register(model.Signal, 8)
		record()
	}
	return n
}

// poll adds the polling of everything that has completed.
func (x *Expander) poll() {
	for _, a := range x.arrived {
		last := a.piece.lastLine()
		x.memory(model.Peer, model.Load, model.Poll, last, a.seq)
		if rest := a.piece.n - last.n; rest > 0 {
			x.memory(model.Peer, model.Load, model.Stream, piece{a.piece.key, a.piece.off, rest})
		}
	}
	x.arrived = x.arrived[:0]
	x.take(model.Peer, &x.recv, x.recvs)
	x.take(model.Host, &x.send, x.sends)
	x.recvs, x.sends = x.recvs[:0], x.sends[:0]
}

// take adds the polling of completions of q. Results, and messages that came with a receive, are
// then read, if they are used.
func (x *Expander) take(who model.Agent, q *cq, list []completion) {
	if len(list) == 0 {
		return
	}
	for _, c := range list {
		x.pollCQE(who, q, c.index, c.seq)
		if !c.brings(who) || !c.carried {
			continue
		}
		x.readBack(who, c.work)
		if q.size == cqe.Size128 {
			x.add(who, model.Load, model.CQE, model.Once, q.region, q.last(c.index)-1, 1, int(c.total))
		}
		c.eachTarget(func(p piece) { x.memory(who, model.Store, model.Once, p) })
	}
	q.taken = q.next
	x.add(who, model.Store, model.CI, model.Once, q.ci, 0, 1, 4)
	for _, c := range list {
		if c.Use && c.brings(who) {
			c.eachTarget(func(p piece) { x.memory(who, model.Load, model.Stream, p) })
		}
	}
}

// readBack adds the poller's reading of the work request, which says where the data in a CQE belong.
func (x *Expander) readBack(who model.Agent, w *work) {
	bytes := 0 // of the list
	w.eachTarget(func(piece) { bytes += wqe.DataSize })
	if who == model.Peer {
		at := 0
		if x.c.SRQ {
			at = wqe.SRQNextSize
		}
		x.entry(who, model.Load, model.Follow, w.entry, at, bytes)
		return
	}
	bytes += int(w.info.Units-w.info.DataLeast) * wqe.UnitSize
	x.wqe(who, model.Load, model.Follow, w.block, (bytes+wqe.BlockSize-1)/wqe.BlockSize, bytes)
}

// brings reports whether a completion reports to who that the payload of w has arrived.
func (w *work) brings(who model.Agent) bool {
	if who == model.Peer {
		return w.receive != nil
	}
	return w.info.Reads || w.ctrl.Opcode == wqe.OpMMO
}

// eachTarget calls f for each piece of the target, up to the length of the payload.
func (w *work) eachTarget(f func(piece)) {
	left := w.total
	for _, p := range w.dst {
		p.n = min(p.n, left)
		if p.n > 0 {
			f(p)
		}
		left -= p.n
	}
}
