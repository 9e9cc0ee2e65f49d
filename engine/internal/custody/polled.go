//go:build linux && (amd64 || arm64)

package custody

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/trace"
)

// mostCQs is for how many completion queues of a client it is noted how far they were polled, whenever it
// posts. For clients with more, those of the queue pair that is visited are noted: a visit is to be short.
const mostCQs = 16

// polled records how far the client has taken completions.
func (w *work) polled(k *kept) {
	if len(k.polled) > 2*mostCQs {
		clear(k.polled) // most are gone: an event that repeats does no harm, a map that only grows does
	}
	all := w.q.Client.CQs
	if len(all) <= mostCQs {
		for _, q := range all {
			w.polledOf(k, q)
		}
		return
	}
	w.polledOf(k, w.q.SQ.CQ)
	w.polledOf(k, w.q.RQ.CQ)
}

func (w *work) polledOf(k *kept, q *object.CQ) {
	if q != nil && observe(q) && q.Taken != k.polled[q.Num] {
		k.polled[q.Num] = q.Taken
		recordPolled(&w.sh.Shard, q, w.mask)
	}
}

// RecordLastPolled records how far the completions of q were taken when q is destroyed, for watches of a mask
// that watch for the sanitizer.
func RecordLastPolled(sh *object.Shard, q *object.CQ, mask uint32) {
	if mask != 0 && observe(q) {
		recordPolled(sh, q, mask)
	}
}

// RecordLastPolledBy records how far the completions of q were taken when q is destroyed. Right after that
// libmlx5 removes those of q, as if they were taken.
func RecordLastPolledBy(sh *object.Shard, q *object.QP, mask uint32) {
	RecordLastPolled(sh, q.SQ.CQ, mask)
	if q.RQ.CQ != q.SQ.CQ {
		RecordLastPolled(sh, q.RQ.CQ, mask)
	}
}

// observe reads the consumer index of q into q.Taken, and reports whether that says how far q was polled.
//
// Observe: consumer index. Published by hostpath.CQ.Poll.
func observe(q *object.CQ) bool {
	if q.Consumer == nil { // a target of XRC and the send queue of a DCT have no completions of their own
		return false
	}
	return !q.Collapsed && !q.Ignore && !q.Dead && readable(func() { q.Room(0) })
}

func recordPolled(sh *object.Shard, q *object.CQ, mask uint32) {
	sh.Taps.Record(q.Watched&mask, &trace.Event{Kind: trace.KindPolled, Time: clock.Now(), Queue: q.Num,
		Index: uint16(q.Taken), Value: q.Taken})
}
