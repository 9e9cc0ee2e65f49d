//go:build linux && (amd64 || arm64)

package execution

import (
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/inject"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
)

// Inject does what the rules of faults say of the next WQE of q, before it is checked. The WQE is in the
// snapshot, and n blocks are announced. Inject returns Accepted if the WQE is to be executed now.
func (sh *injector) Inject(q *object.QP, n uint16) object.Verdict {
	f := q.Faults
	if !f.Decided(q.SQ.Done) {
		facts := sh.facts(q, n)
		f.Decide(q.SQ.Done, sh.Now(), &facts)
	}
	if !f.Acts {
		return object.Accepted
	}
	first := !f.Began
	f.Began = true
	r := f.Rule
	switch {
	case r.Complete != nil:
		return sh.injectError(q, r.Complete)
	case r.Overrun != "":
		return sh.overrun(q, r.Overrun == fault.Receive)
	case r.Disconnect:
		return sh.disconnect(q)
	case r.Deregister != "":
		return sh.deregisterNamed(q, n)
	case r.Unreadable != "":
		return sh.spoil(q)
	case r.Kill:
		return sh.die(q)
	case r.Stall != 0:
		if first {
			sh.explainInjected(q)
			f.Until = inject.Never
			if r.Stall != fault.Forever {
				f.Until = clock.After(sh.Now(), time.Duration(r.Stall))
			}
		}
		return sh.hold(q)
	}
	return object.Accepted
}

// hold holds the next WQE of q back until q.Faults.Until.
func (sh *injector) hold(q *object.QP) object.Verdict {
	now, until := sh.Now(), q.Faults.Until
	if now >= until {
		return object.Accepted
	}
	sh.StallFor(q, object.Stall{Kind: object.Held, Since: now, Deadline: until,
		Forever: until == inject.Never})
	return object.Waiting
}

// BurstFaulty is Burst for a queue pair that rules of faults have to do with. It executes one WQE, or goes on
// with a transfer, in the same steps as Burst.
func (sh *Executor) BurstFaulty(q *object.QP, n uint16) (done int) {
	bytes := sh.Sched.Slice
	sh.Sched.Effort = 0
	defer func() { sh.Sched.Spent = sh.Sched.Slice - bytes }()
	if n == 0 || bytes <= 0 || q.Stall.Kind != object.NoStall { // this visit may have begun to wait
		return 0
	}
	j := q.Job
	if j != nil && q.Faults.Applied {
		done = sh.awaitAnswer(q)
		if q.Job == nil {
			q.Faults.Answered()
			q.Faults = q.Faults.Rest() // the rules may have ended meanwhile
			q.SetAside()
		}
		return done
	}
	if j != nil && !sh.ResumeJob(q) {
		return 1 // in the next visit it is checked again
	}
	if j != nil && q.Faults.Ordering() {
		bytes -= sh.moveInOrder(q, bytes)
		return 1
	}
	if j == nil {
		sh.Snapshot(q)
		v := sh.awaitFollowers(q)
		if v == object.Accepted {
			v = sh.Inject(q, n)
		}
		if v == object.Accepted {
			v = sh.checkFaulty(q, n)
		}
		if v > object.Lost { // Waiting or Failed
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
	if q.Faults.LosesAnswer() && j.Head.Opcode().Info().Atomic() {
		sh.loseAnswer(q, j)
		return done
	}
	if j.Fault != 0 {
		sh.MemoryFault(q, j.Fault)
		return done
	}
	if q.Job == nil && sh.beginOrder(q, n) {
		bytes -= sh.Sched.Effort
		bytes -= sh.moveInOrder(q, bytes)
		return done
	}
	budget := max(bytes, Indivisible)
	if q.Transport == control.QPTypeUD {
		budget = DatagramBudget
	}
	if q.Faults.Deregisters() && j.Total <= uint64(budget) && sh.cutOff(q, j) {
		return done
	}
	used, v := sh.moveFaulty(q, j, budget)
	bytes -= used
	if v > object.Lost { // Failed
		return done
	}
	if !j.Over() {
		if q.Job == nil {
			sh.KeepJob(q)
		}
		if q.Faults.Deregisters() {
			sh.cutOff(q, j)
		}
		return done
	}
	if q.Faults.LosesAnswer() && q.Reliable() && j.Peer != nil && !j.Reads() {
		if !j.Recv || sh.delivered(q, j) {
			sh.loseAnswer(q, j)
		}
		return done
	}
	sh.Finish(q, j)
	sh.EndJob(q)
	return done
}

// InjectWire is Inject for a queue pair on a wire. idle says that no earlier message is on the way: an error
// is injected only then, because completions are in order. Rules for packets leave WQEs alone.
func (sh *Executor) InjectWire(q *object.QP, n uint16, idle bool) object.Verdict {
	sh.orders(q)
	switch {
	case !q.Faults.OnWQEs():
		return object.Accepted
	case !idle:
		return object.Waiting
	}
	return sh.Inject(q, n)
}

// explainInjected explains that a rule acts on the WQE at the head of q.
func (sh *queues) explainInjected(q *object.QP) {
	sh.Explain(q, codes.FaultInjected, "injected by rule %v", q.Faults.Rule)
}

// ExplainSent is explainInjected for a WQE that has been sent, and that begins at a block.
func (sh *queues) ExplainSent(q *object.QP, block uint64) {
	s := report.Subject{Client: q.Client, Number: q.Num, Index: uint16(block)}
	sh.ExplainSubject(s, codes.FaultInjected, "injected by rule %v", []any{q.Faults.Rule})
}

// injectError fails the next WQE with the error of a rule.
func (sh *injector) injectError(q *object.QP, c *fault.Complete) object.Verdict {
	sh.explainInjected(q)
	j := sh.Scratch.Job
	j.Reset(object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:])))
	if c.Vendor != nil {
		sh.Vendor = completion.SetVendor(uint8(*c.Vendor))
		defer func() { sh.Vendor = completion.UsualVendor }()
	}
	return sh.Fail(q, j, cqe.Syndrome(c.Syndrome))
}

// facts returns what rules ask of the next WQE of q. The WQE is not checked yet: what its segments say may be
// wrong, and what is missing is left out.
func (sh *injector) facts(q *object.QP, n uint16) fault.Facts {
	h := object.ParseHead((*[wqe.CtrlSize]byte)(sh.Scratch.WQE[:]))
	f := fault.Facts{Opcode: h.Opcode(), Index: uint16(q.SQ.Done)}
	blocks := h.Blocks()
	if blocks > int(n) {
		return f
	}
	for i := 1; i < blocks; i++ {
		*(*shm.Block)(sh.Scratch.WQE[i*wqe.BlockSize:]) = *q.SQ.Blocks.At(q.SQ.Done + uint64(i))
	}
	f.Size, f.Keys = inject.SizeAndKeys(sh.Scratch.WQE[:blocks*wqe.BlockSize], q.Transport)
	return f
}
