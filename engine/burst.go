//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// visit executes the new WQEs of one queue pair, within its budget, and returns how many
// WQEs it completed or advanced.
func (sh *threadLoop) visit(q *qp) int {
	if sh.timedUntil != 0 {
		sh.timePoll()
	}
	sh.enter(q)
	if q.wire != nil {
		return sh.visitWire(q)
	}
	switch q.attr.State {
	case control.StateRTS:
		if q.stall.kind != noStall {
			return 0
		}
		if q.sq.blueFlame != nil && q.hot() {
			if n := sh.pollBlueFlameHalf(q, q.sq.blueFlame.next); n > 0 || q.sq.blueFlame.hot > 0 {
				return n
			}
		}
		n := sh.pending(q)
		if q.job != nil {
			// The WQE of the job was announced when the job began, so it may be finished
			// even if the record now says something else.
			n = max(n, uint16(q.job.blocks))
		} else if n == 0 {
			if q.sq.blueFlame != nil {
				return sh.pollBlueFlame(q)
			}
			return 0
		}
		sh.started(q) // reads the clock while the cache line of the WQE is on its way
		if sh.several {
			return sh.burstCrossing(q, n)
		}
		return sh.burst(q, n)
	case control.StateSQD:
		if q.job != nil { // in SQD, a WQE that was started is finished
			if sh.several {
				return sh.burstCrossing(q, uint16(q.job.blocks))
			}
			return sh.burst(q, uint16(q.job.blocks))
		}
	case control.StateERR, control.StateSQE:
		return sh.flush(q)
	}
	return 0
}

// indivisible is how many bytes may be moved in one visit even if less of the budget is
// left. The result of an atomic is 8 bytes long. If it were not moved at once, the atomic
// would be judged, and so executed, a second time. A transfer also advances by this many
// bytes if judging it has used up the budget.
const indivisible = 8

// datagramBudget is enough for the longest datagram, even for one of single bytes. A datagram
// is moved in one visit: the next datagram, from whatever sender, uses the receive after it,
// and receives complete in the order in which they were posted.
const datagramBudget = (grhSize + maxDatagram) * dearest

// An executor executes WQEs.
type executor struct {
	requester
	series series // that the fast path is executing
}

// burst executes WQEs of q until the budget of this step is used up, no announced WQE is
// left, or the next WQE has to wait. n is the number of blocks that are announced.
func (sh *executor) burst(q *qp, n uint16) (done int) {
	bytes := sh.cfg.slice
	sh.sched.effort = 0
	for done < sh.cfg.burst && n > 0 && bytes > 0 {
		j := q.job
		if j != nil && !sh.resumeJob(q) {
			done++
			if q.attr.State != control.StateRTS {
				break // the send queue has stopped
			}
			j = nil
		}
		if j == nil {
			if k, cost := sh.fastPath(q, min(int(n), sh.cfg.burst-done), bytes); k > 0 {
				done += k
				n -= uint16(k)
				bytes -= cost
				if q.sq.cq.dead {
					break
				}
				continue
			}
			sh.snapshot(q)
			if v := sh.judge(q, n); v > lost {
				if v == failed {
					done++ // others may have to be flushed, so this is no idle visit
				}
				break
			}
			j = sh.scratch.job
		}
		done++
		bytes -= sh.sched.effort
		sh.sched.effort = 0
		if j.fault != 0 {
			sh.memoryFault(q, j.fault)
			break
		}
		budget := max(bytes, indivisible)
		if q.transport == control.QPTypeUD {
			budget = datagramBudget
		}
		if !j.src.unmapped && !j.dst.unmapped {
			bytes -= sh.move(q, j, budget)
		} else {
			used, v := sh.moveUnmapped(q, j, budget)
			if bytes -= used; v > lost {
				break
			}
		}
		if !j.over() {
			if q.job == nil {
				sh.keepJob(q)
			}
			break
		}
		n -= uint16(j.blocks)
		ok := sh.finish(q, j)
		sh.parkJob(q)
		if !ok {
			break
		}
	}
	sh.sched.spent = sh.cfg.slice - bytes
	return done
}

// move continues a job of q within a budget of bytes, and returns how much of the budget
// it has used.
func (sh *executor) move(q *qp, j *job, budget int) (used int) {
	switch {
	case len(sh.dma.workers) > 0 && j.total >= sh.dma.sizes.transfer && q.transport != control.QPTypeUD:
		return sh.offload(q, j, budget)
	case j.total >= sh.dma.beyond:
		return moveJob(j, budget, &q.client.copier)
	}
	return moveJob(j, budget, nil)
}

// finish completes a WQE whose bytes have all been moved. If the WQE used a receive of the
// peer, the receive is completed first, and then the WQE itself. finish returns false if
// the queue is in error afterwards, because a completion queue had no room or because the
// responder refused.
func (sh *executor) finish(q *qp, j *job) bool {
	if j.recv {
		if a := sh.deliver(q, j); a != answerACK && sh.answered(q, j, a) > lost {
			return false
		}
	}
	if j.cast != 0 {
		q.datagrams.cast.after, q.datagrams.cast.served = j.cast, true
		return true // the same WQE is executed again, for the next queue pair of the group
	}
	count := &q.client.count
	count[control.CounterWQEs]++
	count[control.CounterBytes] += j.total
	counter := uint16(q.sq.done)
	q.sq.done += uint64(j.blocks)
	ce := j.head.ce()
	if ce < wqe.CEAlways {
		return true
	}
	n := uint64(0)
	if j.reads() {
		n = j.total
	}
	attention := quietly
	if ce == wqe.CEEvent {
		attention = event
	}
	tail := requesterTail(j.head.opcode(), q.num, counter)
	ok := false
	if j.carries && j.reads() {
		ok = sh.completeInline(q.sq.cq, j.carried[:j.total], 0, q.uidx, 0, tail, attention)
	} else {
		ok = sh.complete(q.sq.cq, 0, q.uidx, 0, uint32(n), sh.clock(), tail, attention)
	}
	if !ok {
		sh.overrun(q.sq.cq)
		sh.setError(q)
		return false
	}
	return true
}

// requesterTail returns the tail of a requester's completion.
func requesterTail(op wqe.Opcode, qpn uint32, counter uint16) cqe.Tail {
	return cqe.MakeTail(qpn, uint8(op), counter, 0, cqe.MakeOpOwn(cqe.Req, cqe.FormatPlain, false, 0))
}
