//go:build linux && (amd64 || arm64)

package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
)

// stepsPerBatch is how many steps are in one batch. Between batches the shard checks
// whether to stop. The deferred call that recovers from faults of memory is set up once in
// a batch.
const stepsPerBatch = 256

// Run steps the engine on a thread of its own until ctx ends. Then it executes the work
// that has been announced, flushes the work that cannot be executed, and returns nil. It
// returns an error if the thread cannot be put on the cores asked for. Only one Run at a
// time is allowed. Run calls started, unless started is nil, once the thread is on its core
// and serves requests. With several Config.Cores there is a thread for each core; these
// threads start and stop together.
//
// The goroutine spins and so holds its P: GOMAXPROCS should be one more than the rest of
// the program needs. The goroutine can be preempted like any other.
func (e *runner) Run(ctx context.Context, started func()) error {
	first := e.loops[0]
	t, err := first.occupyThread()
	if err != nil {
		return err
	}
	defer t.restore()
	e.mail.open(t.wake)
	defer e.mail.shut()
	end, err := first.useWorkers()
	if err != nil {
		return err
	}
	defer end()
	defer e.detachSleepers()
	if err := t.attachSleeper(); err != nil {
		return err
	}
	others, err := e.startThreads(ctx)
	defer others.end()
	if err != nil {
		return err
	}
	defer e.publishGone()
	stop, err := startWatchdog(e.device)
	if err != nil {
		return err
	}
	defer stop()
	defer context.AfterFunc(ctx, t.sleeper.Wake)()
	if started != nil {
		started()
	}
	first.loop(ctx)
	others.stopWork()
	e.stopQueues()
	return nil
}

// loop steps a shard until ctx ends.
func (sh *threadLoop) loop(ctx context.Context) {
	sharesCore := sh.shareCore()
	idle := newIdler(sh, sharesCore)
	for ctx.Err() == nil {
		done := sh.steps(idle.afterEachStep())
		if sharesCore {
			cpu.Yield() // posters need this core, or this P
		}
		sh.pauser.Pause()
		if done > 0 {
			idle.reset()
		} else {
			idle.wait(ctx)
		}
	}
}

// steps runs a batch of steps and returns how much work they did. If untilIdle is true, the
// batch ends at the first step that finds nothing to do.
func (sh *threadLoop) steps(untilIdle bool) (done int) {
	defer sh.recoverFault()
	defer sh.endBatch() // also if a fault cuts the batch off
	sh.restart()
	for range stepsPerBatch {
		n := sh.Step()
		done += n
		if n > 0 {
			continue
		}
		if untilIdle {
			done += sh.patrolMany() // the caller yields or naps next; most engines have fewer queues than this polls
			break
		}
		cpu.Relax(1)
	}
	return done
}

// endBatch ends the measurement of progress that steps began, and publishes the status
// pages.
func (sh *threadLoop) endBatch() {
	sh.publishAt(sh.passed())
}

// recoverFault turns a fault of memory into an error of the queue whose memory was being
// touched. Any other panic is a bug of the engine, and recoverFault panics again with it.
func (sh *threadLoop) recoverFault() {
	r := recover()
	if r == nil {
		return
	}
	defer sh.releaseAfterFault()
	defer sh.freePackets()
	sh.trial = false // a WQE may have been judged again
	asked := sh.fault.answers || sh.fault.port != nil && sh.fault.port.asks()
	defer func() { sh.fault.port, sh.fault.answers = nil, false }()
	addr, ok := faultOf(r)
	if p := sh.portAt(addr); ok && p != nil {
		sh.cutOff()
		sh.putBack(sh.scratch.job)
		if q := sh.fault.qp; q != nil && q.wire != nil {
			sh.dropJob(&q.wire.out) // part of a packet was moved, perhaps with the scratch job
			q.wire.in.refusing = false
		}
		sh.fault.qp = nil
		p.fail(fmt.Errorf(noPage, addr))
		return
	}
	if !ok || sh.fault.qp == nil && sh.fault.cq == nil {
		panic(r)
	}
	sh.cutOff()
	if c := sh.fault.cq; c != nil {
		sh.fault.cq = nil
		sh.disarm(c)
		sh.explainCQ(c, codes.MemoryFault, noPage+"; CQ %#06x raises no more events", addr, c.num)
		return
	}
	q := sh.fault.qp
	sh.fault.qp = nil
	sh.completeCutSeries(q)
	sh.writeCollected(q)
	sh.putBack(sh.scratch.job) // the shared receive that the job has taken
	if asked && (q.attr.State != control.StateERR || sh.fault.answers) {
		sh.faultOfRequest(q, addr)
		return
	}
	sh.memoryFault(q, addr)
}

// memoryFault turns a fault of memory during the work of q into an error of q.
func (sh *queues) memoryFault(q *qp, addr uintptr) {
	if q.attr.State == control.StateERR {
		// The flush of q has met the fault, so no completion can report it.
		sh.explainQueue(q, codes.MemoryFault, noPage+"; the queue pair is given up", addr)
		sh.setState(q, control.StateRST)
		return
	}
	sh.explainQueue(q, codes.MemoryFault, noPage+"; the work request fails", addr)
	q.faulted = cqe.RemoteOperation
	if q.client.holds(uint64(addr)) {
		q.faulted = cqe.LocalProtection
		if p := sh.peerOf(q); p != nil && sh.holds(p.client.shard) && sh.receivesInto(q, p, addr) {
			sh.setError(p) // it has used receives whose completions are lost
		}
	} else if p := sh.peerOf(q); p != nil && sh.holds(p.client.shard) {
		sh.setError(p)
		if !q.reliable() {
			// The sender is not at fault. Its message is judged again, and then finds no
			// peer.
			q.faulted = 0
			sh.parkJob(q)
			return
		}
	}
	sh.setError(q) // the flush reports it
}

// receivesInto reports whether addr is in the completion queue of the receives that q's work
// request has used at its peer p.
func (sh *queues) receivesInto(q, p *qp, addr uintptr) bool {
	if p.xrcd == nil {
		return p.rq.cq.has(addr)
	}
	j := q.job
	if j == nil {
		j = sh.scratch.job
	}
	return j.srq != nil && j.srq.cq.has(addr)
}

// peerOf returns the peer that q was sending to when a fault of memory happened.
func (sh *queues) peerOf(q *qp) *qp {
	if q.job != nil {
		return q.job.peer
	}
	return q.conn.peer
}

// noPage is the explanation of a fault of memory; its argument is the address.
const noPage = "memory at %#x of the device's mapping has no page behind it"

// faultOf returns the address of a fault of memory, given the value that was recovered.
func faultOf(r any) (addr uintptr, ok bool) {
	err, ok := r.(runtime.Error)
	var fault interface{ Addr() uintptr }
	if !ok || !errors.As(err, &fault) {
		return 0, false
	}
	return fault.Addr(), true
}
