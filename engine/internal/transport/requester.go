//go:build linux && (amd64 || arm64)

package transport

import (
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// sendRequests sends packets of q within the budget of a visit. bytes is what is left of the budget. It
// returns how many packets it has sent and how many WQEs it has taken, together.
func (sh *sender) sendRequests(q *object.QP, bytes int) (done int) {
	w := q.Wire
	sh.Sched.Spent = sh.Settings.Slice - bytes
	if q.Stall.Kind != object.NoStall {
		return 0
	}
	sh.Sched.Effort = 0
	for done < sh.Settings.Burst && bytes > 0 {
		if q.Job != nil { // the job of a WQE that sends no packets and takes several visits
			if !sh.continueLocal(q, &bytes) {
				break
			}
			done++
			continue
		}
		if w.Out.Sending != w.Out.Last {
			if !w.CanSend() {
				break
			}
			n, all := sh.sendMessage(q, &bytes)
			done += n
			bytes -= sh.TakeEffort()
			if !all {
				break
			}
			continue
		}
		if q.Attr.State != control.StateRTS {
			break
		}
		blocks := sh.Pending(q)
		if blocks == 0 || !w.CanFetch() {
			break
		}
		if done == 0 {
			sh.Started(q)
		}
		if n := sh.FastRequests(q, min(int(blocks), sh.Settings.Burst-done), &bytes); n > 0 {
			done += n
			continue
		}
		v := sh.fetch(q, blocks, &bytes)
		bytes -= sh.TakeEffort()
		if v != object.Accepted {
			if v == object.Failed {
				done++
			}
			break
		}
		done++
	}
	sh.Sched.Spent = sh.Settings.Slice - bytes
	if q.Wire != nil && q.Attr.State == control.StateSQD && w.Out.First == w.Out.Last && q.Job == nil &&
		w.Out.Draining {
		w.Out.Draining = false
		sh.NotifyDrained(q)
	}
	return done
}

// fetch makes a message of the next WQE and sends as many of the message's packets as may be sent. A WQE that
// sends no packets is executed when all earlier messages have completed. n is the number of blocks that are
// announced.
func (sh *sender) fetch(q *object.QP, n uint16, bytes *int) object.Verdict {
	r := &q.Wire.Out
	idle := r.First == r.Last // no message is on the way
	sh.Snapshot(q)
	h := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	info := h.Opcode().Info()
	sends := info.Remote != 0 || info.Receive()
	if !idle && (!sends || !r.MayFollow(h, info, q.Attr.MaxRdAtomic)) {
		return object.Waiting
	}
	if q.Faults != nil {
		if v := sh.InjectWire(q, n, idle); v != object.Accepted {
			return v
		}
	}
	// A WQE that has a mistake fails when all earlier ones have completed. Until then it is
	// not explained.
	sh.Trial = !idle
	v := sh.Check(q, n)
	sh.Trial = false
	if v > object.Lost {
		return v
	}
	j := sh.Scratch.Job
	if !sends || v == object.Lost {
		return sh.executeLocal(q, j, bytes)
	}
	psns := uint32(1)
	if !info.Atomic() && j.Total > uint64(q.Wire.MTU) {
		psns = uint32((j.Total + uint64(q.Wire.MTU) - 1) / uint64(q.Wire.MTU))
	}
	m := r.Push(q, j.Head, j.Total, psns, info.Reads || info.Atomic())
	q.SQ.Done += uint64(j.Blocks)
	r.Job = j
	_, all := sh.sendPackets(q, m, bytes)
	if !all {
		sh.KeepRequestJob(r, m)
	}
	return object.Accepted
}

// executeLocal executes the WQE of j, which sends no packets. If the WQE needs several visits, executeLocal
// returns Waiting, and q.Job has the WQE.
func (sh *sender) executeLocal(q *object.QP, j *object.Job, bytes *int) object.Verdict {
	*bytes -= sh.Move(q, j, max(*bytes, execution.Indivisible))
	if !j.Over() {
		sh.KeepJob(q)
		return object.Waiting
	}
	if !sh.Finish(q, j) {
		return object.Failed
	}
	return object.Accepted
}

// continueLocal continues the WQE of q.Job, which executeLocal has begun. It reports whether the WQE has
// completed without an error.
func (sh *sender) continueLocal(q *object.QP, bytes *int) bool {
	if !sh.ResumeJob(q) {
		return false
	}
	j := q.Job
	if j.Fault != 0 {
		sh.MemoryFault(q, j.Fault)
		return false
	}
	*bytes -= sh.Move(q, j, max(*bytes, execution.Indivisible))
	if !j.Over() {
		return false
	}
	ok := sh.Finish(q, j)
	sh.EndJob(q)
	return ok
}
