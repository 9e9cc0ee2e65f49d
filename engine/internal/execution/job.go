//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// A job is a WQE that has been checked, and its progress (object.Job). While one visit checks and executes
// a WQE, the job is the shard's scratch job. If the WQE needs more visits, the scratch job is detached: a
// queue pair, or the state of its wire, keeps the job, and the shard takes another one as the scratch job.
// A detached job that has ended becomes a spare job of the shard.

// moveJob copies bytes of the job j within a budget of bytes, and returns how much of the budget it used. It
// may use one piece more than the budget. Source and destination each have at least j.Total bytes. If c is
// not nil, c does the copying.
//
// No single copy is longer than a slice, because from 1 MiB up Go's copy would bypass the
// caches.
func moveJob(j *object.Job, budget int, c *copying.Copier) (used int) {
	src, dst := j.Src.Piece[0].Mem, j.Dst.Piece[0].Mem
	onePieceEach := j.Src.N == 1 && j.Dst.N == 1 && src != nil && dst != nil
	if onePieceEach && j.Moved == 0 && j.Total <= uint64(budget) {
		copy(dst[:j.Total], src)
		j.Moved = j.Total
		return int(j.Total)
	}
	var pages copying.LastPages
	for (used < budget || j.Moved < Indivisible) && j.Moved < j.Total {
		most := min(uint64(max(budget-used, Indivisible)), j.Total-j.Moved)
		dst, src := j.Dst.Next(most), j.Src.Next(most)
		var n int
		if c != nil {
			n = c.Copy(dst, src)
		} else {
			n = copy(dst, src)
		}
		j.Src.Advance(n)
		j.Dst.Advance(n)
		j.Moved += uint64(n)
		used += pages.Cost(dst, src, n, object.PieceCost)
	}
	return used
}

// KeepJob detaches the scratch job and makes it the job of q, which later visits continue.
func (sh *mover) KeepJob(q *object.QP) {
	j := sh.DetachJob()
	q.Job = j
	if j.Peer != nil {
		j.Life = j.Peer.Life
	}
}

// DetachJob returns the scratch job, which outlives this visit, and replaces the scratch job by a spare job.
// The caller keeps the returned job until FreeJob or EndJob. DetachJob allocates a job only when more long
// transfers are in progress than ever before.
func (sh *mover) DetachJob() *object.Job {
	j := sh.Scratch.Job
	j.CopyInline()
	j.Epoch = sh.Epoch.Load()
	if n := len(sh.Scratch.Spare); n > 0 {
		sh.Scratch.Job, sh.Scratch.Spare = sh.Scratch.Spare[n-1], sh.Scratch.Spare[:n-1]
	} else {
		sh.Scratch.Job = new(object.Job)
	}
	return j
}

// FreeJob makes a detached job a spare job. If the job has taken a shared receive and not used it, FreeJob
// returns the receive to its queue.
func (sh *mover) FreeJob(j *object.Job) {
	sh.ReturnReceive(j)
	sh.Scratch.Spare = append(sh.Scratch.Spare, j)
}

// EndJob ends the job of q, if q has a job. Either all bytes of the job are moved, or the job is given up:
// its WQE is checked again and starts from its first byte. If q is in SQD, the end of the job means that q
// has drained. If the WQE is not done, it then waits until q is in RTS again.
func (sh *mover) EndJob(q *object.QP) {
	if q.Job == nil {
		return
	}
	if q.Job.Offloaded > 0 {
		sh.recallTasks(q.Job, nil, nil)
	}
	sh.endOrder(q)
	sh.FreeJob(q.Job)
	q.Job = nil
	if q.Attr.State == control.StateSQD {
		sh.NotifyDrained(q)
	}
}

// MayHaveChanged reports whether ResumeJob may find that a job has to be checked again. It does not look at
// keys.
func (sh *mover) MayHaveChanged(j *object.Job) bool {
	return j.Epoch != sh.Epoch.Load() || hasChanged(j)
}

// hasChanged reports whether the detached job j has to be checked again, whatever its keys are.
func hasChanged(j *object.Job) bool {
	return j.Recalled || (j.Peer != nil && j.Peer.Life != j.Life) || (j.SRQ != nil && j.SRQ.Gone)
}

// ResumeJob reports whether q may continue its job. If a key, the peer or the SRQ has changed since the job
// was checked, ResumeJob ends the job and returns false.
//
// Each slice of a transfer begins with ResumeJob. So a request that changes a key need not search the
// transfers of all clients for those that use the key.
func (sh *mover) ResumeJob(q *object.QP) bool {
	j, now := q.Job, sh.Epoch.Load()
	if j.Offloaded > 0 {
		sh.CollectTasks()
	}
	// changedSince comes last: if the peer has gone, its keys may be in another shard, which is not locked.
	if hasChanged(j) || (j.Epoch != now && sh.changedSince(j)) {
		sh.EndJob(q)
		return false
	}
	j.Epoch = now
	return true
}

// KeysUnchanged reports whether the keys of the detached job j are the same as when j was checked.
func (sh *mover) KeysUnchanged(j *object.Job) bool {
	now := sh.Epoch.Load()
	if j.Epoch != now && sh.changedSince(j) {
		return false
	}
	j.Epoch = now
	return true
}

// changedSince reports whether a key that the job j still needs has changed since the epoch of j.
func (sh *mover) changedSince(j *object.Job) bool {
	for _, l := range []*object.List{&j.Src, &j.Dst} {
		for i := l.Current; i < l.N; i++ {
			if k := l.Piece[i].Key; k != nil && sh.LastChange(k) > j.Epoch {
				return true
			}
		}
	}
	return false
}

// KeepRequestJob keeps the job of r beyond this visit. m is the message that r is sending. If the job is the
// scratch job, KeepRequestJob detaches it. An atomic's operand is in the scratch WQE, which the next WQE
// overwrites. So the job of an atomic is not kept, and the atomic is checked again.
func (sh *mover) KeepRequestJob(r *object.Outbound, m *object.Message) {
	switch {
	case r.Job != sh.Scratch.Job: // r has no job, or a detached one
	case m.Head.Opcode().Info().Atomic():
		r.Job = nil
	default:
		r.Job = sh.DetachJob()
	}
}

// DropRequestJob drops the job of the message that r is sending.
func (sh *mover) DropRequestJob(r *object.Outbound) {
	if r.Job != nil && r.Job != sh.Scratch.Job {
		sh.FreeJob(r.Job)
	}
	r.Job = nil
}

// DropAnswerJob drops the job that takes the answer to the oldest READ of r.
func (sh *mover) DropAnswerJob(r *object.Outbound) {
	if r.AnswerJob != nil {
		sh.FreeJob(r.AnswerJob)
		r.AnswerJob = nil
	}
}

// DropInboundJobs drops the job of the message that in is receiving, and the job of the answer that in is
// sending.
func (sh *mover) DropInboundJobs(in *object.Inbound) {
	if in.Job != nil {
		sh.FreeJob(in.Job)
		in.Job = nil
	}
	if in.AnswerJob != nil {
		sh.FreeJob(in.AnswerJob)
		in.AnswerJob = nil
	}
}

// Transfer moves the next n bytes of j, which are the payload of one packet, and reports whether it could.
// If some memory cannot be reached, Transfer returns false, and sh.Scratch.Gap says which memory. A payload
// can have thousands of pieces, so Transfer adds to Sched.Effort what the pieces cost besides their bytes.
func (sh *mover) Transfer(j *object.Job, n uint64) bool {
	end := j.Moved + n
	if !j.Src.Unmapped && !j.Dst.Unmapped {
		var pages copying.LastPages
		for begin := j.Moved; j.Moved < end; {
			dst := j.Dst.Next(end - j.Moved)
			src := j.Src.Next(uint64(len(dst)))
			k := copy(dst, src)
			cost := pages.Cost(dst, src, k, object.PieceCost)
			if j.Moved != begin { // the caller counts the first piece
				sh.Sched.Effort += cost - k
			}
			j.Src.Advance(k)
			j.Dst.Advance(k)
			j.Moved += uint64(k)
		}
		return true
	}
	for j.Moved < end {
		k, cost, gap := sh.copyUnmapped(j, min(end-j.Moved, UnmappedBytes))
		sh.Sched.Effort += cost
		if k == 0 {
			sh.Scratch.Gap = gap
			return false
		}
		j.Src.Skip(k)
		j.Dst.Skip(k)
		j.Moved += k
	}
	return true
}

// ReturnReceive returns the shared receive that the job j has taken and not used, if there is one. If the
// SRQ belongs to another shard whose lock is not held, ReturnReceive notes the receive in DueReceives.
func (sh *mover) ReturnReceive(j *object.Job) {
	s := j.Shared
	if s == nil {
		return
	}
	j.Shared = nil
	if sh.Holds(s.Client.Shard) {
		s.Return(j.Index)
	} else {
		sh.DueReceives = append(sh.DueReceives, object.DueReceive{SRQ: s, Index: j.Index})
	}
}

// NotifyDrained sends the event that the send queue of q, in SQD, has drained.
func (sh *mover) NotifyDrained(q *object.QP) { q.Event(control.EventDrained) }
