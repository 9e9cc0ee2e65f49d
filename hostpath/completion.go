package hostpath

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
)

// maxCQ is the most entries that a CQ may have: half of the number of values that a
// consumer index of 24 bits can have.
const maxCQ = 1 << 23

// CQConfig describes the memory and the properties of a completion queue.
type CQConfig struct {
	Ring      []byte // the entries: a power of two up to 1<<23, at an address that is a multiple of 64
	EntrySize int    // 64 or 128 bytes
	Record    []byte // the doorbell record, 8 bytes: the consumer index, then the arm word
	Register  []byte // the 8 bytes at offset 0x20 of the CQ's UAR page, which arm it; nil: it is never armed
	CQN       uint32 // 24 bits
	Collapsed bool   // the device writes every entry over entry 0 (cc); Poll then reports the newest
	Table     *Table // the QPs whose completions are written to this queue

	// Compressed says that the device may compress completions (cqe_comp_en).
	// MiniFormat says what the minis of receives contain (mini_cqe_res_format); see
	// cqe.Mini. A compressed queue has entries of 64 bytes and is not collapsed.
	Compressed bool
	MiniFormat cqe.MiniFormat

	// Memory returns the n bytes at addr, an address that was posted in an SGE with
	// key lkey, or nil if there is no such memory. It is called only for CQEs with inline
	// data ("scatter to CQE"). If Memory is nil, such CQEs become errors.
	Memory func(lkey uint32, addr uint64, n int) []byte
}

// A Completion is the outcome of one work request. It is a copy, which does not change
// when the queue advances.
type Completion struct {
	cqe.WC           // the contents of the CQE, as verbs reports them
	ID        uint64 // the ID of the work request
	Timestamp uint64 // ticks of the device clock; 0 on errors
}

// String returns, for instance, "id 7: RDMA_WRITE SUCCESS, QP 0x000abc". It adds the byte
// count and the immediate of operations that have them, and the cause of a failure.
func (c Completion) String() string {
	if err := c.Err(); err != nil {
		return err.Error() // which has the ID too
	}
	s := fmt.Sprintf("id %d: %v %v, QP %#06x", c.ID, c.Opcode, c.Status, c.QPN)
	if c.HasByteLen() {
		s += fmt.Sprintf(", %d bytes", c.ByteLen)
	}
	switch {
	case c.Flags&cqe.WCWithImm != 0:
		s += fmt.Sprintf(", immediate %#08x", c.Imm)
	case c.Flags&cqe.WCWithInv != 0:
		s += fmt.Sprintf(", rkey %#08x invalidated", c.Imm)
	}
	return s
}

// Err returns nil, or a *cqe.WorkError that says why the work request failed.
func (c *Completion) Err() error { return c.WC.Err(c.ID) }

// A CQ is a completion queue. Only one goroutine at a time may call its methods, except
// where a method says otherwise. That goroutine is the poller of the queues of all QPs that
// use the CQ.
type CQ struct {
	ring    []byte
	blocks  []shm.Block // the same memory
	log     uint
	shift   uint // log2 of the entry size, 6 or 7
	ciWord  *shm.BE32
	armWord *shm.BE32
	armReg  *shm.BE64
	cqn     uint32
	table   *Table
	memory  func(lkey uint32, addr uint64, n int) []byte

	ci      uint64   // count of the next entry to poll
	like    template // of the last run
	stale   uint64
	bad     uint64
	orphans atomic.Pointer[orphan]
	polling atomic.Bool // a goroutine is polling, in TryPoll
	armSN   atomic.Uint32

	compressed bool
	mini       cqe.MiniFormat

	// These are for a collapsed queue only.
	collapsed bool
	newest    cqe.Tail // the tail of the entry that was reported last
	at        uint32   // the user index of that entry's QP
}

// NewCQ returns an empty completion queue. It fills the entries as libmlx5 does (op_own
// 0xf0). Call it before the device has the ring.
func NewCQ(c CQConfig) (*CQ, error) {
	if c.EntrySize != cqe.Size && c.EntrySize != cqe.Size128 {
		return nil, fmt.Errorf("hostpath: CQEs of %d bytes; %d and %d are possible", c.EntrySize, cqe.Size, cqe.Size128)
	}
	log, err := ring.Log2("hostpath: completion ring of entries", uint64(len(c.Ring)/c.EntrySize), maxCQ)
	if err != nil {
		return nil, err
	}
	switch {
	case len(c.Ring)%c.EntrySize != 0:
		return nil, fmt.Errorf("hostpath: completion ring of %d bytes, not whole entries of %d", len(c.Ring), c.EntrySize)
	case c.Table == nil:
		return nil, errors.New("hostpath: CQ without a table of QPs")
	case c.Compressed && (c.EntrySize != cqe.Size || c.Collapsed):
		return nil, fmt.Errorf("hostpath: compressed CQEs of %d bytes, collapsed %t; 64 bytes, not collapsed, are possible", c.EntrySize, c.Collapsed)
	case c.MiniFormat > cqe.MiniHeadersStride:
		return nil, fmt.Errorf("hostpath: format %d of compressed CQEs; 0 to %d are possible", c.MiniFormat, cqe.MiniHeadersStride)
	case c.CQN > ring.Mask24:
		return nil, fmt.Errorf("hostpath: CQ number 0x%x, more than 24 bits", c.CQN)
	}
	if err := checkMemory("completion ring", c.Ring, c.EntrySize, cqe.Size); err != nil {
		return nil, err
	}
	if err := checkMemory("doorbell record", c.Record, doorbell.RecordSize, 4); err != nil {
		return nil, err
	}
	register, err := halves(c.Register)
	if err != nil {
		return nil, err
	}
	q := &CQ{
		ring: c.Ring, blocks: shm.Blocks(c.Ring), log: log, shift: 6, armReg: register[0],
		ciWord: shm.BE32At(c.Record, 4*doorbell.CIWord), armWord: shm.BE32At(c.Record, 4*doorbell.ArmWord),
		cqn: c.CQN, like: template{tail: ^cqe.Tail(0)}, table: c.Table, memory: c.Memory,
		collapsed: c.Collapsed, compressed: c.Compressed, mini: c.MiniFormat,
	}
	if c.EntrySize == cqe.Size128 {
		q.shift = 7
	}
	q.fill()
	return q, nil
}

// CQN returns the number of the queue.
func (q *CQ) CQN() uint32 { return q.cqn }

// Poll takes completions off the queue until dst is full or there are no more, and returns
// how many it took. The blocks and entries of the completed work requests can be posted to
// again.
//
// Poll skips CQEs of QPs that are no longer in the table and CQEs that make no sense: see
// Skipped.
//
// For a collapsed queue, Poll returns the newest completion, or none if that completion was
// returned before: see CQConfig.
func (q *CQ) Poll(dst []Completion) (n int) {
	if q.collapsed {
		return q.pollCollapsed(dst)
	}
	from := q.ci
	for n < len(dst) {
		e := q.entry(q.ci)
		// Pairs with the device's Publish of the entry. The rest of the entry is read after it.
		tail := cqe.Tail(e.ObserveTail())
		o := tail.OpOwn()
		if !cqe.Valid(o, q.ci, q.log) {
			break
		}
		if o.PlainReq() || o.PlainRespSend() {
			left := uint64(1)<<q.log - (q.ci - from)
			if k := q.takeRun(dst[n:min(uint64(len(dst)), uint64(n)+left)], e, tail); k > 0 {
				n += k
				if q.ci-from == 1<<q.log {
					break
				}
				continue
			}
		} else if q.title(o) {
			o = q.expand(q.ci, o)
		}
		c := &dst[n]
		c.Parse((*[cqe.Size]byte)(e))
		if q.resolve(c, o, e) {
			n++
		}
		q.ci++
		if q.ci-from == 1<<q.log {
			break // one lap: a device that ignores the consumer index must not keep the poller in this loop
		}
	}
	if q.ci != from {
		// Pairs with the device's Observe before it writes an entry of the next lap.
		q.ciWord.Publish(uint32(q.ci) & doorbell.CIMask)
	} else if o := q.orphans.Load(); o != nil &&
		!cqe.Valid(cqe.OpOwn(q.entry(q.ci).ObserveTail()), q.ci, q.log) {
		q.dropOrphans(o)
	}
	return n
}

// TryPoll is Poll for pollers that share the queue. Any number of goroutines may call it.
// While one of them polls, TryPoll returns 0 and false to the others at once. All of them
// can query SendRing.Done for what is complete.
func (q *CQ) TryPoll(dst []Completion) (n int, ok bool) {
	if !q.polling.CompareAndSwap(false, true) {
		return 0, false
	}
	n = q.Poll(dst)
	q.polling.Store(false)
	return n, true
}

// exclude prevents callers of TryPoll from polling until done is called.
func (q *CQ) exclude() (done func()) {
	for !q.polling.CompareAndSwap(false, true) {
		cpu.Yield()
	}
	return func() { q.polling.Store(false) }
}

// Index returns how many entries have been taken off the queue since it was made. A Resize
// counts as one entry. When no entry is left to poll, a WaitCQ waits for n more completions
// if its SendWR.Index is the result of this method plus n. Index wraps.
func (q *CQ) Index() uint32 { return uint32(q.ci) }

// Arm requests one event. The device sends the event when there is an entry that has not been
// polled. If solicited is true, only a solicited entry or an error causes the event. Another
// Arm before that event repeats the same request. Arm writes the record before the register,
// because the device acts on the register. Poll once more between arming and waiting: the
// device may or may not send the event for an entry that arrived just before Arm.
func (q *CQ) Arm(solicited bool) {
	a := doorbell.Arm{SN: uint8(q.armSN.Load()), Solicited: solicited, CI: uint32(q.ci)}
	q.armWord.Publish(a.Word())
	if q.armReg != nil {
		q.armReg.Publish(uint64(doorbell.MakeArmRegister(a, q.cqn)))
	}
}

// EventSeen counts an event of this CQ. Call it for every event: otherwise the next Arm
// repeats the request that the event has already answered. EventSeen is safe for concurrent
// use.
func (q *CQ) EventSeen() { q.armSN.Add(1) }

// Skipped returns how many CQEs Poll has skipped. Stale CQEs belong to QPs that no longer
// exist. Bad CQEs name work that was not posted, or are of a kind that this queue does not
// have. Only a broken device writes bad CQEs.
func (q *CQ) Skipped() (stale, bad uint64) { return q.stale, q.bad }

// entry returns the 64 bytes of the CQE with the given count: the whole entry or, in entries
// of 128 bytes, the second half.
func (q *CQ) entry(count uint64) *shm.Block {
	return &q.blocks[cqe.EntryOffset(cqe.Slot(count, q.log), q.shift)/cqe.Size]
}

// slot returns all bytes of the entry with the given count.
func (q *CQ) slot(count uint64) []byte {
	off := cqe.Slot(count, q.log) << q.shift
	return q.ring[off : off+1<<q.shift]
}
