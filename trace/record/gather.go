package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A gatherer collects what the raw files have.
type gatherer struct {
	happenings []happening
	queues     []*queue
	cqs        []*object
	processes  []*process
	parts      int // see limits
	summary    *Summary
}

// driver is IBV_QPT_DRIVER: a transport that only the vendor's library knows.
const driver = 0xff

// errData says that a record has fewer data than its kind.
var errData = errors.New("its data are too short")

// read reads a raw file. It returns an error if the file is damaged. A file that is cut short is good before
// that.
func (g *gatherer) read(in io.ReaderAt, size int64) error {
	r, err := newRawReader(io.NewSectionReader(in, 0, size))
	if err != nil {
		return err
	}
	p := &process{in: in, reader: r, objects: map[uint64]*object{}}
	g.processes = append(g.processes, p)
	for {
		var x raw
		err := r.next(&x)
		switch {
		case err == io.EOF:
			return nil
		case err == errCut:
			p.cut = true
			return nil
		case err == nil:
			p.last = max(p.last, x.time)
			if err = g.record(p, &x); err == nil {
				err = g.admit(&x)
			}
		}
		if err != nil {
			return fmt.Errorf("record at byte %d: %w", x.at-rawHead, err)
		}
	}
}

// least says how many bytes of data records of each kind have.
var least = [...]int{
	rawContext: 16, rawCQ: 12, rawSRQ: 16, rawQP: 48, rawKey: 40, rawModify: attributesSize, rawGone: 0,
	rawPost: wqe.BlockSize, rawPayload: 0, rawCQE: 8 + cqe.Size, rawGRH: 40, rawLost: 0, rawEnd: 0,
	rawDEVX: devxHead,
}

func (g *gatherer) record(p *process, x *raw) error {
	if x.kind == 0 || int(x.kind) >= len(least) {
		return fmt.Errorf("kind %d; 1 to %d are possible", x.kind, len(least)-1)
	}
	if len(x.data) < least[x.kind] {
		return fmt.Errorf("kind %d: %d bytes; it has %d: %w", x.kind, len(x.data), least[x.kind], errData)
	}
	switch x.kind {
	case rawEnd:
		p.ended = true
		return nil
	case rawLost:
		o := p.objects[x.id]
		if x.value == lostOwn && o != nil {
			if o.own {
				return nil // it was asked for again
			}
			o.own = true
		}
		g.summary.lost(x.value)
		return nil
	case rawContext, rawCQ, rawSRQ, rawQP, rawKey:
		return g.made(p, x)
	case rawDEVX:
		g.summary.unseen(p, x.data)
		return nil
	}
	o := p.objects[x.id]
	if o == nil {
		return fmt.Errorf("kind %d: there is no object %d", x.kind, x.id)
	}
	switch {
	case x.kind == rawGone:
		if o.qp != nil {
			o.qp.to = x.time
		}
		g.happenings = append(g.happenings, happening{time: x.time, kind: rawGone, object: o})
	case x.kind == rawCQE && o.kind == rawCQ:
		g.completion(p, o, x)
	case x.kind == rawGRH && o.kind == rawCQ && len(o.list) > 0:
		o.list[len(o.list)-1].grh = append([]byte(nil), x.data[:40]...)
	case o.qp == nil:
		return fmt.Errorf("kind %d: object %d is of kind %d", x.kind, x.id, o.kind)
	case x.kind == rawModify:
		g.modified(o, x)
	case x.kind == rawPost:
		if !o.qp.post(x) {
			g.summary.Gaps++
		}
	case x.kind == rawPayload:
		o.qp.payload(x)
	}
	return nil
}

// made notes a new object.
func (g *gatherer) made(p *process, x *raw) error {
	o := &object{kind: x.kind, process: p, context: p.objects[x.value]}
	word := func(i int) uint32 { return le.Uint32(x.data[4*i:]) }
	if x.kind != rawContext && (o.context == nil || o.context.kind != rawContext) {
		return fmt.Errorf("object %d: there is no device %d", x.id, x.value)
	}
	if p.objects[x.id] != nil {
		return fmt.Errorf("object %d is there already", x.id)
	}
	switch x.kind {
	case rawContext:
		o.gid, o.name = [16]byte(x.data), text(x.data[16:])
	case rawCQ:
		o.number, o.entries, o.size = word(0), word(1), word(2)
		g.cqs = append(g.cqs, o)
	case rawSRQ:
		o.number, o.pd, o.entries, o.size = word(0), word(1), word(2), word(3)
	case rawQP:
		q := &queue{object: o, from: x.time, to: math.MaxUint64, blocks: word(9), byIndex: map[uint16]int{}}
		q.transport = trace.Transport(min(word(8), driver))
		o.qp, o.number, o.pd, o.entries, o.size = q, word(6), word(7), word(10), word(11)
		for i, to := range []**object{&q.sendCQ, &q.recvCQ, &q.srq} {
			kind := uint8(rawCQ)
			if i == 2 {
				kind = rawSRQ
			}
			if used := p.objects[le.Uint64(x.data[8*i:])]; used != nil && used.kind == kind {
				*to = used
			}
		}
		g.queues = append(g.queues, q)
		o.context.queues = append(o.context.queues, o)
		g.summary.Queues++
	case rawKey:
		o.from = le.Uint64(x.data)
		o.key = trace.KeyInfo{Addr: le.Uint64(x.data[8:]), Length: le.Uint64(x.data[16:])}
		o.number, o.pd, o.rights = word(6), word(7), uint16(word(8))&0x1f
	}
	powers := bits.OnesCount32(o.entries) == 1 && bits.OnesCount32(o.size) == 1
	if (x.kind == rawCQ || x.kind == rawSRQ) && !powers {
		return fmt.Errorf("object %d: %d entries of %d bytes; powers of two are possible", x.id, o.entries,
			o.size)
	}
	p.objects[x.id] = o
	g.happenings = append(g.happenings, happening{time: x.time, kind: x.kind, object: o})
	return nil
}

// modified notes a new state. A queue pair that is reset after it was used begins another life.
func (g *gatherer) modified(o *object, x *raw) {
	q, a, reset := o.qp, parseAttributes(x.data), false
	if trace.State(a.state) == trace.RST {
		if len(q.works) > 0 || len(q.receives) > 0 {
			q.to, q.rest, q.byIndex = x.time, nil, nil
			q.next = &queue{object: o, from: x.time, to: math.MaxUint64, transport: q.transport,
				sendCQ: q.sendCQ, recvCQ: q.recvCQ, srq: q.srq, blocks: q.blocks}
			q, reset = q.next, true
			o.qp = q
			g.queues = append(g.queues, q)
		}
		q.rest, q.nextIndex, q.dest, q.gap = nil, 0, 0, false
		q.byIndex = map[uint16]int{}
	}
	if trace.State(a.state) == trace.RTR {
		q.dest = a.peer
	}
	if q.dest == 0 {
		a.peer = 0 // the library says which one an earlier life had
	}
	g.happenings = append(g.happenings, happening{time: x.time, kind: rawModify, object: o, attr: a,
		reset: reset})
}

// post notes blocks that were posted, and the WQEs that they have. It returns false if there are none between
// these and the last ones: then the life of q ends here, because later completions may belong to others.
func (q *queue) post(x *raw) bool {
	if q.gap {
		return true
	}
	if uint16(x.value) != q.nextIndex+uint16(len(q.rest)/wqe.BlockSize) {
		q.gap, q.rest, q.byIndex = true, nil, nil
		return false
	}
	if len(q.rest) == 0 {
		q.restTime = x.time
	}
	q.rest = append(q.rest, x.data[:len(x.data)&^(wqe.BlockSize-1)]...)
	for len(q.rest) >= wqe.BlockSize {
		ctrl := wqe.ParseCtrl((*[wqe.CtrlSize]byte)(q.rest))
		n := max(ctrl.Blocks(), 1) * wqe.BlockSize
		if len(q.rest) < n {
			return true
		}
		w := &work{queue: q, time: q.restTime, order: len(q.works), index: q.nextIndex, ctrl: ctrl}
		w.blocks = append(w.blocks, q.rest[:n]...)
		w.measure()
		q.byIndex[w.index] = len(q.works)
		q.works = append(q.works, w)
		q.nextIndex += uint16(n / wqe.BlockSize)
		q.rest = q.rest[n:]
	}
	return true
}

// measure finds out the length of the message of w, and to whom it goes.
func (w *work) measure() {
	kind := wqe.NoAddress
	if w.queue.transport == trace.UD {
		kind = wqe.AddressUD
		w.dest = be.Uint32(w.blocks[wqe.CtrlSize+8:]) & 0xffffff
	}
	v, err := wqe.Parse(w.blocks[:min(len(w.blocks), max(int(w.ctrl.DS), 1)*wqe.UnitSize)], kind)
	if err != nil {
		return
	}
	for list := v.Data(); ; {
		d, inline, ok := list.Next()
		switch {
		case !ok:
			return
		case d.Inline():
			w.length += uint64(len(inline))
		default:
			w.length += d.Length()
		}
	}
}

func (q *queue) payload(x *raw) {
	i, ok := q.byIndex[uint16(x.value)]
	if ok {
		w := q.works[i]
		w.payload = append(w.payload, piece{at: x.at, place: x.value >> 16, n: len(x.data)})
	}
}

func (g *gatherer) completion(p *process, cq *object, x *raw) {
	c := &completion{time: x.time, cq: cq, entry: [cqe.Size]byte(x.data[8:])}
	c.wc = cqe.ParseWC(&c.entry)
	if o := p.objects[le.Uint64(x.data)]; o != nil && o.qp != nil {
		c.qp = o.qp
		c.receive = append(c.receive, x.data[8+cqe.Size:]...)
	}
	cq.list = append(cq.list, c)
	g.happenings = append(g.happenings, happening{time: x.time, kind: rawCQE, object: cq, c: c})
	if c.qp != nil {
		c.qp.completed(c)
	}
}

// completed notes a completion of q.
func (q *queue) completed(c *completion) {
	format := cqe.OpOwn(c.entry[cqe.OffOpOwn]).Format()
	inline := format == cqe.FormatInline32 || format == cqe.FormatInline64
	failed := c.wc.Kind == cqe.ReqErr || c.wc.Kind == cqe.RespErr
	if !q.wasUserIndex && !failed && !inline {
		q.userIndex, q.wasUserIndex = c.wc.UIdx, true
	}
	if !c.wc.Requester() {
		if inline && !failed {
			q.scatter |= 2
		}
		q.receives = append(q.receives, c)
		return
	}
	if inline && !failed {
		q.scatter |= 1
	}
	i, ok := q.byIndex[c.wc.Counter]
	if !ok || q.works[i].done != nil {
		return
	}
	w := q.works[i]
	w.done, c.work = c, w
	w.failed, w.flushed = failed, failed && c.wc.Syndrome == cqe.Flush
	for ; q.known <= i; q.known++ {
		q.works[q.known].executed = true
	}
	if inline && !failed && w.ctrl.Opcode.Info().Reads {
		w.payload = nil // it was not in memory yet
		n := min(int(be.Uint32(c.entry[cqe.OffByteCount:])), cqe.MaxInline32)
		if w.ctrl.Opcode.Info().Atomic() {
			n = w.ctrl.OperandSize()
		}
		if format == cqe.FormatInline32 {
			w.payload = []piece{{n: n, data: bytes.Clone(c.entry[:min(n, cqe.MaxInline32)])}}
		}
	}
}
