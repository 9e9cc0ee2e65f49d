package hostpath

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/reason"
	"github.com/nicless/nicless/internal/ring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// maxCQ is the most entries that a CQ may have: half as many as there are consumer indices,
// which have 24 bits.
const maxCQ = 1 << 23

// CQConfig describes the memory and the properties of a completion queue.
type CQConfig struct {
	Ring      []byte // the entries: a power of two up to 1<<23, at an address that is a multiple of 64
	EntrySize int    // 64 or 128 bytes
	Record    []byte // the doorbell record, 8 bytes: the consumer index, then the arm word
	Register  []byte // the arm register: 8 bytes, at offset 0x20 of the UAR page; nil: the CQ has none
	CQN       uint32 // 24 bits
	Collapsed bool   // the device writes every entry over entry 0 (cc); Poll then reports the newest entry
	Table     *Table // the QPs whose completions are written to this queue

	// Compressed says that the device may compress completions (cqe_comp_en). The queue must
	// then have entries of 64 bytes and not be collapsed.
	// MiniFormat says what the minis of receives contain (mini_cqe_res_format); see cqe.Mini.
	Compressed bool
	MiniFormat cqe.MiniFormat

	// Memory returns the n bytes of local memory at addr, or nil if there is no such memory.
	// addr and lkey come from an SGE that was posted. Poll calls Memory only for CQEs with
	// inline data ("scatter to CQE"). If Memory is nil, such CQEs become errors.
	Memory func(lkey uint32, addr uint64, n int) []byte

	// Reasons is where the device says why a completion is an error: the memory of the client's status page
	// (docs/CONTROL.md, Reasons). If there is no ring in it, errors have no reasons.
	Reasons []byte
}

// A Completion is the outcome of one work request. It is a copy, which does not change
// when the queue advances.
type Completion struct {
	cqe.WC           // the contents of the CQE, as verbs reports them
	reason    uint32 // of an error: what reason.Keep has returned; 0: nothing is known. Only errors set it
	ID        uint64 // the ID of the work request
	Timestamp uint64 // ticks of the device clock; 0 on errors
}

// String returns, for instance, "id 7: RDMA_WRITE SUCCESS, QP 0x000abc". It adds the byte
// count and the immediate of operations that have them, and the cause of a failure.
func (c Completion) String() string {
	if err := c.Err(); err != nil {
		return err.Error() // the text of the error begins with the ID, too
	}
	s := fmt.Sprintf("id %d: %s %v, QP %#06x", c.ID, c.operation(), c.Status, c.QPN)
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

// operation returns the name of what was done. Verbs has no name for a NOP, for example; then it is the name
// of the WQE's opcode.
func (c *Completion) operation() string {
	if c.Opcode == cqe.WCFromPost && c.Requester() {
		return wqe.Opcode(c.WQEOpcode).String()
	}
	return c.Opcode.String()
}

// Err returns nil, or a *FaultError that says why the work request failed: the syndrome and, if the device
// has explained it, what was wrong. The error of the zero Completion is ErrNotPolled.
func (c Completion) Err() error {
	if c.Status == cqe.StatusSuccess && c.QPN != 0 {
		return nil
	}
	return c.fault()
}

// A CQ is a completion queue. Only one goroutine at a time may call its methods, unless the
// comment of a method allows more. The goroutine that polls the CQ is the poller of the
// queues of all QPs that use the CQ.
type CQ struct {
	// Resize changes ring, blocks and log. The other fields of this group never change after NewCQ.
	ring       []byte
	blocks     []shm.Block // the memory of ring; their number is a power of two
	log        uint        // log2 of the number of entries
	shift      uint        // log2 of the entry size in bytes: 6 or 7
	step       uint64      // blocks from one entry to the next: 1 or 2
	ciWord     *shm.BE32   // word of the doorbell record: the consumer index
	armWord    *shm.BE32   // word of the doorbell record: the arm request
	armReg     *shm.BE64   // arm register of the UAR page, or nil
	cqn        uint32
	table      *Table
	memory     func(lkey uint32, addr uint64, n int) []byte // CQConfig.Memory
	compressed bool                                         // CQConfig.Compressed
	mini       cqe.MiniFormat                               // CQConfig.MiniFormat
	collapsed  bool                                         // CQConfig.Collapsed

	ci         uint64                      // count of the next entry to poll
	template   template                    // what the entries of the last run have in common
	stale      uint64                      // skipped CQEs of QPs that no longer exist
	bad        uint64                      // skipped CQEs that name no posted work
	destroyed  atomic.Pointer[destroyedQP] // list of destroyed QPs whose SRQ entries may still be in CQEs
	reasons    *reason.Ring                // CQConfig.Reasons
	kept       uint32                      // of the last error polled: its reason, as reason.Keep numbers it
	keptReason uint64                      // and as the device numbers it; 0: it was overwritten
	polling    atomic.Bool                 // a lock: see lockPolling
	armSN      atomic.Uint32               // number of events so far; the arm request has the lowest 2 bits

	// These fields are for a collapsed queue only.
	newest      cqe.Tail // tail of the entry that Poll reported last
	newestIndex uint32   // user index of the QP of that entry
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
	register, err := registerWords(c.Register)
	if err != nil {
		return nil, err
	}
	q := &CQ{
		ring: c.Ring, blocks: shm.Blocks(c.Ring), log: log, shift: 6, step: 1, armReg: register[0],
		ciWord: shm.BE32At(c.Record, 4*doorbell.CIWord), armWord: shm.BE32At(c.Record, 4*doorbell.ArmWord),
		cqn: c.CQN, template: template{tail: ^cqe.Tail(0)}, table: c.Table, memory: c.Memory,
		collapsed: c.Collapsed, compressed: c.Compressed, mini: c.MiniFormat,
		reasons: reason.NewRing(c.Reasons),
	}
	if c.EntrySize == cqe.Size128 {
		q.shift, q.step = 7, 2
	}
	q.fill()
	return q, nil
}

// CQN returns the number of the queue.
func (q *CQ) CQN() uint32 { return q.cqn }

// Poll takes completions off the queue until dst is full or the queue is empty, and returns
// how many completions it took. From then on the send blocks and receive entries of the
// completed work requests can be posted to again.
//
// Poll skips CQEs of QPs that are no longer in the table, and CQEs that name no posted work:
// see Skipped.
//
// For a collapsed queue, Poll returns the newest completion, or none if an earlier Poll
// returned that completion: see CQConfig.
func (q *CQ) Poll(dst []Completion) (n int) {
	if q.collapsed {
		return q.pollCollapsed(dst)
	}
	from := q.ci
	// Poll takes one lap at most: a device that ignores the consumer index must not keep the
	// poller in this loop.
	lapEnd := from + 1<<q.log
	for n < len(dst) && q.ci != lapEnd {
		at := q.place(q.ci)
		e := &q.blocks[at]
		// Pairs with the device's Publish of the entry. The rest of the entry is read after it.
		tail := cqe.Tail(e.ObserveTail())
		o := tail.OpOwn()
		if !cqe.Valid(o, q.ci, q.log) {
			break
		}
		if o.PlainReq() || o.PlainRespSend() {
			end := min(uint64(len(dst)), uint64(n)+lapEnd-q.ci)
			k := q.takeRun(dst[n:end], e, at, tail)
			if k > 0 {
				n += k
				continue
			}
		} else if q.isTitle(o) {
			end := min(uint64(len(dst)), uint64(n)+lapEnd-q.ci)
			k := q.takeSession(dst[n:end], e, at, tail)
			if k > 0 {
				n += k
				continue
			}
			o = q.expandSession(q.ci, o)
		}
		c := &dst[n]
		c.Parse((*[cqe.Size]byte)(e))
		if q.resolve(c, o, e) {
			n++
		}
		q.ci++
	}
	if q.ci != from {
		// Pairs with the device's Observe before it writes an entry of the next lap.
		q.ciWord.Publish(uint32(q.ci) & doorbell.CIMask)
	} else if list := q.destroyed.Load(); list != nil {
		q.dropDestroyed(list)
	}
	return n
}

// TryPoll is Poll for pollers that share the queue. Any number of goroutines may call it.
// While one of them polls, TryPoll returns at once in the others, and ok is false. All of
// them can call SendRing.Done to learn which sends are complete.
func (q *CQ) TryPoll(dst []Completion) (n int, ok bool) {
	if !q.polling.CompareAndSwap(false, true) {
		return 0, false
	}
	n = q.Poll(dst)
	q.unlockPolling()
	return n, true
}

// lockPolling waits until no caller of TryPoll polls. Until unlockPolling, TryPoll returns
// false.
func (q *CQ) lockPolling() {
	for !q.polling.CompareAndSwap(false, true) {
		cpu.Yield()
	}
}

// unlockPolling lets callers of TryPoll poll again.
func (q *CQ) unlockPolling() { q.polling.Store(false) }

// Index returns how many entries have been taken off the queue since it was made. A Resize
// counts as one entry. Index wraps. A poller that has emptied the queue can post a WaitCQ
// for n more completions: its SendWR.Index is the result of this method plus n.
func (q *CQ) Index() uint32 { return uint32(q.ci) }

// Arm requests one event. The device sends the event when there is an entry that has not been
// polled. If solicited is true, only a solicited entry or an error causes the event. A second
// Arm before the event repeats the request of the first. Arm writes the record before the
// register, because the device acts on the register. Poll once more between arming and
// waiting: the device need not send the event for an entry that arrived just before Arm.
func (q *CQ) Arm(solicited bool) {
	a := doorbell.Arm{SN: uint8(q.armSN.Load()), Solicited: solicited, CI: uint32(q.ci)}
	q.armWord.Publish(a.Word())
	if q.armReg != nil {
		q.armReg.Publish(uint64(doorbell.MakeArmRegister(a, q.cqn)))
	}
}

// EventSeen counts an event of this CQ. Call EventSeen for every event: otherwise the next Arm
// repeats a request that the device has already answered. EventSeen is safe for concurrent
// use.
func (q *CQ) EventSeen() { q.armSN.Add(1) }

// Skipped returns how many CQEs Poll has skipped. Stale CQEs belong to QPs that no longer
// exist. Bad CQEs name work that was not posted, or work of a queue that the QP does not have.
// Only a broken device writes bad CQEs.
func (q *CQ) Skipped() (stale, bad uint64) { return q.stale, q.bad }

// entry returns the 64 bytes of the CQE with the given count. In a queue with entries of 128
// bytes they are the second half of the entry.
func (q *CQ) entry(count uint64) *shm.Block { return &q.blocks[q.place(count)] }

// place returns the index of the block with these 64 bytes. The result is the same as that of
// cqe.EntryOffset in blocks, because the number of blocks is a power of two.
func (q *CQ) place(count uint64) uint64 {
	return ((count+1)*q.step - 1) & (uint64(len(q.blocks)) - 1)
}

// slot returns all bytes of the entry with the given count.
func (q *CQ) slot(count uint64) []byte {
	off := cqe.Slot(count, q.log) << q.shift
	return q.ring[off : off+1<<q.shift]
}
