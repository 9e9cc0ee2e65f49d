package lines

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
)

// The most accesses of a trace, and the most lines that they touch: the limits of the file form (see
// model.ReadTrace), less what one WQE of the longest message can add.
const (
	MostAccesses = 1<<18 - 1<<10
	MostLines    = 1<<21 - 1<<10
)

// A Maker makes accesses of events. It is not safe for concurrent use.
type Maker struct {
	table objects.Table
	trace model.Trace
	full  bool // no more accesses have room

	seq, req, touched       int
	begun                   int // accesses before the last doorbell
	keys                    map[uint64]int
	readPages, writtenPages map[uint64]int // numbers of the pages of memory
	queues                  map[uint32]*queue
	cqs                     map[uint32]uint32 // sizes
}

// A queue is what a Maker knows of a queue pair that sends.
type queue struct {
	announced uint16         // index after the last block that a doorbell has announced
	known     bool           // there was a doorbell
	waiting   []*objects.WQE // were fetched, and their bytes were not moved yet
	bells     int            // doorbells, whose registers take turns
}

// New returns a Maker without accesses.
func New() *Maker {
	return &Maker{trace: model.Trace{Regions: map[string]model.Structure{}}, keys: map[uint64]int{},
		readPages: map[uint64]int{}, writtenPages: map[uint64]int{}, queues: map[uint32]*queue{},
		cqs: map[uint32]uint32{}}
}

// Trace returns the accesses. full is true if further ones had no room: then those of the last doorbell that
// had room entirely are the last ones.
func (m *Maker) Trace() (t model.Trace, full bool) { return m.trace, m.full }

// Event adds the accesses of an event. It returns no error; it has one so that it is like other readers of
// events.
func (m *Maker) Event(e *trace.Event, _ trace.Clock) error {
	m.table.Event(e)
	if m.full {
		return nil
	}
	switch e.Kind {
	case trace.KindQueue:
		m.describe(e)
	case trace.KindQueueGone:
		delete(m.queues, e.Queue)
	case trace.KindLost:
		clear(m.queues)
	case trace.KindDoorbell:
		m.doorbell(e)
	case trace.KindFetch:
		m.fetch(e)
	case trace.KindFail:
		m.fail(e.Queue, e.Index)
	case trace.KindExecute:
		m.moveTo(e.Queue, e.Index+max(e.Count, 1)-1)
	case trace.KindCQE:
		m.completion(e)
	}
	entries, lines, regions := len(m.trace.Accesses), m.touched, len(m.trace.Regions)
	if entries > MostAccesses || lines >= MostLines || regions > mostRegions {
		m.full = true
		m.trace.Accesses = m.trace.Accesses[:m.begun]
	}
	return nil
}

// local returns a queue pair whose peer is on this device.
func (m *Maker) local(qp uint32) *objects.Queue {
	q := m.table.Queue(qp)
	if q == nil || q.Info.Port != 0 {
		return nil
	}
	return q
}

func (m *Maker) describe(e *trace.Event) {
	q := m.table.Queue(e.Queue)
	if q == nil || len(m.cqs) > mostRegions {
		return
	}
	m.cqs[q.Info.SendCQ] = max(m.cqs[q.Info.SendCQ], q.Info.SendBlocks)
	m.cqs[q.Info.RecvCQ] = max(m.cqs[q.Info.RecvCQ], q.Info.RecvEntries)
}

// doorbell adds what the host and the device do for a doorbell: blocks, record and register.
func (m *Maker) doorbell(e *trace.Event) {
	q := m.local(e.Queue)
	if q == nil || len(m.queues) > mostRegions {
		return
	}
	s := m.queues[e.Queue]
	if s == nil {
		s = &queue{}
		m.queues[e.Queue] = s
	}
	index, count := e.Index, int(e.Count)
	if known := int(int16(s.announced - index)); s.known && known > 0 { // it was found before
		index, count = s.announced, count-known
	}
	if count <= 0 {
		return
	}
	s.announced, s.known = index+uint16(count), true
	m.begun = len(m.trace.Accesses)
	m.req++
	m.blocks(model.Host, model.Store, model.Once, q, index, count)
	rung := m.add(model.Access{Who: model.Host, Op: model.Store, Kind: model.Record, Why: model.Signal,
		Line: model.Line{Region: m.record(q.Number)}, N: 1, Bytes: 4})
	const firstRegister, registerHalf = 32, 4 // lines of a UAR page: the register, and its second half
	register := firstRegister + s.bells%2*registerHalf
	m.add(model.Access{Who: model.Host, Op: model.Store, Kind: model.UAR, Why: model.Once, N: 1, Bytes: 8,
		Line: model.Line{Region: m.region(model.UARs, registers), Index: register}})
	s.bells++
	m.add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.Record, Why: model.Poll, N: 1, Bytes: 4,
		After: []int{rung}, Line: model.Line{Region: m.record(q.Number)}})
}

// blocks adds accesses to blocks of a send queue: two, if the ring ends between them.
func (m *Maker) blocks(
	who model.Agent, op model.Op, why model.Why, q *objects.Queue, index uint16, count int,
) {
	size := int(q.Info.SendBlocks)
	if size <= 0 || size > 1<<16 {
		size = 1 << 16
	}
	for count > 0 {
		at := int(index) % size
		n := min(count, size-at)
		m.add(model.Access{Who: who, Op: op, Kind: model.WQE, Why: why, N: n, Bytes: n * wqe.BlockSize,
			Line: model.Line{Region: m.sendRing(q.Number), Index: at}})
		index, count = index+uint16(n), count-n
	}
}

// mostFetched bounds the WQEs of a queue pair that wait: a ring has at most so many blocks.
const mostFetched = 1 << 16

// fetch notes the WQEs of a fetch that were not fetched before.
func (m *Maker) fetch(e *trace.Event) {
	s := m.queues[e.Queue]
	if s == nil || m.local(e.Queue) == nil {
		return
	}
	for _, w := range m.table.Last() {
		n := len(s.waiting)
		again := n > 0 && int16(w.Index-s.waiting[n-1].Index) <= 0
		if w.Whole() && !again && n < mostFetched {
			s.waiting = append(s.waiting, w)
		}
	}
}

// completion adds the CQEs of an event, and the payload that was moved before.
func (m *Maker) completion(e *trace.Event) {
	if len(e.Data) < cqe.Size {
		return
	}
	w := cqe.ParseWC((*[cqe.Size]byte)(e.Data))
	q := m.local(w.QPN)
	if q == nil {
		return
	}
	for i := range max(e.Count, 1) {
		counter := w.Counter + i
		switch {
		case w.Requester():
			m.moveTo(q.Number, counter)
			m.poll(model.Host, e.Queue, e.Value+uint64(i))
		case w.Status == cqe.StatusSuccess:
			m.receive(q, w.SrcQP, counter)
			m.poll(model.Peer, e.Queue, e.Value+uint64(i))
		default:
			m.poll(model.Peer, e.Queue, e.Value+uint64(i))
		}
	}
}

// poll adds that the device stores a CQE, and an agent polls it.
func (m *Maker) poll(who model.Agent, cq uint32, index uint64) {
	size := uint64(max(m.cqs[cq], 1))
	at := model.Line{Region: m.ring(cq), Index: int(index % size)}
	done := m.add(model.Access{Who: model.Dev, Op: model.Store, Kind: model.CQE, Why: model.Complete,
		Line: at, N: 1, Bytes: cqe.Size})
	m.add(model.Access{Who: who, Op: model.Load, Kind: model.CQE, Why: model.Poll, Line: at, N: 1,
		Bytes: cqe.Size, After: []int{done}})
	m.add(model.Access{Who: who, Op: model.Store, Kind: model.CI, Why: model.Once, N: 1, Bytes: 4,
		Line: model.Line{Region: m.consumed(cq)}})
}
