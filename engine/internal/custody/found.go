//go:build linux && (amd64 || arm64)

package custody

import (
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// Limits. The rest is executed as always, and is not compared.
const (
	// mostKept is how many WQEs, and how many receives, of one queue are kept: more than programs usually
	// have in flight, and 1 MiB for the longest.
	mostKept = 1024

	// mostSummed is how many bytes of one WQE or receive are compared, because they are read in one visit,
	// and a message can have 2 GiB.
	mostSummed = 256 << 10

	// mostSize is how many bytes of memory all entries of a thread have, because nobody is charged for them:
	// those of 300,000 WQEs of one block.
	mostSize = 64 << 20

	entrySize, pieceSize = 72, 40 // bytes of the structures
)

// An entry is a WQE or a receive that belongs to the device.
type entry struct {
	index    uint64 // count of blocks or receives before it
	bytes    []byte // its blocks, or the entry of the receive queue
	pieces   []piece
	slot     uint16 // receive: its place in the ring
	signaled bool   // WQE: has a completion
}

// A piece is bytes that an entry points to.
type piece struct {
	addr, n uint64
	key     uint32
	summed  uint64 // so many of the n bytes have the checksum sum
	sum     uint32
}

// size returns how much memory an entry takes.
func (e *entry) size() int {
	return entrySize + len(e.bytes) + len(e.pieces)*pieceSize
}

// A work is what is done for one queue pair in one visit.
type work struct {
	sh    *execution.Executor
	c     *Keeper
	q     *object.QP
	mask  uint32 // the watches that record it
	spent int    // bytes that were read, and what reading them has cost besides
}

// record records an event for the watches of its queue: those of its peer may belong to another user.
func (w *work) record(watches uint32, e *trace.Event) {
	e.Time = clock.Now()
	w.sh.Taps.Record(watches, e)
}

// watches returns the watches that watch q for the sanitizer.
func watches(q *object.QP) uint32 { return q.Watched & q.Client.Device.WatchesSanitize }

// over reports whether the visit has read as much as it may.
func (w *work) over() bool { return w.c.Budget > 0 && w.spent >= w.c.Budget }

// price returns what the client pays for the visit.
func (w *work) price() int {
	if w.c.Budget == 0 {
		return 0
	}
	return w.spent
}

// find finds the WQEs in the next n blocks, and with them the receives that are there for them, and records
// both.
func (w *work) find(k *kept, n uint16) {
	w.polled(k)
	w.findReceives(k, w.q)
	if p := w.peer(); p != nil {
		readable(func() { w.findReceives(w.c.of(p), p) }) // the peer's rings may be gone
	}
	end := w.q.SQ.Done + uint64(n)
	// At least one is found in each visit, whatever the receives have cost: so the queue goes on.
	for first := true; k.found < end && (first || !w.over()); first = false {
		if w.c.full(k.sends) {
			k.found = end
			break
		}
		e := entry{index: k.found}
		blocks := min(uint64(max(execution.HeadOf(w.q.SQ.Blocks.At(k.found)).Blocks(), 1)), end-k.found)
		e.bytes = w.blocks(e.index, blocks)
		w.spent += len(e.bytes)
		w.gather(&e)
		if !w.c.keep(&k.sends, e) {
			k.found = end
			break
		}
		w.recordFound(&e)
		k.found += blocks
	}
}

// blocks copies blocks of the send queue.
func (w *work) blocks(index, n uint64) []byte {
	b := make([]byte, n*wqe.BlockSize)
	for i := range n {
		*(*shm.Block)(b[i*wqe.BlockSize:]) = *w.q.SQ.Blocks.At(index + i)
	}
	return b
}

// recordFound records a WQE as its queue's visit records it when it is executed.
func (w *work) recordFound(e *entry) {
	blocks := uint16(len(e.bytes) / wqe.BlockSize)
	mask := watches(w.q)
	w.record(mask, &trace.Event{Kind: trace.KindDoorbell, Queue: w.q.Num, Index: uint16(e.index),
		Count: blocks, Value: uint64(w.q.SQ.Record.Observe())})
	w.record(mask, &trace.Event{Kind: trace.KindFetch, Queue: w.q.Num, Index: uint16(e.index), Count: blocks,
		Data: e.bytes})
}

// gather finds the bytes that a WQE sends. A WQE that is wrong has none: its execution says why it is wrong.
func (w *work) gather(e *entry) {
	v, err := inject.ParseWQE(e.bytes, w.q.Transport)
	if err != nil {
		return
	}
	e.signaled = v.Ctrl.Flags&wqe.CEMask >= wqe.CEAlways
	info := v.Ctrl.Opcode.Info()
	if info.Reads || info.Atomic() || (!info.Raddr && !info.Receive()) {
		return // it sends no bytes
	}
	list := v.Data()
	for left := uint64(mostSummed); ; {
		d, _, ok := list.Next()
		if !ok {
			return
		}
		if !d.Inline() {
			w.add(e, w.q.PD, d, &left)
		}
	}
}

// add adds a piece to an entry, if a key of the domain pd has its bytes, and they can be read. left is how
// many bytes of the entry may still be summed.
func (w *work) add(e *entry, pd *object.PD, d wqe.Data, left *uint64) {
	if *left == 0 {
		return
	}
	p := piece{addr: d.Addr, n: d.Length(), key: d.LKey}
	p.summed = min(p.n, *left)
	var ok bool
	p.sum, ok = w.sum(&p, pd)
	if ok && p.summed > 0 {
		*left -= p.summed
		e.pieces = append(e.pieces, p)
	}
}

// peer returns the queue pair that takes the messages of w.q, if it is watched for the sanitizer and belongs
// to the same shard; otherwise nil.
func (w *work) peer() *object.QP {
	if !w.q.HasPeer() || w.q.Wire != nil {
		return nil
	}
	p := w.sh.BoundPeer(w.q)
	if p == nil || watches(p) == 0 || p.Client.Shard != w.q.Client.Shard {
		return nil
	}
	return p
}
