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

// maxCQ is the most entries that a CQ may have: half of the values of a consumer
// index of 24 bits.
const maxCQ = 1 << 23

// CQConfig says where a completion queue lies.
type CQConfig struct {
	Ring      []byte // entries, a power of two up to 1<<23, on a multiple of 64 bytes
	EntrySize int    // 64 or 128 bytes
	Record    []byte // the doorbell record, 8 bytes: the consumer index, then the arm word
	Register  []byte // the 8 bytes at offset 0x20 of the CQ's UAR page, which arm it; nil: it is never armed
	CQN       uint32 // 24 bits
	Collapsed bool   // the device writes every entry over entry 0 (cc); Poll then reports the newest
	Table     *Table // the QPs whose completions come here

	// Compressed says that the device may compress completions (cqe_comp_en),
	// and MiniFormat what the minis of receives hold (mini_cqe_res_format).
	// Entries are of 64 bytes then, and the queue is not collapsed.
	Compressed bool
	MiniFormat cqe.MiniFormat

	// Memory returns the n bytes at an address that was posted in an SGE with
	// this key, or nil. It is only called for CQEs with inline data ("scatter
	// to CQE"); nil: such CQEs become errors.
	Memory func(lkey uint32, addr uint64, n int) []byte
}

// A Completion is the outcome of one work request. It is a value: nothing in
// it changes when the queue goes on.
type Completion struct {
	cqe.WC           // what the CQE says, as verbs reports it
	ID        uint64 // of the work request
	Timestamp uint64 // ticks of the device clock; 0 on errors
}

// String returns, for instance, "id 7: RDMA_WRITE SUCCESS, QP 0x000abc", with the
// bytes and the immediate of operations that have them, or why it failed.
func (c Completion) String() string {
	s := fmt.Sprintf("id %d: ", c.ID)
	if err := c.Err(); err != nil {
		return s + err.Error()
	}
	s += fmt.Sprintf("%v %v, QP %#06x", c.Opcode, c.Status, c.QPN)
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

// A CQ is a completion queue. One goroutine at a time may call its methods,
// EventSeen excepted; that goroutine is the poller of all its QPs' queues.
type CQ struct {
	ring    []byte
	log     uint
	shift   uint // log2 of the entry size, 6 or 7
	ciWord  *shm.BE32
	armWord *shm.BE32
	armReg  *shm.BE64
	cqn     uint32
	table   *Table
	memory  func(lkey uint32, addr uint64, n int) []byte

	ci      uint64 // count of the next entry
	stale   uint64
	bad     uint64
	orphans atomic.Pointer[orphan]
	polling atomic.Bool // a goroutine is polling, by TryPoll
	armSN   atomic.Uint32

	compressed bool
	mini       cqe.MiniFormat

	// Of a collapsed queue.
	collapsed bool
	newest    cqe.Tail // of the entry last reported
	at        uint32   // user index of its QP
}

// NewCQ returns an empty completion queue. It fills the entries as libmlx5
// does (op_own 0xf0), which must happen before the device learns of them.
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
		ring: c.Ring, log: log, shift: 6, armReg: register[0],
		ciWord: shm.BE32At(c.Record, 4*doorbell.CIWord), armWord: shm.BE32At(c.Record, 4*doorbell.ArmWord),
		cqn: c.CQN, table: c.Table, memory: c.Memory, collapsed: c.Collapsed, compressed: c.Compressed, mini: c.MiniFormat,
	}
	if c.EntrySize == cqe.Size128 {
		q.shift = 7
	}
	q.fill()
	return q, nil
}

// CQN returns the number of the queue.
func (q *CQ) CQN() uint32 { return q.cqn }

// Poll takes completions off the queue until dst is full or no more are there,
// and returns how many. The blocks and entries of the work requests that they
// complete can be posted to again.
//
// CQEs of QPs that are no longer in the table are passed over, and so are CQEs
// that make no sense: see Skipped.
//
// Of a collapsed queue it returns the newest completion, or none if that one was
// returned before: see CQConfig.
func (q *CQ) Poll(dst []Completion) (n int) {
	if q.collapsed {
		return q.pollCollapsed(dst)
	}
	from := q.ci
	for n < len(dst) {
		e := q.entry(q.ci)
		// Pairs with the device's Publish of the entry: the rest of it is read after.
		o := cqe.OpOwn(e.ObserveTail())
		if !cqe.Valid(o, q.ci, q.log) {
			break
		}
		if o.PlainReq() {
			left := uint64(1)<<q.log - (q.ci - from)
			if k := q.takeRun(dst[n:min(uint64(len(dst)), uint64(n)+left)]); k > 0 {
				if n += k; q.ci-from == 1<<q.log {
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
			break // one lap; a device that ignores the consumer index must not hold the poller
		}
	}
	if q.ci != from {
		// Pairs with the device's Observe before it writes an entry of the next lap.
		q.ciWord.Publish(uint32(q.ci) & doorbell.CIMask)
	} else if o := q.orphans.Load(); o != nil && !cqe.Valid(cqe.OpOwn(q.entry(q.ci).ObserveTail()), q.ci, q.log) {
		q.forget(o)
	}
	return n
}

// TryPoll is Poll for pollers that share the queue. Any number of goroutines may
// call it: while one of them polls, the others get 0 and false at once. SendRing.Done
// tells all of them what is complete.
func (q *CQ) TryPoll(dst []Completion) (n int, ok bool) {
	if !q.polling.CompareAndSwap(false, true) {
		return 0, false
	}
	n = q.Poll(dst)
	q.polling.Store(false)
	return n, true
}

// exclude keeps callers of TryPoll from polling until done is called.
func (q *CQ) exclude() (done func()) {
	for !q.polling.CompareAndSwap(false, true) {
		cpu.Yield()
	}
	return func() { q.polling.Store(false) }
}

// Index returns how many entries have been taken off the queue since it was
// made. With no entry left to poll, a WaitCQ for Index plus n waits for n more
// completions. It wraps. A Resize counts as one entry.
func (q *CQ) Index() uint32 { return uint32(q.ci) }

// Arm asks for one event when an entry is there that has not been polled: any
// entry, or only a solicited one or an error. Arming again before that event is the
// same request. The record is written before the register, on which the device
// acts. Poll once more between arming and waiting: for an entry that arrived just
// before, the device may or may not send the event.
func (q *CQ) Arm(solicited bool) {
	a := doorbell.Arm{SN: uint8(q.armSN.Load()), Solicited: solicited, CI: uint32(q.ci)}
	q.armWord.Publish(a.Word())
	if q.armReg != nil {
		q.armReg.Publish(uint64(doorbell.MakeArmRegister(a, q.cqn)))
	}
}

// EventSeen counts an event of this CQ; without it the next Arm would repeat
// the request that the event has answered. Safe for concurrent use.
func (q *CQ) EventSeen() { q.armSN.Add(1) }

// Skipped returns how many CQEs Poll has passed over. Stale ones are of QPs that
// are no longer there. Bad ones name work that was not posted, or are of a kind
// that this queue does not have; only a broken device writes them.
func (q *CQ) Skipped() (stale, bad uint64) { return q.stale, q.bad }

// entry returns the 64 bytes of the CQE of a count: all of it, or the second half.
func (q *CQ) entry(count uint64) *shm.Block {
	return shm.BlockAt(q.ring, cqe.EntryOffset(cqe.Slot(count, q.log), q.shift))
}

// slot returns all bytes of the entry of a count.
func (q *CQ) slot(count uint64) []byte {
	off := cqe.Slot(count, q.log) << q.shift
	return q.ring[off : off+1<<q.shift]
}
