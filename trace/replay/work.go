//go:build linux && (amd64 || arm64)

package replay

import (
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/nicless/nicless/doorbell"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// work does what an event about a WQE says.
func (r *replayer) work(e *trace.Event) {
	if e.Kind == trace.KindReceive {
		r.receive(e)
		return
	}
	q := r.queues[e.Queue]
	if q == nil || r.plan.out[e.Queue] != "" || len(q.ring) == 0 {
		return
	}
	if r.taken != nil && e.Kind != trace.KindFetch && q.transport == trace.UD {
		q.taken, r.taken = r.taken, nil
	}
	switch e.Kind {
	case trace.KindFetch:
		r.fetch(q, e)
	case trace.KindPayload:
		r.payload(q, e)
	case trace.KindExecute:
		r.execute(q, e, e.Count)
	case trace.KindFail:
		n := q.fetched - e.Index // a WQE may claim more blocks than there are
		r.execute(q, e, min(max(e.Count, 1), n))
	}
}

// fetch puts blocks into the ring. They are posted when it is known that they were executed, or now if
// they were flushed.
func (r *replayer) fetch(q *queue, e *trace.Event) {
	blocks := uint16(len(q.ring) / wqe.BlockSize)
	for i := range min(e.Count, uint16(len(e.Data)/wqe.BlockSize)) {
		at := int((e.Index + i) & (blocks - 1))
		copy(q.ring[at*wqe.BlockSize:], e.Data[int(i)*wqe.BlockSize:][:wqe.BlockSize])
	}
	q.fetched = e.Index + e.Count
	if q.state == trace.ERR || q.state == trace.SQE {
		q.post(q.fetched)
		r.steps()
	}
}

// post announces the blocks before an index, in the way of the queue. All queues of a client share a
// register: the device has seen what one of them has rung before the next one rings.
func (q *queue) post(end uint16) {
	if int16(end-q.sent) <= 0 {
		return
	}
	q.sent = end
	if q.setup.Doorbells == trace.RegisterStarts {
		shm.BE64At(q.client.rings, 0).Publish(uint64(doorbell.MakeRing(end, q.number)))
		return
	}
	q.announce(4, end)
}

// receive posts a receive that a message has taken.
func (r *replayer) receive(e *trace.Event) {
	p := r.queues[uint32(e.Value)]
	if p == nil {
		return
	}
	rec := &receive{client: p.client}
	if e.Count == 1 {
		s := r.srqs[e.Queue]
		if s == nil || len(e.Data) != 1<<s.setup.LogStride {
			return
		}
		rec.entry = slices.Clone(e.Data)
		rec.list, rec.shared, rec.index = rec.entry[wqe.SRQNextSize:], s, e.Index
	} else {
		if len(p.receives) == 0 || len(e.Data) != 1<<p.setup.LogStride {
			return
		}
		mask := uint16(len(p.receives)>>p.setup.LogStride - 1)
		copy(p.receives[int(e.Index&mask)<<p.setup.LogStride:], e.Data)
		p.postReceive(e.Index + 1)
		rec.list = slices.Clone(e.Data)
		if p.setup.Flags&trace.Signed != 0 {
			rec.list = rec.list[wqe.UnitSize:]
		}
	}
	if q := r.queues[p.info.Peer]; q != nil && p.transport != trace.UD {
		q.taken = rec
	} else {
		r.taken = rec
	}
}

// put posts a receive of a shared queue, for the WQE that is executed next. Messages that take long hold
// their receives while others take later ones, and a replay executes one WQE after the other. So the receive
// gets the next entry of the replay's queue, whatever its index was.
func (s *srq) put(x *receive) {
	mask := uint16(len(s.ring)>>s.setup.LogStride - 1)
	if !s.free { // else the device has taken the last entry back, and gives it out first
		s.posted++
	}
	at := (s.posted - 1) & mask
	s.was[at] = x.index
	entry := s.ring[int(at)<<s.setup.LogStride:][:len(x.entry)]
	copy(entry, x.entry)
	if !s.setup.Cyclic {
		wqe.SRQNext{Next: (at + 1) & mask}.Put((*[wqe.SRQNextSize]byte)(entry))
	}
	putRecord(s.record, s.posted)
}

// postReceive announces the receives before an index.
func (q *queue) postReceive(end uint16) {
	if int16(end-q.received) > 0 {
		q.received = end
		q.announce(0, end)
	}
}

// payload puts payload where the WQE reads it.
func (r *replayer) payload(q *queue, e *trace.Event) {
	at, sum := e.PayloadAt()
	if at == 0 {
		q.chunks, q.hidden = q.chunks[:0], false // the device has begun anew
		if q.transport == trace.UD && len(e.Data) >= grhSize {
			r.header(q, e.Index, e.Data[:grhSize])
		}
	}
	src, _, ctrl := r.ends(q, e.Index)
	data := e.Data
	if ctrl.Opcode.Info().Atomic() && len(data) == 4 { // the device delivers it in big-endian order
		data = slices.Clone(data)
		slices.Reverse(data)
	}
	q.hidden = q.hidden || slices.ContainsFunc(src, func(p piece) bool { return p.mem == nil && !p.here })
	part(src, at, uint64(len(data)), func(mem []byte, n uint64) bool {
		copy(mem, data[:n])
		data = data[n:]
		return true
	})
	q.chunks = append(q.chunks, chunk{at, uint64(len(e.Data)), sum})
}

// execute posts a WQE of n blocks, lets the device execute it, and compares.
func (r *replayer) execute(q *queue, e *trace.Event, n uint16) {
	where := fmt.Sprintf("%s wqe %d", name(q), e.Index)
	src, dst, ctrl := r.ends(q, e.Index)
	before := r.e.Stats()
	if x := q.taken; x != nil && x.shared != nil {
		x.shared.put(x)
	}
	q.post(e.Index + n)
	r.report.WQEs++
	if !r.until(func() bool { return r.e.Stats().WQEs > before.WQEs }) {
		r.differ(where, fmt.Sprintf("%v has not ended within %v", ctrl.Opcode, r.patience))
		r.plan.leaveOut(q.number, "one of its WQEs has not ended")
		return
	}
	if x := q.taken; x != nil && x.shared != nil {
		x.shared.free = r.e.Stats().Receives == before.Receives
	}
	r.pollAll()
	if e.Kind == trace.KindExecute && len(q.chunks) > 0 {
		r.compareMoved(q, where, src, dst, ctrl)
	}
	q.chunks, q.taken = q.chunks[:0], nil
}

// length returns how many bytes payload has.
func length(list []chunk) (n uint64) {
	for _, c := range list {
		n += c.n
	}
	return n
}

// compareMoved compares what is at the destination of a WQE.
func (r *replayer) compareMoved(q *queue, where string, src, dst []piece, ctrl wqe.Ctrl) {
	if q.hidden || len(src) == 0 || r.inCQE(q, ctrl, length(q.chunks)) || overlap(src, dst) {
		r.report.Unseen++
		return
	}
	known := true
	for _, c := range q.chunks {
		sum := crc32.New(castagnoli)
		known = part(dst, c.at, c.n, func(mem []byte, _ uint64) bool {
			_, _ = sum.Write(mem) // never fails
			return true
		})
		if !known {
			break
		}
		r.report.Bytes += c.n
		if got := sum.Sum32(); got != c.sum {
			r.differ(where, fmt.Sprintf("bytes %d to %d of its message differ at the destination", c.at, c.at+c.n-1),
				Value{"checksum", fmt.Sprintf("0x%08x", c.sum), fmt.Sprintf("0x%08x", got)})
		}
	}
	if known {
		r.report.Messages++
	} else {
		r.report.Unseen++
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// usualPatience is Options.Patience if that is 0: longer than the retries of the usual attributes.
const usualPatience = 30 * time.Second

// fewSteps are enough for the device to look at everything once.
const fewSteps = 256

// steps steps the device until it has nothing to do.
func (r *replayer) steps() {
	for idle := 0; idle < fewSteps; idle++ {
		if r.e.Step() > 0 {
			idle = 0
		}
	}
}

// until steps the device until done returns true, and reports whether it has.
func (r *replayer) until(done func() bool) bool {
	for start := time.Now(); ; {
		for range fewSteps {
			if done() {
				return true
			}
			r.e.Step()
		}
		if time.Since(start) > r.patience {
			return false
		}
	}
}
