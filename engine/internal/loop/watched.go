//go:build linux && (amd64 || arm64)

package loop

import (
	"math/bits"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
)

// copiedBlocks is how many blocks of a watched queue are copied at once: a power of two, enough for the
// largest WQE and for a visit with the usual Config.Burst, and few enough to stay in the first cache.
const copiedBlocks = 64

// A copiedQueue is private memory for blocks of the watched queue that is being visited. The block with
// the index n is at n modulo copiedBlocks.
type copiedQueue struct {
	blocks shm.Ring
	bytes  []byte
	record *shm.BE32 // see rung.go
}

func newCopiedQueue() copiedQueue {
	b := new([copiedBlocks * wqe.BlockSize]byte)[:]
	return copiedQueue{shm.RingOf(b), b, shm.BE32At(make([]byte, 8), 0)}
}

// visitAside is Visit for a queue pair that is on a wire, watched or faulty, or has a Source.
func (sh *Loop) visitAside(q *object.QP) int {
	if q.Source == nil {
		return visitAnnounced(sh, q)
	}
	copied := sh.Admit(q, uint64(min(2*sh.Settings.Burst, admitMost)))
	done := visitAnnounced(sh, q)
	sh.Sched.Spent += copied * wqe.BlockSize // the client pays for the copy in its turn
	return done
}

// admitMost is the most blocks of a guarded queue that are copied ahead of what has been executed, but for
// the end of a WQE: as many as a visit with the usual Config.Burst executes if each WQE has two blocks.
const admitMost = 64

// visitAnnounced is visitAside after what has arrived has been admitted.
func visitAnnounced(sh *Loop, q *object.QP) int {
	if f := q.Faults; f != nil && f.Bell != nil && q.Attr.State == control.StateRTS {
		return sh.visitRung(q)
	}
	return sh.visitOwn(q)
}

// visitOwn is visitAside, by the send record that q has. If q is watched for the sanitizer, that may hold its
// WQEs back.
func (sh *Loop) visitOwn(q *object.QP) int {
	if q.Watched == 0 { // most queue pairs on wires: nothing else is read for them
		return visitReleased(sh, q)
	}
	mask := q.Watched & q.Client.Device.WatchesSanitize
	if mask == 0 {
		return visitReleased(sh, q)
	}
	restore, spent, ok := sh.Custody.Admit(&sh.Executor, q, mask)
	defer func() { // also after a fault of memory
		restore()
		sh.Sched.Spent += spent // the client pays for the checksums in its turn
	}()
	if !ok {
		noteDeadline(&sh.Pass, q) // it may have looked at the stalled queues already
		return 0
	}
	return visitReleased(sh, q)
}

// visitReleased is visitOwn for what nothing holds back.
func visitReleased(sh *Loop, q *object.QP) int {
	switch {
	case q.Wire != nil && q.Wire.Watched:
		return sh.visitWatchedWire(q)
	case q.Wire != nil:
		return sh.VisitWire(q)
	case q.Attr.State == control.StateERR || q.Attr.State == control.StateSQE:
		n := sh.Pending(q) // read once: the client may announce more meanwhile
		if n > 0 && q.Replayable() != 0 {
			sh.recordBlocks(q, q.SQ.Done, q.SQ.Done+uint64(n)) // a replay posts what is flushed
		}
		return sh.Flush(q, n)
	}
	// Nothing is recorded of a queue pair that is not watched, only faulty.
	return sh.visitWatched(q)
}

// visitWatched is Visit for a watched queue pair that is not in error. It does not read the BlueFlame
// register, which is only a hint: the record announces what the register has.
func (sh *Loop) visitWatched(q *object.QP) int {
	n := uint16(0)
	switch q.Attr.State {
	case control.StateRTS:
		if q.Stall.Kind != object.NoStall {
			return 0
		}
		n = sh.Pending(q)
	case control.StateSQD:
	default:
		return 0
	}
	if q.Job != nil {
		n = max(n, uint16(q.Job.Blocks)) // for the reason given in Visit
	}
	if n == 0 {
		return 0
	}
	sh.Started(q)
	if sh.Several {
		return sh.burstCrossing(q, n)
	}
	return sh.burstWatched(q, n)
}

// burstWatched is Burst for a watched queue pair. It copies the announced blocks, records the copy, and
// executes the copy. So the bytes that are recorded are those that are executed, even if the client changes
// them meanwhile. WQEs that the fast path leaves are executed one by one, to record the end of each.
func (sh *Loop) burstWatched(q *object.QP, n uint16) (done int) {
	bytes := sh.Settings.Slice
	if q.Job != nil && !sh.MayHaveChanged(q.Job) { // its WQE was copied when the job began
		from := q.SQ.Done
		done = sh.burstOne(q, uint16(q.Job.Blocks))
		bytes -= sh.Sched.Spent
		n -= uint16(min(q.SQ.Done-from, uint64(n)))
		if n == 0 || q.SQ.Done == from || q.Attr.State != control.StateRTS || bytes <= 0 {
			return done
		}
	}
	announced := n
	n = sh.fetch(q, n)
	copied := int(n) * wqe.BlockSize // the client pays for the record in its turn
	ring := q.SQ.Blocks
	defer func() { q.SQ.Blocks, sh.Sched.Slice = ring, sh.Settings.Slice }() // also after a fault of memory
	q.SQ.Blocks = sh.copied.blocks
	for n > 0 && done < sh.Settings.Burst && bytes > 0 {
		from, moved, written := q.SQ.Done, q.Client.Count[control.CounterBytes], q.SQ.CQ.Next
		k, cost := 0, 0
		if q.Job == nil {
			k, cost = sh.FastPath(q, min(int(n), sh.Settings.Burst-done), bytes)
		}
		if k > 0 {
			sh.recordExecute(q, from, moved, q.SQ.CQ.Next == written)
			done, bytes, n = done+k, bytes-cost, n-uint16(k)
			if q.SQ.CQ.Dead {
				break
			}
			continue
		}
		k = max(execution.HeadOf(q.SQ.Blocks.At(from)).Blocks(), 1)
		if q.Job != nil {
			k = q.Job.Blocks
		}
		if k > int(n) && n < announced {
			break // the rest of the WQE is not in the copy; the next visit begins with it
		}
		sh.Sched.Slice = bytes
		if q.Job == nil && q.Faults != nil && q.Faults.Order != nil {
			k = int(n) // it begins several WQEs at once
		}
		k = sh.burstOne(q, min(uint16(k), n))
		done, bytes = done+k, bytes-sh.Sched.Spent
		ended := q.SQ.Done - from
		if ended == 0 || q.Attr.State != control.StateRTS {
			break
		}
		n -= uint16(min(ended, uint64(n)))
	}
	sh.Sched.Spent = sh.Settings.Slice - bytes + copied*bits.OnesCount32(q.Watched)
	return done
}

// fetch copies announced blocks of q, at most as many as fit, and records the copy. It returns how many it
// has copied.
func (sh *Loop) fetch(q *object.QP, n uint16) uint16 {
	sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindDoorbell, Time: sh.Clock(), Queue: q.Num,
		Index: uint16(q.SQ.Done), Count: n, Value: uint64(q.SQ.Record.Observe())})
	n = min(n, copiedBlocks)
	q.SQ.Blocks.Copy(sh.copied.blocks, q.SQ.Done, uint64(n))
	sh.recordFetch(q, q.SQ.Done, n)
	return n
}

// recordFetch records the copies of n blocks of q, of which the first has this index.
func (sh *Loop) recordFetch(q *object.QP, index uint64, n uint16) {
	for n > 0 {
		at := uint16(index % copiedBlocks)
		k := min(n, copiedBlocks-at)
		sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindFetch, Time: sh.Clock(), Queue: q.Num,
			Index: uint16(index), Count: k,
			Data: sh.copied.bytes[int(at)*wqe.BlockSize:][:int(k)*wqe.BlockSize]})
		index, n = index+uint64(k), n-k
	}
}

// burstOne is Burst for one WQE of a watched queue pair, which has n blocks, and records how the WQE has
// ended, or why it has not.
func (sh *Loop) burstOne(q *object.QP, n uint16) (done int) {
	count := &q.Client.Count
	from, moved, failed := q.SQ.Done, count[control.CounterBytes], count[control.CounterFailed]
	switch {
	case q.Faults != nil:
		done = sh.BurstFaulty(q, n)
	case q.Replayable() != 0:
		done = sh.burstRecorded(q, n)
	default:
		done = sh.Burst(q, n)
	}
	e := trace.Event{Time: clock.Now(), Queue: q.Num, Index: uint16(from)}
	switch {
	case count[control.CounterFailed] != failed: // Fail has recorded it
	case q.SQ.Done != from:
		sh.recordExecute(q, from, moved, true)
	case q.Job != nil:
		e.Kind, e.Value = trace.KindSlice, q.Job.Moved
		sh.Taps.Record(q.Watched, &e)
	case q.Stall.Kind != object.NoStall:
		e.Kind, e.Value = trace.KindWait, uint64(q.Stall.Kind)
		sh.Taps.Record(q.Watched, &e)
	}
	return done
}

// recordExecute records that the WQEs of q from block from on have been executed. moved is the counter of the
// client's bytes before that. If read is false, a completion has just been recorded, and the event gets the
// time of that.
func (sh *Loop) recordExecute(q *object.QP, from, moved uint64, read bool) {
	now := sh.Clock()
	if read {
		now = clock.Now()
	}
	sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindExecute, Time: now, Queue: q.Num,
		Index: uint16(from), Count: uint16(q.SQ.Done - from),
		Value: q.Client.Count[control.CounterBytes] - moved})
}

// visitWatchedWire is VisitWire for a queue pair that is watched, or whose packets rules of faults act on.
// The transport reads a WQE again each time that it sends packets of it, so the ring is not replaced by a
// copy: the WQEs that were begun are copied afterwards.
func (sh *Loop) visitWatchedWire(q *object.QP) (done int) {
	from := q.SQ.Done
	p := q.Wire.Port
	sent := p.Settings.Send.Sent()
	done = sh.VisitWatchedWire(q)
	if q.Watched == 0 {
		return done // it is only faulty
	}
	if q.SQ.Done > from && q.Attr.State == control.StateRTS { // otherwise it may have flushed
		sh.Enter(q) // its memory is read again
		sh.StepClock = clock.Now()
		sh.Taps.Record(q.Watched, &trace.Event{Kind: trace.KindDoorbell, Time: sh.StepClock, Queue: q.Num,
			Index: uint16(from), Count: uint16(q.SQ.Done - from), Value: uint64(q.SQ.Record.Observe())})
		sh.recordBlocks(q, from, q.SQ.Done)
	}
	sh.RecordSent(q, p, sent)
	return done
}

// recordBlocks copies the blocks of q from index from up to index to, and records the copies.
func (sh *Loop) recordBlocks(q *object.QP, from, to uint64) {
	for from < to {
		n := min(to-from, copiedBlocks)
		q.SQ.Blocks.Copy(sh.copied.blocks, from, n)
		sh.recordFetch(q, from, uint16(n))
		from += n
	}
}
