//go:build linux && (amd64 || arm64)

package execution

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// Indivisible is how many bytes may be moved in one visit even if less of the budget is
// left. The result of an atomic is 8 bytes long. If it were not moved at once, the atomic
// would be judged, and so executed, a second time. A transfer also advances by this many
// bytes if judging it has used up the budget.
const Indivisible = 8

// datagramBudget is enough for the longest datagram, even for one of single bytes. A datagram
// is moved in one visit: the next datagram, from whatever sender, uses the receive after it,
// and receives complete in the order in which they were posted.
const datagramBudget = (object.GRHSize + maxDatagram) * Dearest

// An Executor executes WQEs.
type Executor struct {
	requester
	series series // that the fast path is executing
}

// Burst executes WQEs of q until the budget of this step is used up, no announced WQE is
// left, or the next WQE has to wait. n is the number of blocks that are announced.
func (sh *Executor) Burst(q *object.QP, n uint16) (done int) {
	bytes := sh.Settings.Slice
	sh.Sched.Effort = 0
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
			sh.Snapshot(q)
			if v := sh.Judge(q, n); v > object.Lost {
				if v == object.Failed {
					done++ // others may have to be flushed, so this is no idle visit
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
			budget = datagramBudget
		}
		if !j.Src.Unmapped && !j.Dst.Unmapped {
			bytes -= sh.Move(q, j, budget)
		} else {
			used, v := sh.moveUnmapped(q, j, budget)
			if bytes -= used; v > object.Lost {
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
		sh.ParkJob(q)
		if !ok {
			break
		}
	}
	sh.Sched.Spent = sh.Settings.Slice - bytes
	return done
}

// Move continues a job of q within a budget of bytes, and returns how much of the budget
// it has used.
func (sh *Executor) Move(q *object.QP, j *object.Job, budget int) (used int) {
	switch {
	case len(sh.DMA.Workers) > 0 && j.Total >= sh.DMA.Sizes.Transfer && q.Transport != control.QPTypeUD:
		return sh.Offload(q, j, budget)
	case j.Total >= sh.DMA.Beyond:
		return moveJob(j, budget, &q.Client.Copier)
	}
	return moveJob(j, budget, nil)
}

// Finish completes a WQE whose bytes have all been moved. If the WQE used a receive of the
// peer, the receive is completed first, and then the WQE itself. Finish returns false if
// the queue is in error afterwards, because a completion queue had no room or because the
// responder refused.
func (sh *Executor) Finish(q *object.QP, j *object.Job) bool {
	if j.Recv {
		if a := sh.Deliver(q, j); a != object.AnswerACK && sh.answered(q, j, a) > object.Lost {
			return false
		}
	}
	if j.Cast != 0 {
		q.Datagrams.Cast.After, q.Datagrams.Cast.Served = j.Cast, true
		return true // the same WQE is executed again, for the next queue pair of the group
	}
	count := &q.Client.Count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += j.Total
	counter := uint16(q.SQ.Done)
	q.SQ.Done += uint64(j.Blocks)
	ce := j.Head.CE()
	if ce < wqe.CEAlways {
		return true
	}
	n := uint64(0)
	if j.Reads() {
		n = j.Total
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
		ok = sh.Complete(q.SQ.CQ, 0, q.UIDX, 0, uint32(n), sh.Clock(), tail, attention)
	}
	if !ok {
		sh.Overrun(q.SQ.CQ)
		sh.SetError(q)
		return false
	}
	return true
}
