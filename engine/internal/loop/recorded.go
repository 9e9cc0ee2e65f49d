//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/procmem"
	"github.com/nicless/nicless/trace"
)

// Queue pairs that are recorded for a replay do not take the fast path, and no worker copies for them. Their
// payload is read once, into private memory: so the record has what the destination gets, even if a client
// changes the source meanwhile.

// recordedBytes is how many bytes of payload are in an event: fewer than trace.MaxData, and a part of the
// first cache.
const recordedBytes = 16 << 10

// burstRecorded is Burst for a queue pair that is recorded for a replay. It executes one WQE, or goes on with
// a transfer, in the same steps as Burst.
func (sh *Loop) burstRecorded(q *object.QP, n uint16) (done int) {
	bytes := sh.Sched.Slice
	sh.Sched.Effort = 0
	defer func() { sh.Sched.Spent = sh.Sched.Slice - bytes }()
	if n == 0 || bytes <= 0 {
		return 0
	}
	j := q.Job
	if j != nil && !sh.ResumeJob(q) {
		return 1 // in the next visit it is checked again
	}
	if j == nil {
		sh.Snapshot(q)
		if v := sh.Check(q, n); v > object.Lost { // Waiting or Failed
			if v == object.Failed {
				done++
			}
			return done
		}
		j = sh.Scratch.Job
	}
	done++
	bytes -= sh.Sched.Effort
	sh.Sched.Effort = 0
	if j.Fault != 0 {
		sh.MemoryFault(q, j.Fault)
		return done
	}
	budget := max(bytes, execution.Indivisible)
	if q.Transport == control.QPTypeUD {
		budget = execution.DatagramBudget
	}
	used, v := sh.moveRecorded(q, j, budget)
	bytes -= used
	if v > object.Lost { // Failed
		return done
	}
	if !j.Over() {
		if q.Job == nil {
			sh.KeepJob(q)
		}
		return done
	}
	sh.Finish(q, j)
	sh.EndJob(q)
	return done
}

// moveRecorded is Move and moveUnmapped for a queue pair that is recorded for a replay.
func (sh *Loop) moveRecorded(q *object.QP, j *object.Job, budget int) (used int, v object.Verdict) {
	for (used < budget || j.Moved < execution.Indivisible) && j.Moved < j.Total {
		n := min(uint64(max(budget-used, execution.Indivisible)), j.Total-j.Moved, recordedBytes)
		// Of a scattered message no more at once than is contiguous on both sides: so the budget is kept.
		n = min(n, max(execution.Indivisible, min(j.Src.Peek(n).N, j.Dst.Peek(n).N)))
		b := sh.Scratch.Unmapped.Between[:n]
		k, cost, gap := copyPiecewise(sh, &j.Src, b, false)
		used += cost + k
		if k == 0 {
			return used, sh.Unreachable(q, j, gap)
		}
		b = b[:k]
		sh.Taps.Record(q.Replayable(), &trace.Event{Kind: trace.KindPayload, Time: sh.Clock(), Queue: q.Num,
			Index: uint16(q.SQ.Done), Value: trace.PayloadValue(j.Moved, b), Data: b})
		w, cost, gap := copyPiecewise(sh, &j.Dst, b, true)
		used += cost
		if w < k {
			return used, sh.Unreachable(q, j, gap)
		}
		j.Moved += uint64(k)
	}
	return used, object.Accepted
}

// copyPiecewise copies the next bytes of l to b or, if write is true, b to the next bytes of l. l has them
// all. copyPiecewise advances l, and returns how many bytes it has copied, and what they cost besides their
// number. There are fewer than b has if memory of a process is missing: g is then the missing memory.
func copyPiecewise(sh *Loop, l *object.List, b []byte, write bool) (n, cost int, g object.Gap) {
	a := &sh.Scratch.Unmapped
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
			cost += execution.CallCost
			if copied < k {
				l.Skip(uint64(copied))
				return n + copied, cost, g
			}
		case write:
			copy(s.Mem, part)
		default:
			copy(part, s.Mem)
		}
		if s.Process == nil && k < len(b) { // scattered; each piece may be in another page
			cost += copying.PageCost
		}
		l.Skip(uint64(k))
		n += k
	}
	return n, cost, object.Gap{}
}
