//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/trace"
)

// Queue pairs that are recorded for a replay do not take the fast path, and no worker copies for them. Their
// payload is read once, into private memory: so the record has what the destination gets, even if a client
// changes the source meanwhile.

// recordedBytes is how many bytes of payload are in an event: fewer than trace.MaxData, and a part of the
// first cache.
const recordedBytes = 16 << 10

// moveRecorded is Move and moveUnmapped for a queue pair that is recorded for a replay.
func (sh *Executor) moveRecorded(q *object.QP, j *object.Job, budget int) (used int, v object.Verdict) {
	for (used < budget || j.Moved < Indivisible) && j.Moved < j.Total {
		n := min(uint64(max(budget-used, Indivisible)), j.Total-j.Moved, recordedBytes)
		// Of a scattered message no more at once than is contiguous on both sides: so the budget is kept.
		n = min(n, max(Indivisible, min(j.Src.Peek(n).N, j.Dst.Peek(n).N)))
		b := sh.Scratch.Unmapped.Between[:n]
		k, cost, gap := sh.copyPiecewise(&j.Src, b, false)
		used += cost + k
		if k == 0 {
			return used, sh.unreachable(q, j, gap)
		}
		b = b[:k]
		sh.Taps.Record(q.Replayable(), &trace.Event{Kind: trace.KindPayload, Time: sh.Clock(), Queue: q.Num,
			Index: uint16(q.SQ.Done), Value: trace.PayloadValue(j.Moved, b), Data: b})
		w, cost, gap := sh.copyPiecewise(&j.Dst, b, true)
		used += cost
		if w < k {
			return used, sh.unreachable(q, j, gap)
		}
		j.Moved += uint64(k)
	}
	return used, object.Accepted
}

// copyPiecewise copies the next bytes of l to b or, if write is true, b to the next bytes of l. l has them
// all. copyPiecewise advances l, and returns how many bytes it has copied, and what they cost besides their
// number. There are fewer than b has if memory of a process is missing: g is then the missing memory.
func (sh *mover) copyPiecewise(l *object.List, b []byte, write bool) (n, cost int, g object.Gap) {
	a := &sh.Scratch.Unmapped
	var pages lastPages
	for n < len(b) {
		s := l.Peek(uint64(len(b) - n))
		k := int(s.N)
		part := b[n : n+k]
		switch {
		case s.Process != nil:
			remote := procmem.Vec{Addr: s.Addr, Len: s.N}
			a.From[1], a.To[1] = remote, procmem.VecOf(part)
			copied := 0
			if write {
				c, e := s.Process.Write(a.To[:2], a.From[:2])
				copied, g = c, s.Gap(e, false, true)
			} else {
				c, e := s.Process.Read(&a.Seen, a.To[:2], a.From[:2])
				copied, g = c, s.Gap(e, true, false)
			}
			cost += CallCost
			if copied < k {
				l.Skip(uint64(copied))
				return n + copied, cost, g
			}
		case write:
			copy(s.Mem, part)
		default:
			copy(part, s.Mem)
		}
		if s.Process == nil && k < len(b) { // scattered, as moveJob counts it
			cost += pages.cost(s.Mem, part, k) - k
		}
		l.Skip(uint64(k))
		n += k
	}
	return n, cost, object.Gap{}
}

// recordReceive records a receive of the responder of j, which has been read, for a replay.
func (sh *responder) recordReceive(j *object.Job, entry []byte) {
	p := j.Peer
	e := trace.Event{Kind: trace.KindReceive, Time: sh.Clock(), Queue: p.Num, Index: j.Index,
		Value: uint64(p.Num), Data: entry}
	if j.SRQ != nil {
		e.Queue, e.Count = j.SRQ.Num, 1
	}
	sh.Taps.Record(p.Replayable(), &e)
}
