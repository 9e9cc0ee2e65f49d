package hostpath

import (
	"errors"
	"sync/atomic"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// SRQConfig says where a shared receive queue lies.
type SRQConfig struct {
	Ring   []byte // entries of Stride bytes, a power of two from 2 to 32768
	Stride int    // bytes of an entry: 16, and 16 for each SGE that it may have; a power of two from 32
	Record []byte // the doorbell record, 4 bytes
}

// An SRQ is a receive queue that several QPs share. Its entries complete in
// any order, so the free ones form a list: the poster takes entries from its
// head, those that completed are appended at its tail. The last free entry is
// never used, so that the list never runs empty.
//
// One goroutine at a time may call its methods, while any number of others
// poll the CQs of its QPs.
type SRQ struct {
	ring   []byte
	ids    []uint64
	next   []uint16 // the links, as in the ring; the poster's
	stride uint64
	record *shm.BE32
	head   uint16 // the entry to post next
	tail   uint16 // the last free entry
	count  uint16 // posted
	_      [64]byte

	// Entries given back by pollers, last first: top is the index of one plus
	// 1, and below[i] the value that top had before i was pushed. The poster
	// takes the whole stack at once, so an index cannot return under a push.
	top   atomic.Uint32
	below []uint32
	busy  []atomic.Bool // with the device
}

// NewSRQ returns an empty shared receive queue and writes the links between
// its entries, entry i to i+1.
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
		ring: c.Ring, ids: make([]uint64, size), next: make([]uint16, size), stride: uint64(c.Stride), record: record,
		tail: uint16(size - 1), below: make([]uint32, size), busy: make([]atomic.Bool, size),
	}
	for i := range uint16(size - 1) {
		q.link(i, i+1)
	}
	return q, nil
}

// MaxSGE returns how many entries of SGE a receive may have.
func (q *SRQ) MaxSGE() int { return int(q.stride/wqe.DataSize) - 1 }

// PostRecv writes wr into the entry at the head of the free list; the device
// learns of it by the next Ring. It returns ErrFull until enough receives have
// completed, or another error for a list that does not fit; either way nothing
// has been posted. Unlike an RQ, and as libmlx5 does, it writes SGEs of length
// 0, which the format reads as 1<<31 bytes.
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
	q.busy[i].Store(true) // pairs with the CompareAndSwap in take
	q.count++
	return nil
}

// PostRecvList is RQ.PostRecvList.
func (q *SRQ) PostRecvList(wrs []RecvWR) (n int, err error) {
	for n = range wrs {
		if err = q.PostRecv(&wrs[n]); err != nil {
			q.Ring()
			return n, err
		}
	}
	q.Ring()
	return len(wrs), nil
}

// Ring makes everything posted visible to the device: the entries and their
// links, then the doorbell record, which the device observes.
func (q *SRQ) Ring() { q.record.Publish(uint32(q.count)) }

// collect appends the entries that pollers gave back, in the order in which
// they did.
func (q *SRQ) collect() {
	if q.top.Load() == 0 {
		return
	}
	// Turn the stack around: below becomes the way from the first to the last.
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

// link makes entry i be followed by entry next.
func (q *SRQ) link(i, next uint16) {
	q.next[i] = next
	wqe.SRQNext{Next: next}.Put((*[wqe.SRQNextSize]byte)(q.ring[uint64(i)*q.stride:]))
}

// list returns the scatter list of entry i.
func (q *SRQ) list(i uint16) []byte {
	off := uint64(i) * q.stride
	return q.ring[off+wqe.SRQNextSize : off+q.stride]
}

// take returns the ID of entry i, if the device had it, and claims the entry for
// the caller, which then gives it back. Any poller may call it.
func (q *SRQ) take(i uint16) (id uint64, ok bool) {
	if int(i) >= len(q.busy) || !q.busy[i].CompareAndSwap(true, false) {
		return 0, false
	}
	return q.ids[i], true
}

// give appends entry i, which the caller took, to the free list. Any poller may
// call it.
func (q *SRQ) give(i uint16) {
	for {
		under := q.top.Load()
		q.below[i] = under
		if q.top.CompareAndSwap(under, uint32(i)+1) {
			return
		}
	}
}
