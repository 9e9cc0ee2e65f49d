package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/wqe"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otel "go.opentelemetry.io/otel/trace"
)

// Bounds on what is kept of a queue pair, and of all, if completions do not come or events are lost.
const (
	mostRings = 64
	mostOpen  = 1 << 16
)

// A recorder turns the events of an engine into spans. An operation begins when the device finds its
// doorbell, and ends when it is executed and its completion, if it has one, is written.
type recorder struct {
	tracer otel.Tracer
	clock  trace.Clock
	table  objects.Table
	rings  map[uint32][]ring
	open   map[uint32][]*operation // of each queue pair, in the order of their WQEs
	count  int                     // operations in open
	ended  int                     // spans so far
}

// A ring is a doorbell: the blocks that it has announced, and when.
type ring struct {
	first, blocks uint16
	at            time.Time
}

// An operation is a WQE whose span has not ended.
type operation struct {
	span            otel.Span
	index           uint16
	last            time.Time
	executed        bool // or failed, or left to the link
	completed       bool
	needsCompletion bool
}

func newRecorder(t otel.Tracer, c trace.Clock) *recorder {
	return &recorder{tracer: t, clock: c, rings: map[uint32][]ring{}, open: map[uint32][]*operation{}}
}

// event takes the next event of the engine.
func (r *recorder) event(e *trace.Event) {
	r.table.Event(e)
	at := time.Unix(0, r.clock.Unix).Add(r.clock.Since(e.Time))
	switch e.Kind {
	case trace.KindDoorbell:
		list := append(r.rings[e.Queue], ring{e.Index, e.Count, at})
		r.rings[e.Queue] = list[max(0, len(list)-mostRings):]
	case trace.KindFetch:
		for _, w := range r.table.Last() {
			if w.Whole() && !w.Again {
				r.start(e.Queue, w, at)
			}
		}
	case trace.KindExecute:
		r.each(e.Queue, e.Index, e.Count, func(o *operation) { o.mark("execute", at); o.executed = true })
	case trace.KindFail:
		s := cqe.Syndrome(e.Value)
		r.each(e.Queue, e.Index, max(e.Count, 1), func(o *operation) {
			o.mark("fail", at)
			o.span.SetStatus(codes.Error, s.Error())
			o.executed, o.needsCompletion = true, true
		})
	case trace.KindExplanation:
		r.explain(e, at)
	case trace.KindCQE:
		if qp, index, ok := objects.Completes(e); ok {
			r.complete(qp, index, at)
		}
	case trace.KindLost:
		r.dropAll()
	case trace.KindQueueGone:
		r.drop(e.Queue)
	}
}

// start begins the span of a WQE, at the time of the doorbell that announced it.
func (r *recorder) start(queue uint32, w *objects.WQE, at time.Time) {
	if r.count >= mostOpen {
		r.dropAll()
	}
	begin := at
	for _, d := range r.rings[queue] {
		if w.Index-d.first < d.blocks {
			begin = d.at
		}
	}
	q := r.table.Queue(queue)
	attributes := []attribute.KeyValue{
		attribute.String("rdma.operation.name", w.Ctrl.Opcode.String()),
		attribute.Int64("rdma.queue_pair", int64(queue)),
		attribute.Int("rdma.wqe.index", int(w.Index)),
	}
	linked := false
	if q != nil {
		linked = q.Info.Port != 0
		attributes = append(attributes, attribute.String("rdma.transport", q.Transport.String()),
			attribute.Int64("rdma.peer.queue_pair", int64(q.Info.Peer)))
		if c := r.table.Client(q.Client); c != nil {
			attributes = append(attributes, attribute.Int64("process.pid", int64(c.PID)),
				attribute.String("process.executable.name", strings.ToValidUTF8(c.Program(), "?")))
		}
	}
	_, span := r.tracer.Start(context.Background(), w.Ctrl.Opcode.String(), otel.WithTimestamp(begin),
		otel.WithSpanKind(otel.SpanKindClient), otel.WithAttributes(attributes...))
	span.AddEvent("doorbell", otel.WithTimestamp(begin))
	span.AddEvent("fetch", otel.WithTimestamp(at))
	r.open[queue] = append(r.open[queue], &operation{span: span, index: w.Index, last: at, executed: linked,
		needsCompletion: linked || w.Ctrl.Flags&wqe.CEMask == wqe.CEAlways})
	r.count++
}

// mark adds an event to the span.
func (o *operation) mark(name string, at time.Time) {
	o.span.AddEvent(name, otel.WithTimestamp(at))
	if at.After(o.last) {
		o.last = at
	}
}

// each calls visit for the operations that begin in a range of blocks, and ends the spans that are complete.
func (r *recorder) each(queue uint32, index, blocks uint16, visit func(*operation)) {
	for _, o := range r.open[queue] {
		if o.index-index < blocks {
			visit(o)
		}
	}
	r.end(queue, func(o *operation) bool { return o.executed && (o.completed || !o.needsCompletion) })
}

// complete marks the operations up to the WQE index: a completion completes those before its WQE, too.
func (r *recorder) complete(queue uint32, index uint16, at time.Time) {
	for _, o := range r.open[queue] {
		if int16(o.index-index) <= 0 && !o.completed {
			o.mark("completion", at)
			o.completed = true
		}
	}
	r.each(queue, 0, 0, nil)
}

// explain adds the reason of a failure to the operation that it is about.
func (r *recorder) explain(e *trace.Event, at time.Time) {
	const ofWQE = 0
	if e.Count != ofWQE || len(e.Data) < trace.CodeSize {
		return
	}
	code := strings.TrimRight(string(e.Data[:trace.CodeSize]), "\x00")
	text := strings.ToValidUTF8(string(e.Data[trace.CodeSize:]), "?")
	r.each(e.Queue, e.Index, 1, func(o *operation) {
		o.span.SetAttributes(attribute.String("error.type", code))
		o.span.AddEvent("explanation", otel.WithTimestamp(at), otel.WithAttributes(
			attribute.String("rdma.explanation.code", code), attribute.String("rdma.explanation.text", text)))
	})
}

// end ends the spans of a queue pair that are complete.
func (r *recorder) end(queue uint32, complete func(*operation) bool) {
	list := r.open[queue]
	kept := list[:0]
	for _, o := range list {
		if !complete(o) {
			kept = append(kept, o)
			continue
		}
		o.span.End(otel.WithTimestamp(o.last))
		r.ended++
	}
	clear(list[len(kept):])
	r.count -= len(list) - len(kept)
	r.open[queue] = kept
}

// drop ends the spans of a queue pair that is gone: their operations never completed.
func (r *recorder) drop(queue uint32) {
	for _, o := range r.open[queue] {
		o.span.SetStatus(codes.Error, fmt.Sprintf("the end of the operation at WQE %d was not seen", o.index))
	}
	r.end(queue, func(*operation) bool { return true })
	delete(r.open, queue)
	delete(r.rings, queue)
}

// dropAll ends all spans: events were lost, or too many operations are open.
func (r *recorder) dropAll() {
	for queue := range r.open {
		r.drop(queue)
	}
}
