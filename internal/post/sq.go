package post

import (
	"errors"
	"fmt"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// ErrFull reports that a queue has no room for a work request until
// completions have been polled. The queue is as it was before the call.
var ErrFull = errors.New("post: queue is full")

// SQConfig says where a send queue lies and what it may hold.
type SQConfig struct {
	Ring      []byte       // whole blocks of 64 bytes, a power of two up to 32768
	Record    *shm.BE32    // the send word of the QP's doorbell record
	Reg       [2]*shm.BE64 // the halves of a register, rung in turn; nil: none, the same twice: no turns
	QPN       uint32       // 24 bits
	Transport Transport
	SigAll    bool // every WQE delivers a completion (sq_sig_all)
	Signature bool // the QP was made with wq_signature
	MaxInline int  // bytes of Data in a work request; 0: none may be inline
	MaxSGE    int  // entries of SGE in a work request, at least 1
}

// A slot notes which work request begins in a block of the ring.
type slot struct {
	id     uint64
	blocks uint8 // 0 where no WQE begins
	op     Op
}

// An SQ is a send queue. One goroutine at a time may call its methods, while
// another polls its CQ.
type SQ struct {
	// Never changed after NewSQ.
	ring      []byte
	slots     []slot
	size      uint64 // blocks
	record    *shm.BE32
	reg       [2]*shm.BE64
	qpn       uint32
	transport Transport
	short     uint8    // 1<<transport where WQEs may be built in place
	signed    bool     //
	shortMax  int      // inline bytes that may be built in place
	maxInline int      //
	maxSGE    int      //
	ctrl      [8]uint8 // fm_ce_se by Flags
	_         [64]byte

	// The poster's.
	next  uint64 // count of the first block not reserved
	seen  uint64 // freed, as it was last looked at
	last  uint64 // count of the last WQE's first block
	rung  uint64 // next, when the doorbell was last rung
	half  uint8  // of the register, to be written next
	fence uint8  // what the next WQE must wait for
	_     [64]byte

	posted shm.Word64 // one writer: the poster in Ring. Pairs with the Observe in find.
	_      [64]byte

	freed shm.Word64 // one writer: the poller in release. Pairs with the Observe in reserve.
	_     [64]byte
}

// NewSQ returns a send queue whose WQEs have indices from 0 on, as a QP has
// that was just made or reset.
func NewSQ(c SQConfig) (*SQ, error) {
	size := uint64(len(c.Ring)) / wqe.BlockSize
	if _, err := ring.Log2("post: send ring of blocks", size, doorbell.MaxRing); err != nil {
		return nil, err
	}
	switch {
	case len(c.Ring)%wqe.BlockSize != 0:
		return nil, fmt.Errorf("post: send ring of %d bytes, not whole blocks of %d", len(c.Ring), wqe.BlockSize)
	case c.Record == nil:
		return nil, errors.New("post: send queue without a doorbell record")
	case c.Transport > UD:
		return nil, fmt.Errorf("post: transport %d; RC, UC and UD are possible", c.Transport)
	case c.QPN > ring.Mask24:
		return nil, fmt.Errorf("post: QP number 0x%x, more than 24 bits", c.QPN)
	case c.MaxInline < 0 || c.MaxInline > wqe.MaxInline:
		return nil, fmt.Errorf("post: %d bytes of inline data, 0 to %d are possible", c.MaxInline, wqe.MaxInline)
	case c.MaxSGE < 1 || c.MaxSGE >= wqe.MaxUnits:
		return nil, fmt.Errorf("post: %d SGEs per send, 1 to %d are possible", c.MaxSGE, wqe.MaxUnits-1)
	}
	q := &SQ{
		ring: c.Ring, slots: make([]slot, size), size: size, record: c.Record, reg: c.Reg, qpn: c.QPN,
		transport: c.Transport, signed: c.Signature, shortMax: min(c.MaxInline, shortInline), maxInline: c.MaxInline, maxSGE: c.MaxSGE,
	}
	if q.reg[1] == nil {
		q.reg[1] = q.reg[0]
	}
	if c.Transport != UD && !c.Signature {
		q.short = 1 << c.Transport
	}
	for f := range q.ctrl {
		if Flags(f)&Fence != 0 {
			q.ctrl[f] |= wqe.FenceVerbs
		}
		if Flags(f)&Signaled != 0 || c.SigAll {
			q.ctrl[f] |= wqe.CEAlways
		}
		if Flags(f)&Solicited != 0 {
			q.ctrl[f] |= wqe.FlagSolicited
		}
	}
	return q, nil
}

// Post writes the WQE of wr into the ring; the device learns of it by the next
// Ring. A work request that is refused changes nothing: ErrFull until enough
// completions have been polled, any other error for ever.
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
	if f == pointer {
		q.layPointer(count, wr, op, q.fence)
	} else {
		q.layInline(count, wr, op, q.fence)
	}
	q.last, q.next, q.fence = count, count+1, 0
	return nil
}

// postLong is Post of what is not built in place.
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
	q.layLong(count, n, wr, op, q.fence)
	q.last, q.next, q.fence = count, count+n, op.leaves
	return nil
}

// PostList posts the work requests in order and rings once for all of them. On
// an error it returns how many were posted, which have been rung, and why the
// next one was refused.
func (q *SQ) PostList(wrs []SendWR) (n int, err error) {
	for n = range wrs {
		if err = q.Post(&wrs[n]); err != nil {
			q.Ring()
			return n, err
		}
	}
	q.Ring()
	return len(wrs), nil
}

// Ring makes everything posted visible to the device. Three steps, this order:
//
//  1. WQE bytes        plain stores, done before Post returned
//  2. doorbell record  Publish; the device observes it, then reads WQEs up to it
//  3. UAR register     Publish; the device observes it, then reads the record
//
// With 3 before 2 work could be lost: the device would wake, read the old
// record and go idle. Ring does nothing if nothing was posted since the last.
func (q *SQ) Ring() {
	if q.rung == q.next {
		return
	}
	q.rung = q.next
	q.posted.Publish(q.next)
	q.record.Publish(uint32(uint16(q.next)))
	if r := q.reg[q.half]; r != nil {
		q.half ^= 1
		first := (*[doorbell.RingSize]byte)(q.block(q.last)[:])
		r.Publish(uint64(doorbell.ParseRing(first)))
	}
}

// Free returns how many blocks of 64 bytes can be posted to now, at least.
func (q *SQ) Free() int {
	q.seen = q.freed.Observe()
	return int(q.seen + q.size - q.next)
}

// Index returns the count of blocks posted, rung or not: what a SendEnable of
// another queue lets this one execute up to. It wraps.
func (q *SQ) Index() uint32 { return uint32(q.next) }

// QPN returns the number of the QP.
func (q *SQ) QPN() uint32 { return q.qpn }

// Reset begins again at index 0 and with a record of 0, as a QP does that went
// through RST. Nobody may post, ring or poll meanwhile.
func (q *SQ) Reset() {
	q.next, q.seen, q.last, q.rung, q.fence = 0, 0, 0, 0, 0
	q.posted.Publish(0)
	q.freed.Publish(0)
	q.record.Publish(0)
}

// reserve hands out n blocks, at most the whole ring, and returns the count of
// the first; false, reserving nothing, while fewer are free.
func (q *SQ) reserve(n uint64) (count uint64, ok bool) {
	if q.next+n-q.seen > q.size {
		// The poller's line is only touched when the ring looks full.
		q.seen = q.freed.Observe()
		if q.next+n-q.seen > q.size {
			return 0, false
		}
	}
	return q.next, true
}

// block returns the block of a count.
func (q *SQ) block(count uint64) *[wqe.BlockSize]byte {
	off := count & (q.size - 1) * wqe.BlockSize
	return (*[wqe.BlockSize]byte)(q.ring[off : off+wqe.BlockSize])
}

// find returns the work request whose WQE begins at wqe_counter, if one is
// posted and not yet completed. The poller's.
func (q *SQ) find(counter uint16) (count uint64, s slot, ok bool) {
	count = ring.Extend(q.freed.Observe(), counter)
	if count >= q.posted.Observe() {
		return 0, slot{}, false
	}
	s = q.slots[count&(q.size-1)]
	return count, s, s.blocks != 0
}

// release frees the WQE at count and all before it. The poller's; the slots
// must not be read afterwards.
func (q *SQ) release(count uint64, s slot) { q.freed.Publish(count + uint64(s.blocks)) }
