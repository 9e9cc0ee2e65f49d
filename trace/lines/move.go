package lines

import (
	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
)

// A receive is one that a message has got. The zero receive is none.
type receive struct {
	q     *objects.Queue
	index uint16
}

// moveTo adds the accesses of the WQEs of a queue pair that wait, up to the one that has an index.
func (m *Maker) moveTo(qp uint32, index uint16) {
	s, q := m.queues[qp], m.local(qp)
	if s == nil || q == nil {
		return
	}
	for len(s.waiting) > 0 && int16(index-s.waiting[0].Index) >= 0 {
		m.move(q, s.waiting[0], receive{})
		s.waiting = s.waiting[1:]
	}
}

// fail adds the accesses of the WQEs before one that has failed, and the load of that one.
func (m *Maker) fail(qp uint32, index uint16) {
	s, q := m.queues[qp], m.local(qp)
	if s == nil || q == nil {
		return
	}
	m.moveTo(qp, index-1)
	if len(s.waiting) > 0 && s.waiting[0].Index == index {
		m.blocks(model.Dev, model.Load, model.Once, q, index, 1)
		s.waiting = s.waiting[1:]
	}
}

// receive adds the accesses of the WQEs that wait, up to the next that takes a receive, for a receive of q.
func (m *Maker) receive(q *objects.Queue, source uint32, index uint16) {
	if q.Info.Peer != 0 {
		source = q.Info.Peer
	}
	s, from := m.queues[source], m.local(source)
	if s == nil || from == nil {
		return
	}
	for len(s.waiting) > 0 {
		w := s.waiting[0]
		s.waiting = s.waiting[1:]
		if w.Ctrl.Opcode.Info().Response != 0 {
			m.move(from, w, receive{q, index})
			return
		}
		m.move(from, w, receive{})
	}
}

// A piece is a piece of memory, or bytes in the WQE.
type piece struct {
	address uint64
	n       uint64
	inline  bool
}

// move adds what the device loads and stores for a WQE: the WQE, keys, the receive, and the payload.
func (m *Maker) move(q *objects.Queue, w *objects.WQE, to receive) {
	v, err := wqe.Parse(w.Bytes, q.Address())
	if err != nil {
		return
	}
	m.blocks(model.Dev, model.Load, model.Once, q, w.Index, 1)
	if to.q != nil {
		posted := m.post(to)
		m.add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.Record, Why: model.Once, N: 1,
			Bytes: 4, After: []int{posted}, Line: model.Line{Region: m.record(to.q.Number)}})
	}
	if more := v.Ctrl.Blocks() - 1; more > 0 {
		m.blocks(model.Dev, model.Load, model.Follow, q, w.Index+1, more)
	}
	near, total := m.pieces(&v)
	info := v.Ctrl.Opcode.Info()
	if total > wqe.MaxMessage || info.Transports == 0 {
		return // the device refuses such WQEs
	}
	s, remote := v.Find(wqe.KindRaddr)
	var r wqe.Raddr
	if remote && total > 0 {
		r = wqe.ParseRaddr((*[wqe.RaddrSize]byte)(s.Bytes))
		m.key(uint64(r.RKey))
	}
	if to.q != nil {
		m.entry(to)
	}
	switch {
	case total == 0:
	case remote:
		m.remote(info, near, r.Addr, total)
	case to.q != nil:
		// The trace does not tell where a receive points: each has lines of its own, and the receives of
		// a queue pair have one key.
		const unknown = 1 << 63
		m.key(unknown | uint64(to.q.Number))
		m.loads(near)
		place := uint64(to.q.Number)<<38 | uint64(to.index)<<22
		m.memory(model.Store, model.Stream, written, unknown|place, total)
	case info.Response != 0: // the trace has no completion of the receive
		m.loads(near)
	}
}

// pieces returns the local memory of a WQE, and the bytes of its message. It adds the loads of the keys.
func (m *Maker) pieces(v *wqe.View) (list []piece, total uint64) {
	data := v.Data()
	for {
		d, inline, ok := data.Next()
		if !ok {
			return list, total
		}
		p := piece{d.Addr, d.Length(), false}
		if d.Inline() {
			p = piece{n: uint64(len(inline)), inline: true}
		} else {
			m.key(uint64(d.LKey))
		}
		list, total = append(list, p), total+p.n
	}
}

// remote adds the movement of bytes between local memory and the remote address.
func (m *Maker) remote(info *wqe.Info, near []piece, address, total uint64) {
	switch {
	case info.Atomic():
		m.memory(model.RMW, model.Follow, written, address, total)
		m.stores(near)
	case info.Reads:
		m.memory(model.Load, model.Stream, read, address, total)
		m.stores(near)
	default:
		m.loads(near)
		m.memory(model.Store, model.Stream, written, address, total)
	}
}

// loads adds the loads of local memory.
func (m *Maker) loads(near []piece) {
	for _, p := range near {
		if !p.inline {
			m.memory(model.Load, model.Stream, read, p.address, p.n)
		}
	}
}

// stores adds the stores into local memory.
func (m *Maker) stores(near []piece) {
	for _, p := range near {
		m.memory(model.Store, model.Stream, written, p.address, p.n)
	}
}

// post adds that the peer has posted a receive, and returns the number of the store of its record.
func (m *Maker) post(r receive) int {
	m.add(model.Access{Who: model.Peer, Op: model.Store, Kind: model.RxWQE, Why: model.Once, N: 1,
		Bytes: 2 * wqe.DataSize, Line: m.entryLine(r)})
	return m.add(model.Access{Who: model.Peer, Op: model.Store, Kind: model.Record, Why: model.Once, N: 1,
		Bytes: 4, Line: model.Line{Region: m.record(r.q.Number)}})
}

// entry adds that the device loads the entry of a receive.
func (m *Maker) entry(r receive) {
	m.add(model.Access{Who: model.Dev, Op: model.Load, Kind: model.RxWQE, Why: model.Once, N: 1,
		Bytes: wqe.DataSize, Line: m.entryLine(r)})
}

// entryLine returns the line of the entry of a receive. The trace does not tell the stride; one of a line
// is what a receive of up to four pieces has.
func (m *Maker) entryLine(r receive) model.Line {
	ring, size := r.q.Number, int(r.q.Info.RecvEntries)
	if r.q.Info.SRQ != 0 {
		ring, size = r.q.Info.SRQ, 0 // its numbers are those of entries
	}
	if size <= 0 || size > 1<<16 {
		size = 1 << 16
	}
	return model.Line{Region: m.recvRing(ring), Index: int(r.index) % size}
}
