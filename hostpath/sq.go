package hostpath

import (
	"errors"

	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// ErrFull reports that a queue has no room for a work request until completions have been
// polled. The call has not changed the queue.
var ErrFull = errors.New("nicless: queue is full until completions are polled")

// An SQ is a send queue with one poster. One goroutine at a time may call its methods, while
// another goroutine polls its CQ.
type SQ struct {
	SendRing

	next      uint64        // count of the first block that is not reserved
	seen      uint64        // value of freed when the poster last observed it
	rung      uint64        // value of next when the poster last rang the doorbell
	nextFence uint8         // the fence that the next WQE needs because of the WQE before it, or 0
	fetched   uint64        // layRun has prefetched the blocks before this count
	prefetch  uint64        // Ring prefetches blocks if next has none of these bits
	blueFlame [2]*shm.Block // the halves of the BlueFlame register; nil: the queue has none
	_         [64]byte
}

// ahead is the number of blocks that Ring prefetches at a time. A Ring that announces single
// blocks prefetches once in ahead blocks: not the next ahead blocks, but the ahead blocks after
// them. The blocks were used a lap ago and are in the cache of the device. Without the prefetch,
// the stores to such a block wait for the block, and all later stores wait for these stores, also
// the stores to the record. In a short ring the device could be about to read the prefetched
// blocks. While no other WQE is in flight, the prefetch would only disturb the device at the one
// WQE that it executes.
const ahead = 4

// NewSQ returns a send queue. The indices of its WQEs begin at 0, as for a QP that was just
// made or reset.
func NewSQ(c SQConfig) (*SQ, error) {
	q := new(SQ)
	if err := q.setUp(c); err != nil {
		return nil, err
	}
	var err error
	q.blueFlame, err = blueFlame(c.BlueFlame)
	if err != nil {
		return nil, err
	}
	q.clearBlueFlame()
	q.prefetch = 1<<64 - 1
	if cpu.CanPrefetchWrite && q.size >= 4*ahead {
		q.prefetch = ahead - 1
	}
	return q, nil
}

// Post writes the WQE of wr into the ring. The next Ring announces the WQE to the device.
// After an error the queue is unchanged. The error is ErrFull until enough completions have
// been polled. Any other error is permanent.
func (q *SQ) Post(wr *SendWR) error {
	if wr.Op >= numOps || wr.Flags > allFlags {
		return q.refuse(wr)
	}
	op := &ops[wr.Op]
	f := q.form(wr, op)
	if f == long {
		return q.postLong(wr, op)
	}
	count, ok := q.reserve(1)
	if !ok {
		return ErrFull
	}
	switch f {
	case pointer:
		q.layPointer(count, wr, op, q.nextFence)
	case inline:
		q.layInline(count, wr, op, q.nextFence)
	default:
		q.layAtomic(count, wr, op, q.nextFence)
	}
	q.next = count + 1
	if q.nextFence != 0 {
		q.nextFence = 0
	}
	return nil
}

// postLong is Post of a work request that is not built in place.
func (q *SQ) postLong(wr *SendWR, op *opInfo) error {
	units, err := q.check(wr, op)
	if err != nil {
		return err
	}
	n := blocks(units)
	count, ok := q.reserve(n)
	if !ok {
		return ErrFull
	}
	q.layLong(count, n, wr, op, q.nextFence)
	q.next, q.nextFence = count+n, op.nextFence
	return nil
}

// PostList posts the work requests in order and rings once for all of them. On an error it
// returns how many requests it posted, and why it refused the next one. The posted requests
// have been rung.
func (q *SQ) PostList(wrs []SendWR) (n int, err error) {
	for n < len(wrs) {
		if len(wrs)-n >= leastRun {
			if k := q.layRun(wrs[n:]); k > 0 {
				n += k
				continue
			}
		}
		if err = q.Post(&wrs[n]); err != nil {
			break
		}
		n++
	}
	q.Ring()
	return n, err
}

// Ring makes all posted WQEs visible to the device. It has no effect if no WQE was posted
// since the last Ring.
func (q *SQ) Ring() {
	if q.rung == q.next {
		return
	}
	from := q.rung
	q.rung = q.next
	if q.blueFlame[0] != nil {
		q.publishBlueFlame(from)
		return
	}
	q.publish(q.next, q.lastWQE(q.next))
	if q.next&q.prefetch == 0 && q.next-from == 1 && q.freed.Observe() != from {
		at := (q.next + ahead) & (q.size - 1) * wqe.BlockSize
		cpu.PrefetchWrite((*[ahead * wqe.BlockSize]byte)(q.ring[at:]))
	}
}

// Free returns how many blocks of 64 bytes can be posted to now. The result can be too low,
// but never too high.
func (q *SQ) Free() int {
	q.seen = q.freed.Observe()
	return int(q.seen + q.size - q.next)
}

// Index returns how many blocks have been posted to, whether rung or not. A SendEnable on
// another queue with this index lets this queue execute all of them. Index wraps.
func (q *SQ) Index() uint32 { return uint32(q.next) }

// Reset sets index and record to 0, as for a QP that went through RST. No post, ring or poll
// may run at the same time.
func (q *SQ) Reset() {
	q.next, q.seen, q.rung, q.nextFence, q.fetched = 0, 0, 0, 0, 0
	q.clear()
	q.clearBlueFlame()
}

// reserve finds room for n blocks, at most the whole ring, and returns the count of the
// first. It returns false while fewer than n blocks are free.
func (q *SQ) reserve(n uint64) (count uint64, ok bool) {
	if q.next+n-q.seen > q.size {
		// The poller's cache line is read only when the ring looks full.
		q.seen = q.freed.Observe()
		if q.next+n-q.seen > q.size {
			return 0, false
		}
	}
	return q.next, true
}
