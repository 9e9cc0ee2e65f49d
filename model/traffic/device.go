package traffic

import (
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// The limits of the device; the names are those of package engine.
const (
	fastBytes = 4096
	fastCost  = 256
	burst     = 32
	slice     = 64 << 10
)

// execute adds what the device does for the requests that a announces.
func (x *Expander) execute(works []*work, a announcement) {
	if x.c.BlueFlame != 0 && x.fromRegister(works, a) {
		return
	}
	x.pollRecord(HostRecord, a.record)
	done, cost := 0, 0 // WQEs and bytes of this visit
	for len(works) > 0 {
		if done >= burst || cost >= slice {
			// The visit ends. The device visits the peer's queue pair, and then the host's again.
			x.pollRecord(PeerRecord)
			x.pollRecord(HostRecord)
			done, cost = 0, 0
		}
		k := 1
		if w := works[0]; x.fast(w) {
			affordable := (slice - cost) / max(int(w.total), fastCost)
			k = x.fastPath(works, min(burst-done, affordable))
		} else {
			x.slowPath(w)
		}
		for _, w := range works[:k] {
			cost += max(int(w.total), fastCost)
		}
		works, done = works[k:], done+k
	}
}

// fromRegister adds the execution of a WQE from the BlueFlame register, if the device executes it
// there. Otherwise it adds what the device reads of the register, and returns false.
func (x *Expander) fromRegister(works []*work, a announcement) bool {
	w := works[0]
	executes := len(works) == 1 && w.blocks == 1 && x.fast(w)
	if x.hot {
		x.pollRegister(a.half, a.register)
		x.hot = executes
	} else if executes {
		x.pollRecord(HostRecord) // the WQE is in the register before the record announces it
		if x.next != a.half {
			x.pollRegister(x.next)
		}
		x.pollRegister(a.half, a.register)
		x.hot = true
	}
	if executes {
		x.next = a.half ^ 1
		x.previewMessage(w)
		x.perform(w, true)
		x.finish(w)
	}
	return executes
}

// fast reports whether the fast path takes w.
func (x *Expander) fast(w *work) bool {
	if x.c.SlowPath || w.blocks != 1 || w.pieces != 1 || w.total == 0 || w.total > fastBytes {
		return false
	}
	inline := uint64(fastBytes)
	switch w.ctrl.Opcode {
	case wqe.OpRDMAWrite:
		inline = wqe.MoveInlineMost
	case wqe.OpRDMARead:
		return !x.c.InlineResults
	case wqe.OpAtomicCS, wqe.OpAtomicFA:
		return !x.c.InlineResults && w.ctrl.DS == wqe.BlockSize/wqe.UnitSize
	case wqe.OpSend, wqe.OpSendImm:
		inline = wqe.SendInlineMost
		inCQE := x.c.InlineMessages && w.total <= uint64(cqeInline[x.c.EntrySize])
		if x.c.SRQ || inCQE || len(w.list) == 0 || w.list[0].n < w.total {
			return false
		}
	default:
		return false
	}
	return w.src[0].key != nil || w.total <= inline
}

// slowPath adds what the slow path does for w.
func (x *Expander) slowPath(w *work) {
	x.wqe(model.Dev, model.Load, model.Once, w.block, 1, wqe.BlockSize)
	x.previewMessage(w)
	if more := w.blocks - 1; more > 0 {
		x.wqe(model.Dev, model.Load, model.Follow, w.block+1, more, more*wqe.BlockSize)
	}
	x.perform(w, false)
	x.finish(w)
}

// perform adds what the device does after it has read the WQE, up to its completions.
func (x *Expander) perform(w *work, fast bool) {
	x.readKeys(w, fast)
	x.transfer(w)
}

// readKeys adds the reading of keys and of the receive. On the fast path the caller has called
// previewMessage before.
func (x *Expander) readKeys(w *work, fast bool) {
	near := w.src
	if w.info.Reads {
		near = w.dst
	}
	for _, p := range near {
		x.look(p)
	}
	if !fast {
		x.countReceives(w)
	}
	if w.remote != nil && w.total > 0 {
		x.look(*w.remote)
	}
	if w.receive != nil {
		x.openReceive(w, fast)
	}
	if w.ctrl.Opcode == wqe.OpMMO {
		x.look(w.dst[0])
	}
}

// transfer adds the movement of the bytes.
func (x *Expander) transfer(w *work) {
	switch {
	case w.atomic:
		x.memory(model.Dev, model.RMW, model.Follow, *w.remote)
		if !w.carried {
			x.memory(model.Dev, model.Store, model.Stream, w.dst[0])
		}
	default:
		x.move(w)
	}
}

// previewMessage adds what the fast path reads before it decides whether to take a message: how many
// receives there are.
func (x *Expander) previewMessage(w *work) {
	message := w.ctrl.Opcode == wqe.OpSend || w.ctrl.Opcode == wqe.OpSendImm
	if x.c.SlowPath || x.c.SRQ || !message {
		return
	}
	x.countReceives(w)
	x.fetchReceive = true
}

// countReceives adds the device's load of the number of receives, unless the device has loaded that
// number for w before.
func (x *Expander) countReceives(w *work) {
	if w.receive != nil && !w.counted {
		x.add(model.Dev, model.Load, model.Record, model.Once, x.receiveRecord(), 0, 1, 4, x.lastAnnounced)
		w.counted = true
	}
}

// openReceive adds the device's reading of the receive that w takes: of its entry, and of the keys in
// its list as far as the message needs them. A WRITE, and a message of 0 bytes, need none of the list,
// but the slow path reads the whole entry for them, too.
func (x *Expander) openReceive(w *work, fast bool) {
	switch {
	case fast && w.prefetched:
		return
	case fast:
		x.entry(model.Dev, model.Load, model.Once, w.entry, 0, wqe.DataSize)
	default:
		x.entry(model.Dev, model.Load, model.Once, w.entry, 0, x.c.Stride)
	}
	if w.remote != nil {
		return
	}
	left := w.total
	for _, p := range w.list {
		if left == 0 {
			break
		}
		x.look(p)
		left -= min(left, p.n)
	}
}

// move adds the movement of the bytes of w, piece by piece. If the payload goes into a CQE, move adds
// only the loads.
func (x *Expander) move(w *work) {
	dst, to := w.dst, piece{} // to is what is left of the piece before dst
	left := w.total
	for _, from := range w.src {
		for from.n = min(from.n, left); from.n > 0; {
			n := from.n
			if !w.carried {
				if to.n == 0 {
					to, dst = dst[0], dst[1:]
				}
				n = min(n, to.n)
			}
			if from.key != nil {
				x.memory(model.Dev, model.Load, model.Stream, piece{from.key, from.off, n}, w.filled)
			}
			if !w.carried {
				w.moved = x.memory(model.Dev, model.Store, model.Stream, piece{to.key, to.off, n})
				to.off, to.n = to.off+n, to.n-n
			}
			from.off, from.n, left = from.off+n, from.n-n, left-n
		}
	}
}

// finish adds the completions of w. The completion of the receive comes first.
func (x *Expander) finish(w *work) {
	x.finishReceive(w)
	x.finishSend(w)
}

// finishReceive adds the completion of the receive that w takes. If w takes none and the peer polls the
// payload, finishReceive notes that the payload has arrived.
func (x *Expander) finishReceive(w *work) {
	if w.receive != nil {
		x.recvs = append(x.recvs, x.complete(&x.recv, w))
	} else if p, ok := w.arrives(); ok {
		x.arrived = append(x.arrived, arrival{p, w.moved})
	}
}

// finishSend adds the completion of the WQE, if it is signaled.
func (x *Expander) finishSend(w *work) {
	if w.signaled {
		x.sends = append(x.sends, x.complete(&x.send, w))
	}
}
