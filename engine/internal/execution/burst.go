//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// DatagramBudget is enough for the longest datagram, even if each of its pieces is one byte. So each datagram
// is moved in one visit. If a datagram took several visits, a datagram of another sender could take the next
// receive and complete first, but receives complete in the order in which they were posted.
const DatagramBudget = (object.GRHSize + maxDatagram) * Dearest

// prefetchedWQEs is how many announced WQEs are fetched at once, before the first is read: as many as a visit
// executes by default. Otherwise the processor has to reach a WQE before it fetches its line, and it
// looks ahead only over three or four WQEs.
const prefetchedWQEs = 32

// Burst executes WQEs of q until the budget of this step is used up, no announced WQE is
// left, the next WQE has to wait, or the queue has failed. n is the number of blocks that are
// announced. Burst returns how much it has done: 0 means an idle visit.
func (sh *Executor) Burst(q *object.QP, n uint16) (done int) {
	bytes := sh.Sched.Slice
	sh.Sched.Effort = 0
	if n > 1 && q.FastPath {
		q.SQ.Blocks.Prefetch(q.SQ.Done, uint64(min(int(n), sh.Settings.Burst, prefetchedWQEs)))
	}
	for done < sh.Settings.Burst && n > 0 && bytes > 0 {
		j := q.Job
		if j != nil && !sh.ResumeJob(q) {
			done++
			if q.Attr.State != control.StateRTS {
				break // the send queue has stopped
			}
			j = nil
		}
		if j == nil {
			if k, cost := sh.FastPath(q, min(int(n), sh.Settings.Burst-done), bytes); k > 0 {
				done += k
				n -= uint16(k)
				bytes -= cost
				if q.SQ.CQ.Dead {
					break
				}
				continue
			}
			sh.Sched.Slow++
			sh.Snapshot(q)
			if v := sh.Check(q, n); v > object.Lost { // Waiting or Failed
				if v == object.Failed {
					done++ // not an idle visit, because WQEs after the failed WQE may have to be flushed
				}
				break
			}
			j = sh.Scratch.Job
		}
		done++
		bytes -= sh.Sched.Effort
		sh.Sched.Effort = 0
		if j.Fault != 0 {
			sh.MemoryFault(q, j.Fault)
			break
		}
		budget := max(bytes, Indivisible)
		if q.Transport == control.QPTypeUD {
			budget = DatagramBudget
		}
		if !j.Src.Unmapped && !j.Dst.Unmapped {
			bytes -= sh.Move(q, j, budget)
		} else {
			used, v := sh.moveUnmapped(q, j, budget)
			bytes -= used
			if v > object.Lost { // Failed
				break
			}
		}
		if !j.Over() {
			if q.Job == nil {
				sh.KeepJob(q)
			}
			break
		}
		n -= uint16(j.Blocks)
		ok := sh.Finish(q, j)
		sh.EndJob(q)
		if !ok {
			break
		}
	}
	sh.Sched.Spent = sh.Sched.Slice - bytes
	return done
}

// Move continues a job of q within a budget of bytes, and returns how much of the budget the job has used.
func (sh *Executor) Move(q *object.QP, j *object.Job, budget int) (used int) {
	switch {
	case len(sh.DMA.Workers) > 0 && j.Total >= sh.DMA.Sizes.Transfer && q.Transport != control.QPTypeUD:
		return sh.Offload(q, j, budget)
	case j.Total >= sh.DMA.Beyond:
		return moveJob(j, budget, &q.Client.Copier)
	}
	return moveJob(j, budget, nil)
}

// Finish completes a WQE whose bytes have all been moved. If the WQE used a receive of the peer, Finish
// completes the receive first, and then the WQE itself. Finish reports whether the queue can go on. The
// queue cannot go on if a completion queue had no room or the responder has refused the message.
func (sh *Executor) Finish(q *object.QP, j *object.Job) bool {
	if j.Recv {
		if a := sh.Deliver(q, j); a != object.AnswerACK && sh.answered(q, j, a) > object.Lost {
			return false
		}
	}
	traffic.Message(q, j)
	if j.Cast != 0 {
		q.Datagrams.Cast.After, q.Datagrams.Cast.Served = j.Cast, true
		return true // the same WQE is executed again, for the next queue pair of the group
	}
	count := &q.Client.Count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += j.Total
	q.SQ.WQEs++
	q.SQ.Moved += j.Total
	counter := uint16(q.SQ.Done)
	q.SQ.Done += uint64(j.Blocks)
	ce := j.Head.CE()
	if ce < wqe.CEAlways {
		return true
	}
	byteCount := uint64(0)
	if j.Reads() {
		byteCount = j.Total
	}
	attention := object.Quietly
	if ce == wqe.CEEvent {
		attention = object.Event
	}
	tail := object.RequesterTail(j.Head.Opcode(), q.Num, counter)
	ok := false
	if j.Carries && j.Reads() {
		ok = sh.CompleteInline(q.SQ.CQ, j.Carried[:j.Total], 0, q.UIDX, 0, tail, attention)
	} else {
		ok = sh.Complete(q.SQ.CQ, 0, q.UIDX, 0, uint32(byteCount), sh.Clock(), tail, attention)
	}
	if !ok {
		sh.Overrun(q.SQ.CQ)
		sh.SetError(q)
		return false
	}
	return true
}

// Offload is moveJob with workers. A piece that was given to a worker counts as moved.
// Offload copies short pieces itself. It makes the job the job of q, because workers may still copy
// pieces of the job after this visit.
//
// A scattered destination is written in order, because its pieces may overlap. So all pieces
// of such a job that are offloaded go to the same worker. While this worker still has pieces
// of the job, it gets the short pieces too.
func (sh *Executor) Offload(q *object.QP, j *object.Job, budget int) (used int) {
	if q.Job == nil {
		sh.KeepJob(q)
	}
	sh.CollectTasks()
	var pages copying.LastPages
	for used < budget && j.Moved < j.Total && j.Fault == 0 {
		most := min(uint64(max(budget-used, Indivisible)), j.Total-j.Moved)
		dst, src := j.Dst.Next(most), j.Src.Next(most)
		n := min(len(dst), len(src))
		short := uint64(n) < sh.DMA.Sizes.Piece
		if short && (j.Offloaded == 0 || !j.Dst.Scattered()) {
			copy(dst[:n], src)
		} else if !sh.assign(j, q.Client, dst[:n], src[:n]) {
			break
		}
		j.Src.Advance(n)
		j.Dst.Advance(n)
		j.Moved += uint64(n)
		used += pages.Cost(dst, src, n, object.PieceCost)
	}
	return used
}

// moveUnmapped is Move for a job with unmapped memory. If unmapped memory could not be
// reached, the verdict is Failed or Lost, otherwise Accepted.
func (sh *Executor) moveUnmapped(q *object.QP, j *object.Job, budget int) (used int, v object.Verdict) {
	for (used < budget || j.Moved < Indivisible) && j.Moved < j.Total {
		most := uint64(max(budget-used, Indivisible))
		if most >= UnmappedBytes/2 {
			most = UnmappedBytes
		}
		n, cost, gap := sh.copyUnmapped(j, min(most, j.Total-j.Moved, UnmappedBytes))
		used += cost
		if n == 0 {
			return used, sh.Unreachable(q, j, gap)
		}
		j.Src.Skip(n)
		j.Dst.Skip(n)
		j.Moved += n
	}
	return used, object.Accepted
}
