//go:build linux && (amd64 || arm64)

package replay

import (
	"encoding/binary"
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/field"
	"github.com/nicless/nicless/trace"
)

// An expectation is a completion of the trace.
type expectation struct {
	event uint64
	index uint64
	entry [cqe.Size]byte
}

func name(q *queue) string { return fmt.Sprintf("qp 0x%x", q.number) }

// completion expects the completions of an event.
func (r *replayer) completion(e *trace.Event) {
	q := r.cqs[e.Queue]
	if q == nil || len(e.Data) != cqe.Size {
		return
	}
	for i := range max(int(e.Count), 1) {
		x := expectation{r.report.Events, e.Value + uint64(i), e.CompletionAt(i)}
		w := cqe.ParseWC(&x.entry)
		if r.plan.out[w.QPN] != "" {
			q.shifted = true
			continue
		}
		q.expected = append(q.expected, x)
		p := r.queues[w.QPN]
		if p == nil {
			continue
		}
		if w.Kind == cqe.RespErr || w.Syndrome == cqe.Flush {
			if w.Kind == cqe.RespErr && w.Syndrome == cqe.Flush && p.srq == nil {
				p.postReceive(w.Counter + 1)
			}
			r.until(func() bool {
				q.poll()
				return len(q.found) >= len(q.expected) || w.Syndrome != cqe.Flush
			})
		}
	}
	r.match(q)
}

// poll takes the completions off the queue.
func (q *cq) poll() {
	for {
		at := cqe.EntryOffset(q.next&(1<<q.log-1), uint(q.setup.LogEntry))
		b := (*[cqe.Size]byte)(q.ring[at:])
		op := b[cqe.Size-1]
		if op>>4 == 0xf || uint64(op&1) != q.next>>q.log&1 {
			return
		}
		q.found = append(q.found, *b)
		q.next++
	}
}

func (r *replayer) pollAll() {
	for _, q := range r.cqs {
		q.poll()
		r.match(q)
	}
}

// match compares completions that are both in the trace and in the queue.
func (r *replayer) match(q *cq) {
	n := min(len(q.expected), len(q.found))
	for i := range n {
		r.compare(q, &q.expected[i], &q.found[i])
	}
	q.expected = q.expected[:copy(q.expected, q.expected[n:])]
	q.found = q.found[:copy(q.found, q.found[n:])]
}

// Bytes of a completion that are not compared.
const (
	timeStamp = 48 // 8 bytes
	counter   = 60 // 2 bytes: compared, but for the entries of shared receive queues
	signature = 62
)

func (r *replayer) compare(q *cq, want *expectation, got *[cqe.Size]byte) {
	r.report.CQEs++
	a, b := want.entry, *got
	w := cqe.ParseWC(&want.entry)
	if p := r.queues[w.QPN]; p != nil && p.srq != nil && !w.Requester() {
		if was, ok := p.srq.was[cqe.ParseWC(got).Counter]; ok {
			binary.BigEndian.PutUint16(b[counter:], was)
		}
	}
	for _, x := range []*[cqe.Size]byte{&a, &b} {
		clear(x[timeStamp : timeStamp+8])
		x[signature] = 0
		if q.collapsed || q.shifted {
			x[cqe.Size-1] &^= 1
		}
	}
	if q.setup.LogEntry == 7 && cqe.OpOwn(a[cqe.Size-1]).Format() == cqe.FormatInline64 {
		clear(a[:timeStamp])
		clear(b[:timeStamp])
	}
	if a == b {
		return
	}
	var values []Value
	before, _ := cqe.Describe(a[:])
	after, _ := cqe.Describe(b[:])
	have := map[string]string{}
	flatten(after, "", func(name, value string) { have[name] = value })
	flatten(before, "", func(name, value string) {
		if got, ok := have[name]; !ok || got != value {
			values = append(values, Value{name, value, map[bool]string{true: got, false: "absent"}[ok]})
		}
	})
	if len(values) == 0 {
		at := 0
		for a[at] == b[at] {
			at++
		}
		values = append(values, Value{fmt.Sprintf("byte %d", at), fmt.Sprintf("0x%02x", a[at]),
			fmt.Sprintf("0x%02x", b[at])})
	}
	kind := "receive"
	if w.Requester() {
		kind = "wqe"
	}
	r.differ(fmt.Sprintf("cq 0x%x entry %d, of qp 0x%x %s %d", q.number, want.index, w.QPN, kind, w.Counter),
		"the completion differs", values...)
}

// flatten calls f with all values of a tree.
func flatten(t field.Tree, before string, f func(name, value string)) {
	for _, x := range t {
		switch {
		case x.Sub != nil:
			flatten(x.Sub, before+x.Name+".", f)
		case x.Name != "":
			value := fmt.Sprint(x.Value)
			if b, ok := x.Value.(field.Bytes); ok {
				value = fmt.Sprintf("%x", []byte(b))
			}
			if x.Text != "" && len(x.Text) < 40 {
				value += " (" + x.Text + ")"
			}
			f(before+x.Name, value)
		}
	}
}

// endCQ forgets a completion queue, and notes what is left of it.
func (r *replayer) endCQ(q *cq) {
	q.poll()
	r.match(q)
	delete(r.cqs, q.number)
	r.leftovers(q)
}

// leftovers notes completions that were only in the trace, or only in the queue.
func (r *replayer) leftovers(q *cq) {
	for i := range q.expected {
		w := cqe.ParseWC(&q.expected[i].entry)
		if r.plan.out[w.QPN] == "" {
			r.differ(fmt.Sprintf("cq 0x%x entry %d", q.number, q.expected[i].index),
				fmt.Sprintf("the completion of qp 0x%x, index %d, is missing", w.QPN, w.Counter))
		}
	}
	for i := range q.found {
		w := cqe.ParseWC(&q.found[i])
		if r.plan.out[w.QPN] == "" {
			r.differ(fmt.Sprintf("cq 0x%x", q.number),
				fmt.Sprintf("a completion of qp 0x%x, index %d, that the trace does not have", w.QPN, w.Counter))
		}
	}
}

// finish ends the replay.
func (r *replayer) finish() {
	r.steps()
	r.pollAll()
	for _, q := range r.cqs {
		r.leftovers(q)
	}
}
