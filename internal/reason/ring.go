package reason

import (
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
)

// A Writer is the device's side of a ring. Only one thread at a time may use it: the one that may change
// the client's objects.
type Writer struct {
	memory []byte
	last   uint64 // number of the newest entry
}

// NewWriter makes the ring in the memory of a status page, which has control.StatusSize bytes and then Size
// bytes, all 0.
func NewWriter(memory []byte) *Writer {
	word := func(off uint64, v uint64) { shm.Word64At(memory, off).Publish(v) }
	word(control.StatusReasonSize, EntrySize)
	word(control.StatusReasonOffset, control.StatusSize)
	word(control.StatusReasons, Entries)
	return &Writer{memory: memory}
}

// Write writes r as the newest entry, and returns its number. It ignores r.Number.
//
// Publish: number of the entry, and the number of the newest one. Observed by Ring.Number and Ring.Read.
func (w *Writer) Write(r *Reason) uint64 {
	n := w.last + 1
	r.Number = n
	var b [EntrySize]byte
	used := put(r, &b)
	at := control.StatusSize + (n-1)%Entries*EntrySize
	number := shm.Word64At(w.memory, at)
	number.Publish(0)
	for off := uint64(8); off < uint64(used); off += 8 {
		shm.Word64At(w.memory, at+off).Publish(le.Uint64(b[off:]))
	}
	number.Publish(n)
	w.last = n
	shm.Word64At(w.memory, control.StatusReasonLast).Publish(n)
	return n
}

// A Ring is the reader's side of a ring. Safe for concurrent use.
type Ring struct {
	memory  []byte
	at      uint64
	entries uint64
	size    uint64 // bytes of an entry, at least EntrySize
}

// NewRing returns the ring in the memory of a status page, or nil if the device has none. It returns nil,
// too, if the words that describe the ring do not fit the memory.
func NewRing(memory []byte) *Ring {
	if uint64(len(memory)) < control.StatusSize {
		return nil
	}
	word := func(off uint64) uint64 { return shm.Word64At(memory, off).Observe() }
	n, size := word(control.StatusReasons), word(control.StatusReasonSize)
	at := word(control.StatusReasonOffset)
	all := uint64(len(memory))
	fits := n > 0 && size >= EntrySize && size%8 == 0 && at%8 == 0 && at <= all && n <= (all-at)/size
	if !fits {
		return nil
	}
	return &Ring{memory: memory, at: at, entries: n, size: size}
}

// Last returns the number of the newest entry, or 0.
func (r *Ring) Last() uint64 { return shm.Word64At(r.memory, control.StatusReasonLast).Observe() }

// Entries returns how many reasons the ring holds.
func (r *Ring) Entries() uint64 { return r.entries }

// Find returns the reason of an error CQE at p; if flushed, the reason why the queue pair was in error. If
// there is none, overrun reports whether the ring may have had one that is overwritten.
func (r *Ring) Find(p Place, flushed bool) (found *Reason, overrun bool) {
	n, overrun := r.Number(p, flushed)
	if n == 0 {
		return nil, overrun
	}
	found = r.Read(n)
	return found, found == nil
}

// Number is Find for a caller that may have the reason already: it returns the number of the reason, or 0.
func (r *Ring) Number(p Place, flushed bool) (n uint64, overrun bool) {
	last := r.Last()
	for n := last; n > 0; n-- {
		at := r.place(n)
		number := shm.Word64At(r.memory, at)
		if last-n >= r.entries || number.Observe() != n {
			return 0, true // the device has begun to overwrite it
		}
		var b [headSize]byte
		for off := uint64(8); off < headSize; off += 8 {
			le.PutUint64(b[off:], shm.Word64At(r.memory, at+off).Observe())
		}
		if number.Observe() != n {
			return 0, true
		}
		if belongs(&b, p, flushed) {
			return n, false
		}
	}
	return 0, false
}

// Read returns a reason by its number, or nil if the device has begun to overwrite it.
func (r *Ring) Read(n uint64) *Reason {
	at := r.place(n)
	number := shm.Word64At(r.memory, at)
	var b [EntrySize]byte
	for off := uint64(0); off < EntrySize; off += 8 {
		le.PutUint64(b[off:], shm.Word64At(r.memory, at+off).Observe())
	}
	if le.Uint64(b[offNumber:]) != n || number.Observe() != n {
		return nil
	}
	return parse(&b)
}

func (r *Ring) place(n uint64) uint64 { return r.at + (n-1)%r.entries*r.size }

// headSize is how many bytes of an entry say to which completions it belongs.
const headSize = 32

// syndromeFlush is cqe.Flush.
const syndromeFlush = 5

// belongs reports whether the entry that begins with b is the reason of an error CQE at p or, if flushed, of
// a flush there.
func belongs(b *[headSize]byte, p Place, flushed bool) bool {
	if le.Uint32(b[offQueue:]) != p.Queue {
		return false
	}
	index, of, s := le.Uint16(b[offIndex:]), b[offOf], b[offSyndrome]
	same := index == p.Index && of == p.Of
	switch {
	case !flushed:
		return same && s != syndromeFlush
	case s == syndromeFlush:
		return same
	case of != OfWQE || p.Of != OfWQE:
		return true
	}
	// The cause of a flush in the send queue is before it. Indices count modulo 2^16, and a send queue has at
	// most 2^15 blocks. A queue pair that was stopped by something else flushes the WQE at the index, too.
	ahead := int16(p.Index - index)
	return ahead > 0 || ahead == 0 && s == 0
}
