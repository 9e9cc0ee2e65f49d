//go:build linux && (amd64 || arm64)

package custody

import (
	"bytes"
	"runtime/debug"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// compare compares what belongs to the device with what was found: first the WQEs that are about to be
// executed and the receives that are there for them, then, as long as the visit may, the WQEs that were
// executed and have no completion yet.
func (w *work) compare(k *kept) {
	next := w.next(k)
	for i := next; i < len(k.sends); i++ {
		w.compareSend(&k.sends[i])
	}
	if p := w.peer(); p != nil {
		readable(func() { w.compareReceives(p) }) // the peer's rings may be gone
	}
	for i := 0; i < next && !w.over(); i++ {
		w.compareSource(&k.sends[i]) // its blocks are free once it is executed
	}
}

// compareNext compares the WQE that is executed next.
func (w *work) compareNext(k *kept) {
	if i := w.next(k); i < len(k.sends) {
		w.compareSend(&k.sends[i])
	}
}

// next returns the index in k.sends of the WQE that is executed next: len(k.sends) if it is not there.
func (w *work) next(k *kept) (i int) {
	for i < len(k.sends) && k.sends[i].index < w.q.SQ.Done {
		i++
	}
	return i
}

func (w *work) compareSend(e *entry) {
	in := changes{watches(w.q), w.q.Num, uint16(e.index), trace.ChangedWQE}
	e.bytes = w.compareBytes(e, in, w.blocks(e.index, uint64(len(e.bytes)/wqe.BlockSize)), wqe.BlockSize)
	w.compareSource(e)
}

func (w *work) compareSource(e *entry) {
	w.comparePieces(e, changes{watches(w.q), w.q.Num, uint16(e.index), trace.ChangedSource}, w.q.PD)
}

// A changes says what has changed, in events, and for which watches.
type changes struct {
	watches uint32
	queue   uint32
	index   uint16
	part    trace.ChangedPart
}

// compareBytes compares the bytes of an entry with those that it has now, part by part, records the parts
// that have changed, and returns the bytes that it has now: each change is recorded once.
func (w *work) compareBytes(e *entry, in changes, now []byte, size int) []byte {
	w.spent += len(now)
	for at := 0; at < len(now); at += size {
		was, is := e.bytes[at:][:size], now[at:][:size]
		if !bytes.Equal(was, is) {
			w.record(in.watches, &trace.Event{Kind: trace.KindChanged, Queue: in.queue, Index: in.index,
				Count: uint16(in.part), Value: uint64(at / size), Data: append(bytes.Clone(was), is...)})
		}
	}
	return now
}

// comparePieces compares the bytes that an entry points to with their checksums. The entry points to them as
// it did when it was found.
func (w *work) comparePieces(e *entry, in changes, pd *object.PD) {
	for i := range e.pieces {
		p := &e.pieces[i]
		sum, ok := w.sum(p, pd)
		if !ok || sum == p.sum {
			continue // the key is gone, which the execution explains; or nothing has changed
		}
		change := trace.Change{Addr: p.addr, Length: p.n, Key: p.key, Was: p.sum, Is: sum}
		w.record(in.watches, &trace.Event{Kind: trace.KindChanged, Queue: in.queue, Index: in.index,
			Count: uint16(in.part), Value: uint64(i), Data: change.Append(nil)})
		p.sum = sum
	}
}

// sum returns the checksum of the first p.summed bytes of a piece, which a key of the domain d has. ok is
// false if they cannot be read.
func (w *work) sum(p *piece, d *object.PD) (sum uint32, ok bool) {
	l := &w.c.list
	l.Reset()
	w.sh.TakeEffort() // of others
	there := readable(func() {
		if w.sh.Locate(l, p.key, d, p.addr, p.summed) {
			w.spent += int(p.summed)
			sum, ok = w.sh.Checksum(l, p.summed)
		}
	})
	w.spent += w.sh.TakeEffort()
	return sum, ok && there
}

// readable calls a function, and reports whether all memory that it has read is there. Memory that is gone is
// a mistake of the WQE that uses it, which its execution finds.
func readable(read func()) (ok bool) {
	// Requests, which end queues, are served on any goroutine.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, gone := pagefault.Of(r); !gone {
				panic(r)
			}
			ok = false
		}
	}()
	read()
	return true
}
