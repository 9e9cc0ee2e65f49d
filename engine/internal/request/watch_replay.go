//go:build linux && (amd64 || arm64)

package request

import (
	"math/bits"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/trace"
)

// recordSetup records an event about an object of c for the watches of a mask. For those that record what a
// replay needs, setup appends to its data how the object was made.
func recordSetup(e Device, event *trace.Event, c *object.Client, mask uint32, setup func([]byte) []byte) {
	c.Shard.Taps.Record(mask&^e.WatchesReplay, event)
	mask &= e.WatchesReplay
	if mask != 0 {
		event.Data = setup(event.Data)
		c.Shard.Taps.Record(mask, event)
	}
}

// setupOf returns how a queue pair was made, and its attributes.
func setupOf(q *object.QP) *trace.QueueSetup {
	a := &q.Attr
	s := &trace.QueueSetup{PD: q.PD.ID, Access: a.Access, QKey: a.QKey, UserIndex: q.UIDX,
		MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
		RNRRetry: a.RNRRetry, RetryCount: a.RetryCount, Timeout: a.Timeout, LogStride: q.RQ.Stride}
	if q.RQ.Ring != nil {
		s.Flags |= trace.OwnReceives
	}
	if q.Signed {
		s.Flags |= trace.Signed
	}
	if q.FastOps != q.Allowed {
		s.Scatter |= control.ScatterRequester
	}
	if q.RQ.Inline != 0 {
		s.Scatter |= control.ScatterResponder
	}
	if q.SQ.Managed {
		s.Flags |= trace.Managed
	}
	if q.Regions[0] == nil && q.Transport <= control.QPTypeUD { // no ring of the client's
		s.Flags |= trace.NoSends
	}
	switch {
	case q.Source.Guarded():
		s.Doorbells = trace.Guarded
	case q.Source != nil:
		s.Doorbells = trace.RegisterStarts
	}
	return s
}

// recordQueues records what the queues of a queue pair are, for a watch of it alone.
func recordQueues(e Device, q *object.QP, mask uint32) {
	for i, c := range [...]*object.CQ{q.SQ.CQ, q.RQ.CQ} {
		if c != nil && c.Client != nil && (i == 0 || c != q.SQ.CQ) {
			recordCQ(e, c, mask, trace.KeyMade)
		}
	}
	if s := q.RQ.SRQ; s != nil {
		recordSRQ(e, s, mask, trace.KeyMade)
	}
	e.recordQueue(q, mask)
}

// recordCQ records for a replay that a completion queue was made, has changed or is gone.
func recordCQ(e Device, q *object.CQ, mask uint32, how uint16) {
	mask &= e.WatchesReplay
	if mask == 0 {
		return
	}
	s := trace.CQSetup{LogSize: uint8(q.Log), LogEntry: uint8(q.LogCQE)}
	if q.Collapsed {
		s.Flags |= control.CQCollapsed
	}
	if q.Ignore {
		s.Flags |= control.CQIgnoreOverrun
	}
	if q.Session != nil {
		s.Flags |= control.CQCompressed
	}
	q.Client.Shard.Taps.Record(mask, &trace.Event{Kind: trace.KindCQ, Time: clock.Now(), Queue: q.Num,
		Index: how, Value: uint64(q.Client.Number), Data: s.Append(nil)})
}

// recordSRQ records for a replay that a shared receive queue was made or is gone.
func recordSRQ(e Device, s *object.SRQ, mask uint32, how uint16) {
	mask &= e.WatchesReplay
	if mask == 0 {
		return
	}
	setup := trace.SRQSetup{PD: s.PD.ID, LogSize: log2(s.Mask), LogStride: uint8(s.Stride),
		UserIndex: s.UIDX, Cyclic: s.Cyclic}
	if s.XRCD != nil {
		setup.XRCD, setup.CQ = s.XRCD.Num, s.CQ.Num
	}
	s.Client.Shard.Taps.Record(mask, &trace.Event{Kind: trace.KindSRQ, Time: clock.Now(), Queue: s.Num,
		Index: how, Value: uint64(s.Client.Number), Data: setup.Append(nil)})
}

// listOf returns the pieces of a list. Those of one that repeats them are left out: no request makes it.
func listOf(k *object.Mkey) trace.KeyList {
	l := trace.KeyList{Invalidate: k.Inval}
	if k.Free || k.Rounds != 1 {
		return l
	}
	for i := range k.List {
		r := &k.List[i]
		l.Pieces = append(l.Pieces, trace.KeyPiece{Addr: r.Addr, N: r.N, Key: r.Key})
	}
	return l
}

// log2 returns the binary logarithm of the size of a queue with this mask.
func log2(mask uint16) uint8 { return uint8(bits.Len16(mask)) }
