//go:build linux && (amd64 || arm64)

package loop

import (
	"context"
	"runtime/debug"

	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/nic"
)

// loop steps a shard until ctx ends.
func (sh *Loop) loop(ctx context.Context) {
	sharesCore := sh.shareCore()
	idle := NewIdler(sh, sharesCore)
	defer idle.cores.Close()
	for ctx.Err() == nil {
		done := sh.Steps(idle.afterEachStep())
		if done > 0 {
			idle.reset(done)
			idle.leaveToPosters(ctx)
		}
		if sharesCore {
			cpu.Yield() // posters need this core, or this P
		}
		sh.pauser.Pause()
		if done == 0 {
			idle.wait(ctx)
		}
	}
}

// Steps runs a batch of steps and returns how much work they did. If untilIdle is true, the
// batch ends at the first step that finds nothing to do.
func (sh *Loop) Steps(untilIdle bool) (done int) {
	defer sh.RecoverFault()
	defer sh.endBatch() // also if a fault cuts the batch off
	sh.Restart()
	sh.Used.begin(sh.Mark.Observe())
	for range stepsPerBatch {
		n := sh.Step()
		done += n
		if n > 0 {
			sh.Used.worked = true
			continue
		}
		sh.Used.idle++
		if untilIdle {
			// The caller yields or naps next. In most engines PatrolMany polls all cold queues.
			done += sh.PatrolMany()
			break
		}
		cpu.Relax(1)
	}
	return done
}

// stepsPerBatch is how many steps are in one batch. Between batches the shard checks
// whether to stop. The deferred call that recovers from faults of memory is set up once in
// a batch.
const stepsPerBatch = 256

// endBatch ends the measurement of progress that Steps began, and publishes the status pages.
func (sh *Loop) endBatch() {
	now := sh.Passed()
	sh.Used.end(now)
	sh.PublishAt(now)
}

// RecoverFault turns a fault of memory into an error of the queue whose memory was being
// touched. Any other panic is a bug of the engine, and RecoverFault panics again with it.
func (sh *Loop) RecoverFault() {
	r := recover()
	if r == nil {
		return
	}
	defer sh.releaseAfterFault()
	defer sh.FreePackets()
	sh.Trial = false // a WQE may have been checked again
	// A request of a peer was being executed or answered.
	asked := sh.Fault.Answering || sh.Fault.Port != nil && sh.Fault.Port.ServesRequest()
	defer func() { sh.Fault.Port, sh.Fault.Answering = nil, false }()
	addr, isFault := pagefault.Of(r)
	if p := sh.PortAt(addr); isFault && p != nil {
		sh.cutOff()
		sh.ReturnReceive(sh.Scratch.Job)
		if q := sh.Fault.QP; q != nil && q.Wire != nil {
			sh.DropRequestJob(&q.Wire.Out) // which may be the scratch job, and has moved part of a packet
			q.Wire.In.Refusing = false
		}
		sh.Fault.QP = nil
		p.Fail(nic.LostMemory(addr))
		return
	}
	if !isFault || sh.Fault.QP == nil && sh.Fault.CQ == nil {
		panic(r)
	}
	sh.cutOff()
	if c := sh.Fault.CQ; c != nil {
		sh.Fault.CQ = nil
		sh.Disarm(c)
		c.Armed = false
		sh.ExplainCQ(c, codes.MemoryFault, object.NoPage+"; CQ %#06x raises no more events", addr, c.Num)
		return
	}
	q := sh.Fault.QP
	sh.Fault.QP = nil
	sh.CompleteCutSeries(q)
	sh.WriteCollected(q)
	sh.ReturnReceive(sh.Scratch.Job) // gives back the shared receive that the job has taken
	if asked && (q.Attr.State != control.StateERR || sh.Fault.Answering) {
		sh.FaultOfRequest(q, addr)
		return
	}
	sh.MemoryFault(q, addr)
}

// RestoreFaultPoint restores two things that a drain (request/drain.go), which runs between two
// steps, may have changed. cut says where the next step begins, which a fault of memory during the drain
// must not change. panics says whether faults of memory are panics on this thread.
func (sh *Loop) RestoreFaultPoint(cut object.Part, panics bool) {
	sh.Fault.Cut = cut
	debug.SetPanicOnFault(panics)
}

// cutOff notes that a fault ends the current step in the part Fault.Part.
func (sh *Loop) cutOff() {
	sh.Fault.Cut = sh.Fault.Part
	if sh.Fault.Part == object.CutLast {
		sh.Fault.Cut = object.Whole // little of the step was left, and the next step polls another queue
	}
	sh.Fault.Part = object.CutVisits
}
