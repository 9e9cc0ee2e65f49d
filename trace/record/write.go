package record

import (
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// A writer writes the events of a trace.
type writer struct {
	t       *trace.Writer
	err     error
	time    uint64
	number  uint32
	clients uint32
	place   map[*object]uint64 // of each completion queue: the next entry
	buf     []byte
	summary *Summary
}

// Write reads raw files, one of each process, and writes a trace. A file that is no raw file of this version,
// or is damaged, is an error that names it.
func Write(out io.Writer, files []File) (*Summary, error) {
	s := &Summary{}
	g := &gatherer{summary: s}
	for _, f := range files {
		if err := g.read(f.In, f.Size); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if len(g.happenings) == 0 {
		return nil, ErrNothing
	}
	g.sort()
	g.leaveOut()
	g.match()
	first := g.processes[0].reader
	t, err := trace.NewWriter(out, trace.Clock{Hz: 1e9, Ticks: first.mono, Unix: int64(first.wall)})
	if err != nil {
		return nil, err
	}
	for _, q := range slices.Backward(g.queues) {
		q.object.qp = q // the events begin with the first life
	}
	w := &writer{t: t, time: g.happenings[0].time, place: map[*object]uint64{}, summary: s}
	if err := w.run(g); err != nil {
		return nil, err
	}
	s.finish(g)
	return s, t.Close(w.time, false)
}

// A File is a raw file.
type File struct {
	Name string // for errors
	In   io.ReaderAt
	Size int64
}

func (w *writer) event(e trace.Event) {
	if w.err == nil {
		e.Time, e.Number = w.time, w.number
		w.number++
		w.err = w.t.Write(&e)
	}
}

func (w *writer) made(o *object) {
	if o.before != nil {
		w.rest(o.before)
		w.gone(o.before)
	}
	if o.left {
		return
	}
	switch o.kind {
	case rawContext:
		w.clients++
		o.client = w.clients
		r := o.process.reader
		w.event(trace.Event{Kind: trace.KindClient, Queue: o.client, Value: uint64(r.pid),
			Data: fmt.Appendf(nil, "pid %d uid %d %q %s", r.pid, r.uid, r.program, o.name)})
	case rawCQ:
		w.cq(o, trace.KeyMade)
	case rawSRQ:
		w.srq(o, trace.KeyMade)
	case rawKey:
		w.key(o, trace.KeyMade)
	case rawQP:
		w.queue(o.qp)
	}
}

func log(n uint32) uint8 { return uint8(bits.TrailingZeros32(n)) }

func (w *writer) cq(o *object, change uint16) {
	c := trace.CQSetup{LogSize: log(o.entries), LogEntry: log(o.size)}
	w.event(trace.Event{Kind: trace.KindCQ, Queue: o.number, Index: change, Value: uint64(o.context.client),
		Data: c.Append(nil)})
}

func (w *writer) srq(o *object, change uint16) {
	s := trace.SRQSetup{PD: o.pd, LogSize: log(o.entries), LogStride: log(o.size)}
	w.event(trace.Event{Kind: trace.KindSRQ, Queue: o.number, Index: change, Value: uint64(o.context.client),
		Data: s.Append(nil)})
}

func (w *writer) key(o *object, change uint16) {
	info := o.key
	info.Client = o.context.client
	w.event(trace.Event{Kind: trace.KindKey, Queue: o.number, Index: change, Count: o.rights,
		Data: trace.KeySetup{From: o.from, PD: o.pd}.Append(info.Append(nil))})
}

func (w *writer) gone(o *object) {
	if o.left || o.gone {
		return
	}
	o.gone = true
	switch o.kind {
	case rawContext:
		w.event(trace.Event{Kind: trace.KindClientGone, Queue: o.client})
	case rawCQ:
		w.cq(o, trace.KeyGone)
	case rawSRQ:
		w.srq(o, trace.KeyGone)
	case rawKey:
		w.key(o, trace.KeyGone)
	case rawQP:
		w.event(trace.Event{Kind: trace.KindQueueGone, Queue: o.number})
	}
}

// queue says what q is now.
func (w *writer) queue(q *queue) {
	a := &q.now
	info := trace.QueueInfo{SendCQ: q.sendCQ.numberOf(), RecvCQ: q.recvCQ.numberOf(), SRQ: q.srq.numberOf(),
		SendPSN: a.sqPSN, RecvPSN: a.rqPSN, SendBlocks: q.blocks, RecvEntries: q.entries, MTU: a.mtu,
		GID: q.context.gid}
	setup := trace.QueueSetup{PD: q.pd, Access: a.access & 0x1f, QKey: a.qkey, UserIndex: q.userIndex,
		MaxRdAtomic: a.maxRd, MaxDestRdAtomic: a.maxDestRd, MinRNRTimer: a.minRNR, RNRRetry: a.rnrRetry,
		RetryCount: a.retryCount, Timeout: a.timeout, Scatter: q.scatter}
	if q.transport != trace.UD {
		info.Peer = a.peer
	}
	if q.peer != nil {
		info.PeerGID = q.peer.context.gid
	} else if a.peer != 0 && q.transport != trace.UD {
		info.Port = max(uint32(a.port), 1) // a queue pair with the number of its peer may be another one
	}
	if q.srq == nil && q.entries > 0 {
		setup.Flags, setup.LogStride = trace.OwnReceives, log(q.object.size)
	}
	w.event(trace.Event{Kind: trace.KindQueue, Queue: q.number, Index: uint16(a.state),
		Count: uint16(q.transport), Value: uint64(q.context.client), Data: setup.Append(info.Append(nil))})
}

func (w *writer) modify(h *happening) {
	q, to := h.object.qp, trace.State(h.attr.state)
	if q.left {
		return
	}
	switch {
	case h.reset:
		w.end(q)
	case to == trace.RST, to == trace.ERR:
		w.posted(q, w.time)
	}
	w.state(q, to)
	if h.reset {
		q = q.next
		h.object.qp = q
	}
	q.now = h.attr
	w.queue(q)
}

// numberOf returns the number of o, 0 if it is nil.
func (o *object) numberOf() uint32 {
	if o == nil {
		return 0
	}
	return o.number
}

// state says that q has another state.
func (w *writer) state(q *queue, to trace.State) {
	if from := trace.State(q.now.state); from != to {
		index := uint16(0)
		if q.written > 0 {
			last := q.works[q.written-1]
			index = last.index + uint16(len(last.blocks)/wqe.BlockSize)
		}
		w.event(trace.Event{Kind: trace.KindState, Queue: q.number, Index: index,
			Count: uint16(from)<<8 | uint16(to)})
		q.now.state = uint8(to)
	}
}

// write writes a WQE: how it was fetched, what it took and moved, its completions, and its end.
func (w *writer) write(x *work) {
	q, n := x.queue, uint16(len(x.blocks)/wqe.BlockSize)
	x.out = true
	q.written = x.order + 1
	if x.flushed {
		w.state(q, trace.ERR)
	}
	w.event(trace.Event{Kind: trace.KindDoorbell, Queue: q.number, Index: x.index, Count: n,
		Value: uint64(x.index + n)})
	w.event(trace.Event{Kind: trace.KindFetch, Queue: q.number, Index: x.index, Count: n, Data: x.blocks})
	w.summary.WQEs++
	if x.flushed {
		w.completion(x.done)
		return
	}
	if c := x.taken; c != nil && len(c.receive) > 0 {
		e := trace.Event{Kind: trace.KindReceive, Queue: c.qp.number, Index: c.wc.Counter,
			Value: uint64(c.qp.number), Data: c.receive}
		if c.qp.srq != nil {
			e.Queue, e.Count = c.qp.srq.number, 1
		}
		w.event(e)
	}
	moved := w.payload(x)
	for _, c := range []*completion{x.taken, x.done} {
		if c != nil {
			w.completion(c)
		}
	}
	if x.failed {
		w.event(trace.Event{Kind: trace.KindFail, Queue: q.number, Index: x.index, Count: n,
			Value: uint64(x.done.wc.Syndrome)})
		to := trace.ERR
		if q.transport != trace.RC {
			to = trace.SQE
		}
		w.state(q, to)
		return
	}
	w.event(trace.Event{Kind: trace.KindExecute, Queue: q.number, Index: x.index, Count: n, Value: moved})
}

// payload writes the bytes that x has moved, and returns their number.
func (w *writer) payload(x *work) (moved uint64) {
	if x.failed {
		return 0
	}
	list := x.payload
	var before []byte
	if x.queue.transport == trace.UD {
		if x.taken == nil {
			return 0 // it was lost
		}
		before = x.taken.grh
		switch x.headerOf(before) {
		case 0:
			w.summary.Headers++
			return 0
		case 4:
			clear(before[:20]) // before a header of IPv4 they are not defined, and a replay has 0
		}
	}
	for i, p := range list {
		w.buf = append(w.buf[:0], make([]byte, p.n)...)
		if p.data != nil {
			copy(w.buf, p.data)
		} else if _, err := x.queue.process.in.ReadAt(w.buf, p.at); err != nil && w.err == nil {
			w.err = err
		}
		data, at := w.buf, p.place
		if i == 0 && at == uint64(len(before)) && len(before)+len(data) <= trace.MaxData {
			data, at = append(append([]byte(nil), before...), data...), 0
		}
		w.event(trace.Event{Kind: trace.KindPayload, Queue: x.queue.number, Index: x.index,
			Value: trace.PayloadValue(at, data), Data: data})
		moved += uint64(len(data))
	}
	return moved
}

// completion writes a completion at the next place of its queue.
func (w *writer) completion(c *completion) {
	if c.written || c.dropped {
		return
	}
	if q := c.qp; c.wc.Kind == cqe.RespErr && c.wc.Syndrome == cqe.Flush && !q.left {
		w.state(q, trace.ERR)
	}
	c.written = true
	at := w.place[c.cq]
	w.place[c.cq]++
	b := c.entry
	b[cqe.OffOpOwn] = b[cqe.OffOpOwn]&^1 | byte(at>>log(c.cq.entries)&1)
	w.event(trace.Event{Kind: trace.KindCQE, Queue: c.cq.number, Index: uint16(at), Count: 1, Value: at,
		Data: b[:]})
	w.summary.Completions++
}
