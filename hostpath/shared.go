package hostpath

import (
	"errors"
	"sync/atomic"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// SRQConfig describes the memory of a shared receive queue.
type SRQConfig struct {
	Ring []byte // entries of Stride bytes; their number is a power of two from 2 to 32768

	// Stride is the size of an entry in bytes: 16 for the link, and 16 for each SGE that the entry may have.
	// It is a power of two, at least 32.
	Stride int

	Record []byte // the doorbell record, 4 bytes
	Stacks bool   // note where each receive was posted; a post takes a microsecond more
}

// An SRQ is a receive queue that several QPs share. Its entries complete in any order, and
// so the free entries form a list. The poster takes entries from the head of the list, and
// appends completed entries at its tail. The last free entry is never used, so that the list
// never becomes empty.
//
// Only one goroutine at a time may call its methods, while any number of other goroutines
// poll the CQs of its QPs.
type SRQ struct {
	ring   []byte
	ids    []uint64
	next   []uint16 // for each entry, the entry after it, as the ring says; used by the poster only
	stride uint64
	record *shm.BE32
	head   uint16 // first entry of the free list: the entry to post next
	tail   uint16 // last entry of the free list
	count  uint16 // number of receives posted so far; wraps
	noted  uint64 // the same, as far as posts has noted them
	posts  *Posts // nil without SRQConfig.Stacks
	_      [64]byte

	// top and below are a stack of the entries that pollers have given back. top is 1 plus the
	// index of the newest entry, or 0 for an empty stack. below[i] is the value that top had
	// before entry i was pushed. The poster takes the whole stack at once, not one entry at a
	// time, so that the ABA problem does not arise.
	top   atomic.Uint32
	below []uint32
	busy  []atomic.Bool // indexed by entry: true while the device has the entry
}

// NewSRQ returns an empty shared receive queue. It writes the links between the entries into
// the ring: entry i is followed by entry i+1.
func NewSRQ(c SRQConfig) (*SRQ, error) {
	size, err := entries("shared receive ring", c.Ring, c.Stride, 2*wqe.DataSize)
	if err != nil {
		return nil, err
	}
	if size < 2 {
		return nil, errors.New("hostpath: shared receive ring of 1 entry; one is never used, so 2 are needed")
	}
	record, err := recordWord(c.Record, doorbell.RecvWord)
	if err != nil {
		return nil, err
	}
	q := &SRQ{
		ring: c.Ring, ids: make([]uint64, size), next: make([]uint16, size), stride: uint64(c.Stride),
		record: record, tail: uint16(size - 1), below: make([]uint32, size), busy: make([]atomic.Bool, size),
	}
	for i := range uint16(size - 1) {
		q.link(i, i+1)
	}
	if c.Stacks {
		q.posts = newPosts(size)
	}
	return q, nil
}

// MaxSGE returns how many SGEs a receive may have.
func (q *SRQ) MaxSGE() int { return int(q.stride/wqe.DataSize) - 1 }

// PostRecv writes the receive wr into the entry at the head of the free list. The next Ring
// announces the receive to the device. PostRecv returns ErrFull while the queue is full, and
// another error if the list of wr does not fit into an entry. After an error the queue is
// unchanged. Like libmlx5 and unlike an RQ, an SRQ does not skip SGEs of length 0: in the
// format, length 0 means 1<<31 bytes.
func (q *SRQ) PostRecv(wr *RecvWR) error {
	if err := checkRecv(wr, q.MaxSGE()); err != nil {
		return err
	}
	q.collect()
	if q.head == q.tail {
		return ErrFull
	}
	i := q.head
	q.head = q.next[i]
	list := q.list(i)
	for k := range wr.SGE {
		putRecv(list, k*wqe.DataSize, &wr.SGE[k])
	}
	endRecv(list, len(wr.SGE)*wqe.DataSize)
	q.ids[i] = wr.ID
	if q.posts != nil {
		q.posts.note(uint64(i), q.noted)
		q.noted++
	}
	q.busy[i].Store(true) // pairs with the CompareAndSwap in take
	q.count++
	return nil
}

// Next returns the index of the entry that the next PostRecv takes, if it does not return an error.
func (q *SRQ) Next() uint16 { return q.head }

// PostRecvList does the same as RQ.PostRecvList.
func (q *SRQ) PostRecvList(wrs []RecvWR) (n int, err error) {
	for i := range wrs {
		err = q.PostRecv(&wrs[i])
		if err != nil {
			q.Ring()
			return i, err
		}
	}
	q.Ring()
	return len(wrs), nil
}

// Ring makes all posted receives visible to the device. It publishes the doorbell record,
// which the device observes, after the entries and their links.
func (q *SRQ) Ring() { q.record.Publish(uint32(q.count)) }

// collect appends the entries that pollers have given back to the free list, in the order in
// which they were given back.
func (q *SRQ) collect() {
	if q.top.Load() == 0 {
		return
	}
	// Reverse the stack: below then leads from the oldest entry to the newest.
	var first uint32
	for at := q.top.Swap(0); at != 0; {
		under := q.below[at-1]
		q.below[at-1] = first
		first, at = at, under
	}
	for at := first; at != 0; at = q.below[at-1] {
		q.link(q.tail, uint16(at-1))
		q.tail = uint16(at - 1)
	}
}

// link makes entry next the successor of entry i.
func (q *SRQ) link(i, next uint16) {
	q.next[i] = next
	wqe.SRQNext{Next: next}.Put((*[wqe.SRQNextSize]byte)(q.ring[uint64(i)*q.stride:]))
}

// list returns the scatter list of entry i.
func (q *SRQ) list(i uint16) []byte {
	off := uint64(i) * q.stride
	return q.ring[off+wqe.SRQNextSize : off+q.stride]
}

// take takes entry i from the device and returns the ID of its receive. It returns false if
// the device did not have the entry. The caller must give the entry back by give. Any poller
// may call take.
func (q *SRQ) take(i uint16) (id uint64, ok bool) {
	if int(i) >= len(q.busy) || !q.busy[i].CompareAndSwap(true, false) {
		return 0, false
	}
	return q.ids[i], true
}

// give returns entry i to the poster, which appends it to the free list. The caller has taken
// the entry by take. Any poller may call give.
func (q *SRQ) give(i uint16) {
	for {
		under := q.top.Load()
		q.below[i] = under
		if q.top.CompareAndSwap(under, uint32(i)+1) {
			return
		}
	}
}
