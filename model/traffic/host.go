package traffic

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// An arrival is a payload whose last line the peer polls, because no completion reports it.
type arrival struct {
	piece piece
	seq   int // Seq of the device's last store of the payload
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
			bytes += wqe.DataSize // the segment that marks the end of the list
		}
		w.entry = x.received
		x.received++
		x.entry(model.Peer, model.Store, model.Once, w.entry, at, bytes)
		posted = true
	}
	if posted {
		x.lastAnnounced = x.add(model.Peer, model.Store, model.Record, model.Once, x.receiveRecord(), 0, 1, 4)
	}
}

// linkEntries adds the stores that append the completed entries of an SRQ to its free list. To append
// an entry, the peer stores the number of that entry in the link of the entry that completed before.
func (x *Expander) linkEntries() {
	for ; x.linked < x.received; x.linked++ {
		x.entry(model.Peer, model.Store, model.Once, x.linked-1, 0, wqe.SRQNextSize)
	}
}

// pollBefore adds the last polls of host and peer before the requests are posted. These polls find
// nothing.
func (x *Expander) pollBefore(works []*work) {
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

// arrives returns the payload that the peer polls to notice that w is done, and reports whether there
// is one: the peer uses the payload, and no completion tells it of w.
func (w *work) arrives() (piece, bool) {
	if !w.Use || w.remote == nil || w.info.Reads || w.receive != nil || w.total == 0 {
		return piece{}, false
	}
	return *w.remote, true
}

// lastLine returns the part of p that is in the last line of p.
func (p piece) lastLine() piece {
	end := p.off + p.n
	lineStart := (end - 1) / line * line
	from := max(p.off, lineStart)
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

// An announcement is the stores that announce requests to the device.
type announcement struct {
	record, register int // Seq of the stores to the doorbell record and to the register
	half             int // the half of the BlueFlame register that the host wrote
}

// post adds what the host does to post these requests.
func (x *Expander) post(works []*work) (a announcement) {
	for _, w := range works {
		w.block = x.sent
		x.sent += uint64(w.blocks)
		x.wqe(model.Host, model.Store, model.Once, w.block, w.blocks, int(w.ctrl.DS)*wqe.UnitSize)
	}
	a.half, x.half = x.half, x.half^1
	record := func() {
		a.record = x.add(model.Host, model.Store, model.Record, model.Signal, HostRecord, 0, 1, 4)
	}
	register := func(why model.Why, bytes int) {
		a.register = x.add(model.Host, model.Store, model.UAR, why, Registers, x.registerLine(a.half), 1,
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
	return a
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

// take adds the polling of the completions in list, which are in q. Then it adds the reading of the
// payloads that these completions report to who and that are used.
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
	bytes := 0 // that the poller reads: first those of the list
	w.eachTarget(func(piece) { bytes += wqe.DataSize })
	if who == model.Peer {
		at := 0
		if x.c.SRQ {
			at = wqe.SRQNextSize
		}
		x.entry(who, model.Load, model.Follow, w.entry, at, bytes)
		return
	}
	bytes += int(w.info.Units-w.info.DataLeast) * wqe.UnitSize // the segments before the list
	blocks := (bytes + wqe.BlockSize - 1) / wqe.BlockSize
	x.wqe(who, model.Load, model.Follow, w.block, blocks, bytes)
}

// brings reports whether the completion of w that who polls says that the payload has arrived.
func (w *work) brings(who model.Agent) bool {
	if who == model.Peer {
		return w.receive != nil
	}
	return w.info.Reads || w.ctrl.Opcode == wqe.OpMMO
}

// eachTarget calls f for each piece of the memory that the payload of w is written to.
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
