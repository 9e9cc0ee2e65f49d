package hostpath

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// SQConfig describes the memory of a send queue and the work requests that it may hold.
type SQConfig struct {
	Ring   []byte // blocks of 64 bytes; their number is a power of two up to 32768
	Record []byte // the QP's doorbell record, 8 bytes; the queue writes the second word

	// Register is a UAR register: 512 bytes, whose halves are rung alternately, or one half of 8 to 256
	// bytes. BlueFlame is a UAR register for WQEs, 512 bytes, that no other queue uses: see
	// SQ.publishBlueFlame. Nil means none.
	Register, BlueFlame []byte

	QPN       uint32 // 24 bits
	Transport Transport
	SigAll    bool // every WQE delivers a completion (sq_sig_all)
	Signature bool // the QP was made with wq_signature
	MaxInline int  // largest length of SendWR.Data in bytes; 0: no inline data
	MaxSGE    int  // largest number of SGEs in a work request, at least 1
	Stacks    bool // note where each work request was posted; a post takes a microsecond more
}

// A slot notes which work request begins in a block of the ring.
type slot struct {
	id uint64

	// Bits 0-7 are the number of blocks of the WQE, or 0 if no WQE begins here. Bits 8-15 are its Op.
	// Both numbers are in one word, so that one store writes them.
	note uint16
}

func noted(id uint64, blocks uint64, op Op) slot { return slot{id, uint16(blocks) | uint16(op)<<8} }

func (s slot) blocks() uint64 { return uint64(s.note & 0xff) }
func (s slot) op() Op         { return Op(s.note >> 8) }

// A SendRing is the common part of an SQ and a SharedSQ. It has the memory of the ring, writes
// WQEs into the ring, notifies the device of them, and has the notes that a poller reads.
type SendRing struct {
	// These fields never change after setUp.
	ring      []byte
	slots     []slot // one for each block of the ring
	size      uint64 // blocks
	record    *shm.BE32
	reg       [2]*shm.BE64 // first words of the two halves of the register: see registerWords
	qpn       uint32
	base      wqe.OpWord // the first word of every WQE, with only the QPN filled in
	transport Transport
	short     wqe.Transports // the queue's transport, or none if no WQE may be built in place
	signed    bool           // SQConfig.Signature
	shortMax  int            // largest number of inline bytes in a WQE that is built in place
	maxInline int            // SQConfig.MaxInline
	maxSGE    int            // SQConfig.MaxSGE
	flagTable [8]uint8       // field fm_ce_se, indexed by Flags
	posts     *Posts         // nil without SQConfig.Stacks
	_         [64]byte

	// posted is the count of the first block that is not rung. It has one writer, the caller of
	// publish. Pairs with the Observe in find.
	posted shm.Word64
	half   uint8 // the half of the register to write next; used by the caller of publish
	_      [64]byte

	// freed is the count of the first block that posters may not reuse yet. It has one writer, the
	// poller in release. Pairs with the Observe in reserve.
	freed shm.Word64
	_     [64]byte

	failed atomic.Pointer[FaultError] // the first failure; written by the poller
}

func (q *SendRing) setUp(c SQConfig) error {
	size := uint64(len(c.Ring)) / wqe.BlockSize
	if _, err := ring.Log2("hostpath: send ring of blocks", size, doorbell.MaxRing); err != nil {
		return err
	}
	switch {
	case len(c.Ring)%wqe.BlockSize != 0:
		return fmt.Errorf("hostpath: send ring of %d bytes, not whole blocks of %d", len(c.Ring), wqe.BlockSize)
	case c.Transport > UD:
		return fmt.Errorf("hostpath: transport %d; RC, UC and UD are possible", c.Transport)
	case c.QPN > ring.Mask24:
		return fmt.Errorf("hostpath: QP number 0x%x, more than 24 bits", c.QPN)
	case c.MaxInline < 0 || c.MaxInline > wqe.MaxInline:
		return fmt.Errorf("hostpath: %d bytes of inline data, 0 to %d are possible", c.MaxInline, wqe.MaxInline)
	case c.MaxSGE < 1 || c.MaxSGE >= wqe.MaxUnits:
		return fmt.Errorf("hostpath: %d SGEs per send, 1 to %d are possible", c.MaxSGE, wqe.MaxUnits-1)
	}
	var err error
	q.record, err = recordWord(c.Record, doorbell.SendWord)
	if err != nil {
		return err
	}
	q.reg, err = registerWords(c.Register)
	if err != nil {
		return err
	}
	q.ring, q.slots, q.size = c.Ring, make([]slot, size), size
	q.qpn, q.transport, q.signed = c.QPN, c.Transport, c.Signature
	q.base = wqe.MakeOpWord(0, 0, c.QPN, 0)
	q.shortMax, q.maxInline, q.maxSGE = min(c.MaxInline, wqe.MoveInlineMost), c.MaxInline, c.MaxSGE
	if c.Stacks {
		q.posts = newPosts(size)
	}
	if c.Transport != UD && !c.Signature && !c.Stacks {
		q.short = 1 << c.Transport
	}
	q.flagTable = makeFlags(c.SigAll)
	return nil
}

// publish notifies the device of all WQEs before the count end. last is the count of the block at
// which the last of these WQEs begins. The stores are made in this order:
//
//  1. WQE bytes        plain stores, done before the WQE was committed
//  2. doorbell record  Publish; the device observes it, then reads WQEs up to it
//  3. UAR register     Publish; the device observes it, then reads the record
//
// If store 3 came before store 2, work could be lost: the device would wake, read the old record
// and go idle. Only one goroutine at a time may call publish.
func (q *SendRing) publish(end, last uint64) {
	// The WQE is read before the record is published. After that, the WQE may complete and
	// another poster may overwrite it.
	first := doorbell.ParseRing((*[doorbell.RingSize]byte)(q.block(last)[:]))
	q.posted.Publish(end)
	q.record.Publish(uint32(uint16(end)))
	if r := q.reg[q.half]; r != nil {
		q.half ^= 1
		r.Publish(uint64(first))
	}
}

// lastWQE returns the count of the block at which the last WQE before the count end begins.
func (q *SendRing) lastWQE(end uint64) uint64 {
	for {
		end--
		if q.slots[end&(q.size-1)].note != 0 {
			return end
		}
	}
}

// clear empties the ring. No post, ring or poll may run at the same time.
func (q *SendRing) clear() {
	q.posted.Publish(0)
	q.freed.Publish(0)
	q.record.Publish(0)
	q.failed.Store(nil)
}

// Size returns how many blocks of 64 bytes the ring has.
func (q *SendRing) Size() int { return int(q.size) }

// QPN returns the number of the QP.
func (q *SendRing) QPN() uint32 { return q.qpn }

// Done returns the count of the first block whose work is not complete. It does not include
// completions that have not been polled from the queue's CQ.
func (q *SendRing) Done() uint64 { return q.freed.Observe() }

// Failed returns the error of the first work request that failed, or nil if no work request
// has failed. It does not include completions that have not been polled from the queue's CQ.
func (q *SendRing) Failed() *FaultError { return q.failed.Load() }

// fail notes the first failure. Only the poller calls it.
func (q *SendRing) fail(c *Completion) {
	var e *FaultError
	if q.failed.Load() == nil && errors.As(c.Err(), &e) {
		q.failed.Store(e)
	}
}

// stack returns where the work request at count was posted, or nil if that is not known. Only the poller
// calls it.
func (q *SendRing) stack(count uint64) []string {
	return q.posts.stack(count).Lines()
}

// block returns the block with the given count.
func (q *SendRing) block(count uint64) *[wqe.BlockSize]byte {
	off := count & (q.size - 1) * wqe.BlockSize
	return (*[wqe.BlockSize]byte)(q.ring[off : off+wqe.BlockSize])
}

// find returns the work request whose WQE begins at wqe_counter, and the count of that block.
// ok is false if no work request that is posted and not yet completed begins there. Only the
// poller calls find.
func (q *SendRing) find(counter uint16) (count uint64, s slot, ok bool) {
	count = ring.Extend(q.freed.Observe(), counter)
	if count >= q.posted.Observe() {
		return 0, slot{}, false
	}
	s = q.slots[count&(q.size-1)]
	return count, s, s.note != 0
}

// release frees the WQE at count and all earlier WQEs. Only the poller calls release. It does
// not read the slots of these WQEs afterwards.
func (q *SendRing) release(count uint64, s slot) { q.freed.Publish(count + s.blocks()) }
