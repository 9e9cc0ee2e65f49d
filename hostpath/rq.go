package hostpath

import (
	"fmt"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// RQConfig describes the memory of a receive queue.
type RQConfig struct {
	Ring   []byte // entries of Stride bytes; their number is a power of two up to 32768
	Stride int    // size of an entry in bytes: 16 for each SGE that the entry may have; a power of two
	Record []byte // the QP's doorbell record, 8 bytes; the queue writes the first word
	Stacks bool   // note where each receive was posted; a post takes a microsecond more
}

// An RQ is a receive queue without signatures. One goroutine at a time may
// call its methods, while another goroutine polls its CQ.
type RQ struct {
	// These fields never change after NewRQ.
	ring   []byte
	ids    []uint64
	size   uint64 // entries
	stride uint64
	record *shm.BE32
	posts  *Posts // nil without RQConfig.Stacks
	_      [64]byte

	// These fields belong to the poster.
	next uint64 // count of the next entry to post to
	seen uint64 // value of freed when the poster last observed it
	_    [64]byte

	posted shm.Word64 // one writer: the poster in Ring. Pairs with the Observe in find.
	_      [64]byte

	freed shm.Word64 // one writer: the poller in release. Pairs with the Observe in PostRecv.
	_     [64]byte
}

// NewRQ returns a receive queue whose counts are 0, like those of a QP that was just made or
// reset.
func NewRQ(c RQConfig) (*RQ, error) {
	size, err := entries("receive ring", c.Ring, c.Stride, wqe.DataSize)
	if err != nil {
		return nil, err
	}
	record, err := recordWord(c.Record, doorbell.RecvWord)
	if err != nil {
		return nil, err
	}
	q := &RQ{
		ring: c.Ring, ids: make([]uint64, size), size: size, stride: uint64(c.Stride), record: record,
	}
	if c.Stacks {
		q.posts = newPosts(size)
	}
	return q, nil
}

// entries returns how many entries of stride bytes a ring has.
func entries(what string, b []byte, stride, least int) (uint64, error) {
	if stride < least || stride&(stride-1) != 0 || len(b)%stride != 0 {
		return 0, fmt.Errorf("hostpath: %s of %d bytes in entries of %d; a power of two from %d is possible", what, len(b), stride, least)
	}
	size := uint64(len(b) / stride)
	_, err := ring.Log2("hostpath: "+what+" of entries", size, doorbell.MaxRing)
	return size, err
}

// MaxSGE returns how many SGEs a receive may have.
func (q *RQ) MaxSGE() int { return int(q.stride / wqe.DataSize) }

// PostRecv writes the receive wr into the ring. The next Ring announces the receive to the
// device. PostRecv returns ErrFull while the ring is full, and another error if the list of
// wr does not fit into an entry. After an error the queue is unchanged.
func (q *RQ) PostRecv(wr *RecvWR) error {
	if err := checkRecv(wr, q.MaxSGE()); err != nil {
		return err
	}
	if q.next-q.seen >= q.size {
		q.seen = q.freed.Observe()
		if q.next-q.seen >= q.size {
			return ErrFull
		}
	}
	list := q.entry(q.next)
	at := 0
	for i := range wr.SGE {
		if s := &wr.SGE[i]; s.Length != 0 {
			putRecv(list, at, s)
			at += wqe.DataSize
		}
	}
	endRecv(list, at)
	q.ids[q.next&(q.size-1)] = wr.ID
	if q.posts != nil {
		q.posts.note(q.next, q.next)
	}
	q.next++
	return nil
}

// PostRecvList posts the receives in order and rings once. On an error it returns how many
// receives were posted, and why the next one was refused. The posted receives have been
// rung.
func (q *RQ) PostRecvList(wrs []RecvWR) (n int, err error) {
	for n < len(wrs) {
		if k := q.layRun(wrs[n:]); k > 0 {
			n += k
			continue
		}
		if err = q.PostRecv(&wrs[n]); err != nil {
			break
		}
		n++
	}
	q.Ring()
	return n, err
}

// Ring makes all posted receives visible to the device. It publishes the doorbell record,
// which the device observes, after the entries. There is no register to ring.
func (q *RQ) Ring() {
	q.posted.Publish(q.next)
	q.record.Publish(uint32(uint16(q.next)))
}

// Free returns how many receives can be posted now. The result can be too low, but never too
// high.
func (q *RQ) Free() int {
	q.seen = q.freed.Observe()
	return int(q.seen + q.size - q.next)
}

// Reset sets counts and record to 0, as for a QP that went through RST. No post, ring or
// poll may run at the same time.
func (q *RQ) Reset() {
	q.next, q.seen = 0, 0
	q.posted.Publish(0)
	q.freed.Publish(0)
	q.record.Publish(0)
}

func (q *RQ) entry(count uint64) []byte {
	off := count & (q.size - 1) * q.stride
	return q.ring[off : off+q.stride]
}

// find returns the count and the ID of the receive that wqe_counter names, if that receive
// is posted and not yet completed. Only the poller calls it.
func (q *RQ) find(counter uint16) (count, id uint64, ok bool) {
	count = ring.Extend(q.freed.Observe(), counter)
	if count >= q.posted.Observe() {
		return 0, 0, false
	}
	return count, q.ids[count&(q.size-1)], true
}

// release frees the receive at count and all earlier receives. Only the poller calls it.
func (q *RQ) release(count uint64) { q.freed.Publish(count + 1) }

// checkRecv checks the scatter list of wr.
func checkRecv(wr *RecvWR, limit int) error {
	if len(wr.SGE) > limit {
		return fmt.Errorf("nicless: %d SGEs in a receive, at most %d (QPConfig.MaxRecvSGE, SRQConfig.MaxSGE)", len(wr.SGE), limit)
	}
	for i := range wr.SGE {
		if n := wr.SGE[i].Length; n > maxLength {
			return fmt.Errorf("nicless: SGE %d of %d bytes, at most %d", i, n, uint32(maxLength))
		}
	}
	return nil
}

// putRecv writes one pointer of a scatter list.
func putRecv(list []byte, at int, s *SGE) {
	wqe.Data{
		ByteCount: s.Length &^ wqe.InlineFlag, LKey: s.LKey, Addr: s.Addr,
	}.Put((*[wqe.DataSize]byte)(list[at:]))
}

// endRecv writes the end mark of a scatter list that does not fill its entry. Bytes after
// the end mark are stale.
func endRecv(list []byte, at int) {
	if at < len(list) {
		wqe.Data{LKey: wqe.KeyEnd}.Put((*[wqe.DataSize]byte)(list[at:]))
	}
}
