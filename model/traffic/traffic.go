package traffic

import (
	"fmt"
	"math/bits"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/wqe"
)

// DefaultRing is the number of entries of a queue for which Config has 0.
const DefaultRing = 128

// A Config describes two connected queue pairs: the host's, whose send queue is used, and the
// peer's, whose receive queue is used. Numbers of entries are powers of two; 0 means DefaultRing.
type Config struct {
	SendBlocks int  // blocks of 64 bytes in the send ring
	Receives   int  // entries in the receive ring
	Stride     int  // bytes of such an entry, a power of two; 0 means 64
	SRQ        bool // the receives are those of a shared receive queue

	SendCQ, RecvCQ int  // entries of the CQs; they are two queues
	EntrySize      int  // bytes of a CQE: 64 or 128; 0 means 64
	InlineResults  bool // short results of READs, and of atomics without masks, are put into the CQE
	InlineMessages bool // short messages are put into the CQE

	BlueFlame int // number of the BlueFlame register of the host's queue pair, 1..4; 0: it has none

	// Events says that the CQs have completion channels. The device then looks, once between two
	// doorbells, whether the CQs are armed. They are not armed here.
	Events bool

	// Rested says that before each doorbell the device has had more than 64 idle visits. While the
	// device expects the next WQE in the BlueFlame register, it does not poll the doorbell record.
	// After 64 idle visits it polls both.
	Rested bool

	// Prefetched says that the device fetches the next receive while it waits for the message.
	Prefetched bool

	// SlowPath says that the device has no fast path, as in tests.
	SlowPath bool

	Memory []Memory
}

// A Request is a work request as it is posted.
type Request struct {
	// WQE is the WQE. It need not contain more than the units that its control segment counts.
	WQE []byte

	// Receive is the entry of the receive ring that the request takes. An entry of an SRQ begins
	// with the segment that links it to the next entry. Receive is nil if the request takes no
	// receive.
	Receive []byte

	// Fill says that the payload is written before the request is posted. The host writes it; for a
	// READ the peer writes it.
	Fill bool

	// Use says that the payload is read when it has arrived. The peer reads it; the host reads the
	// results of a READ or an atomic.
	Use bool
}

// An Expander expands the requests of two connected queue pairs. It is not safe for concurrent
// use.
type Expander struct {
	c     Config
	trace model.Trace
	keys  map[uint32]*key

	seq        int    // Seq of the last access
	req        int    // number of the last request
	sent       uint64 // number of blocks posted so far
	received   uint64 // number of receives posted so far
	send, recv cq

	linked uint64 // number of entries of the SRQ that were completed and appended to its free list

	armRounds uint // number of times so far that the device has polled the arm registers

	half          int  // the half of the BlueFlame register that the host writes next
	next          int  // the half of the BlueFlame register in which the device expects the next WQE
	hot           bool // the device polls the half next only: neither the other half nor the record
	fetchReceive  bool // the device fetches the next receive when it is idle
	lastAnnounced int  // Seq of the peer's last store to the record that counts receives

	// Completions of the last requests, and payloads, that the pollers have not seen yet.
	sends, recvs []completion // completions in the CQ of sends, and in the CQ of receives
	arrived      []arrival    // payloads that arrived without a completion
}

// New returns an Expander for queues that have just been made.
func New(c Config) (*Expander, error) {
	for _, n := range []*int{&c.SendBlocks, &c.Receives, &c.SendCQ, &c.RecvCQ} {
		if *n == 0 {
			*n = DefaultRing
		}
		if *n < 1 || bits.OnesCount(uint(*n)) != 1 {
			return nil, fmt.Errorf("traffic: queue of %d entries; powers of two are possible", *n)
		}
	}
	if c.Stride == 0 {
		c.Stride = wqe.BlockSize
	}
	if c.EntrySize == 0 {
		c.EntrySize = cqe.Size
	}
	leastStride := wqe.DataSize
	if c.SRQ {
		leastStride = 2 * wqe.DataSize
	}
	switch {
	case c.SendBlocks > doorbell.MaxRing || c.Receives > doorbell.MaxRing:
		return nil, fmt.Errorf("traffic: rings of %d and %d entries; up to %d are possible", c.SendBlocks, c.Receives, doorbell.MaxRing)
	case c.Stride < leastStride || bits.OnesCount(uint(c.Stride)) != 1:
		return nil, fmt.Errorf("traffic: receives of %d bytes; a power of two from 16, or 32 in an SRQ, is possible", c.Stride)
	case c.EntrySize != cqe.Size && c.EntrySize != cqe.Size128:
		return nil, fmt.Errorf("traffic: CQEs of %d bytes; 64 and 128 are possible", c.EntrySize)
	case c.BlueFlame < 0 || c.BlueFlame > doorbell.BFRegs:
		return nil, fmt.Errorf("traffic: BlueFlame register %d; 1 to %d are possible, or 0 for none", c.BlueFlame, doorbell.BFRegs)
	}
	x := &Expander{c: c, keys: make(map[uint32]*key), req: -1}
	if err := x.makeRegions(); err != nil {
		return nil, err
	}
	x.send = cq{region: SendCQ, ci: SendCI, entries: uint64(c.SendCQ), size: c.EntrySize}
	x.recv = cq{region: RecvCQ, ci: RecvCI, entries: uint64(c.RecvCQ), size: c.EntrySize}
	x.hot = c.BlueFlame != 0
	return x, nil
}

// Expand adds the accesses for requests that one doorbell announces: what happens before they are
// posted, the posting, the execution, and the polling of all their completions. In all these
// accesses, Req is the number of the last request of the list. After an error the Expander is no
// longer usable.
func (x *Expander) Expand(list ...Request) error {
	works := make([]*work, len(list))
	blocks, signaled, receives := 0, 0, 0
	for i := range list {
		w, err := x.parse(&list[i])
		if err != nil {
			return err
		}
		works[i] = w
		blocks += w.blocks
		if w.signaled {
			signaled++
		}
		if w.receive != nil {
			receives++
		}
	}
	switch {
	case len(list) == 0:
		return nil
	case blocks > x.c.SendBlocks:
		return fmt.Errorf("traffic: requests of %d blocks together; the send ring has %d", blocks, x.c.SendBlocks)
	case receives > x.mostReceives():
		return fmt.Errorf("traffic: %d receives together; there is room for %d", receives, x.mostReceives())
	case signaled > x.c.SendCQ || receives > x.c.RecvCQ:
		return fmt.Errorf("traffic: %d and %d completions together; the CQs have %d and %d entries", signaled, receives, x.c.SendCQ, x.c.RecvCQ)
	}
	x.req += len(list)
	x.postReceives(works)
	x.idle(works)
	x.pollBefore(works)
	x.fill(works)
	posted := x.post(works)
	x.execute(works, posted)
	x.poll()
	return nil
}

// mostReceives returns how many receives can be posted at a time. An SRQ never uses its last free
// entry.
func (x *Expander) mostReceives() int {
	if x.c.SRQ {
		return x.c.Receives - 1
	}
	return x.c.Receives
}

// Trace returns the accesses so far. The caller must not change them. The next Expand may change
// them.
func (x *Expander) Trace() model.Trace { return x.trace }
