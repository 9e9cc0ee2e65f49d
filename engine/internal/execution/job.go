//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// moveJob copies bytes of a job within a budget of bytes, and returns how much of the budget it used. It may
// use one piece more than the budget. Both lists hold at least Total bytes. If c is not nil, c does the
// copying.
//
// No single copy is longer than a slice, because from 1 MiB up Go's copy would bypass the
// caches.
func moveJob(j *object.Job, budget int, c *copying.Copier) (used int) {
	if src, dst := j.Src.Piece[0].Mem, j.Dst.Piece[0].Mem; j.Src.N == 1 && j.Dst.N == 1 && j.Moved == 0 &&
		j.Total <= uint64(budget) && src != nil && dst != nil {
		copy(dst[:j.Total], src)
		j.Moved = j.Total
		return int(j.Total)
	}
	var at footing
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
		used += at.cost(dst, src, n)
	}
	return used
}

// KeepJob leaves the scratch job with q, for later steps, and takes another job as the
// scratch job. It allocates that job only when more long transfers are in progress than
// ever before.
func (sh *mover) KeepJob(q *object.QP) {
	q.Job = sh.Scratch.Job
	q.Job.CopyInline()
	q.Job.Epoch = sh.Epoch.Load()
	if p := q.Job.Peer; p != nil {
		q.Job.Life = p.Life
	}
	if n := len(sh.Scratch.Spare); n > 0 {
		sh.Scratch.Job, sh.Scratch.Spare = sh.Scratch.Spare[n-1], sh.Scratch.Spare[:n-1]
		return
	}
	sh.Scratch.Job = new(object.Job)
}

// ParkJob takes q's job from q, if q has one. Either the job is over, or its WQE will be
// checked again and start from its first byte. If q is in SQD, q has drained once it has no job.
// A WQE that is not done then waits until q is in RTS again.
func (sh *mover) ParkJob(q *object.QP) {
	if q.Job == nil {
		return
	}
	if q.Job.Offloaded > 0 {
		sh.recallTasks(q.Job, nil, nil)
	}
	sh.PutBack(q.Job)
	sh.Scratch.Spare = append(sh.Scratch.Spare, q.Job)
	q.Job = nil
	if q.Attr.State == control.StateSQD {
		sh.Drained(q)
	}
}

// ResumeJob reports whether q may continue its job. If a key or the peer has changed since
// the job was checked, it parks the job and returns false.
//
// It is called before each slice. So a request that changes a key need not search the
// transfers of all clients for those that use the key.
func (sh *mover) ResumeJob(q *object.QP) bool {
	j, now := q.Job, sh.Epoch.Load()
	if j.Offloaded > 0 {
		sh.CollectTasks()
	}
	peerReset := j.Peer != nil && j.Peer.Life != j.Life
	srqGone := j.SRQ != nil && j.SRQ.Gone
	keyChanged := j.Epoch != now && sh.changedSince(j)
	if j.Recalled || peerReset || srqGone || keyChanged {
		sh.ParkJob(q)
		return false
	}
	j.Epoch = now
	return true
}

// changedSince reports whether a key of the job has changed since its epoch.
func (sh *mover) changedSince(j *object.Job) bool {
	for _, l := range []*object.List{&j.Src, &j.Dst} {
		for i := l.At; i < l.N; i++ {
			if k := l.Piece[i].Key; k != nil && sh.LastChange(k) > j.Epoch {
				return true
			}
		}
	}
	return false
}

// DropJob drops the job of the message that is being sent.
func (sh *mover) DropJob(r *object.Outbound) {
	if r.Job != nil && r.Job != sh.Scratch.Job {
		sh.DismissJob(r.Job)
	}
	r.Job = nil
}

func (sh *mover) DropAnswerJob(r *object.Outbound) {
	if r.AnswerJob != nil {
		sh.DismissJob(r.AnswerJob)
		r.AnswerJob = nil
	}
}

// RetainJob keeps the scratch job beyond this visit, and takes another as the scratch job.
func (sh *mover) RetainJob() *object.Job {
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

// DismissJob ends a job that RetainJob has kept.
func (sh *mover) DismissJob(j *object.Job) {
	sh.PutBack(j)
	sh.Scratch.Spare = append(sh.Scratch.Spare, j)
}

// Current reports whether the keys of a job that was kept are still the same.
func (sh *mover) Current(j *object.Job) bool {
	now := sh.Epoch.Load()
	if j.Epoch != now && sh.changedSince(j) {
		return false
	}
	j.Epoch = now
	return true
}

// KeepScratch keeps the job of message At beyond this visit, if it is the scratch job. The operand
// of an atomic is in the snapshot, which the next WQE overwrites, so an atomic is checked again.
func (sh *mover) KeepScratch(r *object.Outbound, m *object.Message) {
	switch {
	case r.Job != sh.Scratch.Job:
	case m.Head.Opcode().Info().Atomic():
		r.Job = nil
	default:
		r.Job = sh.RetainJob()
	}
}

// DropMessage drops the message under way.
func (sh *mover) DropMessage(in *object.Inbound) {
	if in.Job != nil {
		sh.DismissJob(in.Job)
		in.Job = nil
	}
	if in.AnswerJob != nil {
		sh.DismissJob(in.AnswerJob)
		in.AnswerJob = nil
	}
}

// Transfer moves the next n bytes of j. It adds to Sched.Effort what pieces cost besides their
// bytes, because a packet can have thousands of pieces. If some memory cannot be reached, it returns false,
// and sh.Scratch.Gap says which.
func (sh *mover) Transfer(j *object.Job, n uint64) bool {
	end := j.Moved + n
	if !j.Src.Unmapped && !j.Dst.Unmapped {
		var at footing
		for begin := j.Moved; j.Moved < end; {
			dst := j.Dst.Next(end - j.Moved)
			src := j.Src.Next(uint64(len(dst)))
			k := copy(dst, src)
			cost := at.cost(dst, src, k)
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
		k, cost, g := sh.copyUnmapped(j, min(end-j.Moved, UnmappedBytes))
		sh.Sched.Effort += cost
		if k == 0 {
			sh.Scratch.Gap = g
			return false
		}
		j.Src.Skip(k)
		j.Dst.Skip(k)
		j.Moved += k
	}
	return true
}

// PutBack returns a shared receive that was opened and not used.
func (sh *mover) PutBack(j *object.Job) {
	s := j.Shared
	if s == nil {
		return
	}
	j.Shared = nil
	if sh.Holds(s.Client.Shard) {
		s.PutBack(j.Index)
	} else {
		sh.DueReceives = append(sh.DueReceives, object.DueReceive{SRQ: s, Index: j.Index})
	}
}

// Drained raises the event which says that a send queue in SQD has stopped.
func (sh *mover) Drained(q *object.QP) { q.Event(control.EventDrained) }
