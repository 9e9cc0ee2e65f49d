//go:build linux && (amd64 || arm64)

package report

import (
	"fmt"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
)

// TraceState returns a state as events have it: with the number of enum ibv_qp_state. Those of requests and
// of mlx5 (control.State*) have SQE before SQD.
func TraceState(state uint8) trace.State {
	switch state {
	case control.StateSQD:
		return trace.SQD
	case control.StateSQE:
		return trace.SQE
	}
	return trace.State(state)
}

// RecordState records that the watched queue pair q goes from one state to another.
func (sh *Reporter) RecordState(q *object.QP, from, to uint8) {
	sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindState, Time: clock.Now(), Queue: q.Num,
		Index: uint16(q.SQ.Done), Count: uint16(TraceState(from))<<8 | uint16(TraceState(to))})
}

// RecordFail records that the WQE at the head of the watched queue pair q, which has n blocks, has failed.
func (sh *Reporter) RecordFail(q *object.QP, n int, s cqe.Syndrome) {
	sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindFail, Time: clock.Now(), Queue: q.Num,
		Index: uint16(q.SQ.Done), Count: uint16(n), Value: uint64(s)})
}

// recordExplanation records an explanation for the watches of the client that it is for.
func (sh *Reporter) recordExplanation(s *Subject, code codes.Code, format string, args []any) {
	b := make([]byte, trace.CodeSize, trace.CodeSize+len(format)*2)
	copy(b, code.String())
	sh.Taps.Record(s.Client.Watched, &trace.Event{Kind: trace.KindExplanation, Time: clock.Now(),
		Queue: s.Number, Index: s.Index, Count: uint16(s.Kind), Value: uint64(s.Client.Number),
		Data: fmt.Appendf(b, format, args...)})
}

// RecordReceive records a receive of the responder of j, which has been read, for a replay.
func (sh *Reporter) RecordReceive(j *object.Job, entry []byte) {
	p := j.Peer
	e := trace.Event{Kind: trace.KindReceive, Time: clock.Now(), Queue: p.Num, Index: j.Index,
		Value: uint64(p.Num), Data: entry}
	if j.SRQ != nil {
		e.Queue, e.Count = j.SRQ.Num, 1
	}
	sh.Taps.Record(p.Replayable(), &e)
}
