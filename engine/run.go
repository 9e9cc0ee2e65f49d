package engine

import (
	"context"
	"errors"
	"runtime"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
)

// stepsPerGuard is how many steps run between two looks at what is not work:
// the request to stop, the frame that catches faults of memory.
const stepsPerGuard = 256

// Run steps the engine on a thread of its own until ctx ends, then executes what
// has been announced, flushes what cannot be, and returns nil; it returns an error
// when the thread cannot be put on the cores asked for. At most one Run at a time.
// started, unless nil, is called once the thread is in
// its place and serves requests. With several cores there are as many threads,
// which go the same way together.
//
// The goroutine spins: it holds its P, so GOMAXPROCS should count one more than
// the rest of the program needs. It can be preempted like any other.
func (e *Engine) Run(ctx context.Context, started func()) error {
	first := e.shards[0]
	t, err := first.occupyThread()
	if err != nil {
		return err
	}
	defer t.leave()
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
	crew, err := e.startThreads(ctx)
	defer crew.end()
	if err != nil {
		return err
	}
	defer e.leave()
	stop, err := e.guard()
	if err != nil {
		return err
	}
	defer stop()
	defer context.AfterFunc(ctx, t.sleeper.wake)()
	if started != nil {
		started()
	}
	first.loop(ctx)
	crew.stopWork()
	e.windUp()
	return nil
}

// loop steps a shard until ctx ends.
func (sh *shard) loop(ctx context.Context) {
	alone := sh.shareCore()
	idle := newIdler(sh, alone)
	for ctx.Err() == nil {
		done := sh.steps(idle.eachStep())
		if alone {
			cpu.Yield() // whoever posts needs this core, or this P, to do so
		}
		if done > 0 {
			idle.reset()
		} else {
			idle.wait(ctx)
		}
	}
}

// steps runs a batch of steps and returns how much they did. With hasty set it
// ends at the first that found nothing to do.
func (sh *shard) steps(hasty bool) (done int) {
	defer sh.rescue()
	defer sh.endBatch() // also when faults cut the batch off
	sh.restart()
	for range stepsPerGuard {
		n := sh.Step()
		done += n
		if n > 0 {
			continue
		}
		if hasty {
			done += sh.patrolAll() // who yields or naps after each step has looked at everybody
			break
		}
		cpu.Relax(1)
	}
	return done
}

// endBatch ends what steps has begun.
func (sh *shard) endBatch() {
	sh.publishAt(sh.passed())
}

// rescue turns a fault of memory into an error of the queue that the device was
// at. Anything else is a mistake of ours and stays a panic.
func (sh *shard) rescue() {
	r := recover()
	if r == nil {
		return
	}
	defer sh.releaseAfterFault()
	addr, ok := faultOf(r)
	if !ok || sh.fault.qp == nil && sh.fault.cq == nil {
		panic(r)
	}
	sh.cutOff()
	if c := sh.fault.cq; c != nil {
		sh.fault.cq = nil
		sh.disarm(c)
		sh.explainCQ(c, codeMemoryFault, noPage+"; CQ %#06x raises no more events", addr, c.num)
		return
	}
	q := sh.fault.qp
	sh.fault.qp = nil
	sh.putBack(sh.scratch.job) // a shared receive that was taken for nothing
	sh.memoryFault(q, addr)
}

// memoryFault makes a fault of memory, on the way of q's work, an error of q.
func (sh *shard) memoryFault(q *qp, addr uintptr) {
	if q.attr.State == control.StateERR {
		// Not even the error can be reported there.
		sh.explainQueue(q, codeMemoryFault, noPage+"; the queue pair is given up", addr)
		sh.setState(q, control.StateRST)
		return
	}
	sh.explainQueue(q, codeMemoryFault, noPage+"; the work request fails", addr)
	q.faulted = cqe.RemoteOperation
	if q.client.holds(uint64(addr)) {
		q.faulted = cqe.LocalProtection
	} else if p := sh.peerOf(q); p != nil && sh.holds(p.client.shard) {
		sh.setError(p)
		if q.transport != control.QPTypeRC {
			// No fault of the sender's: its message is judged anew, and finds nobody.
			q.faulted = 0
			sh.parkJob(q)
			return
		}
	}
	sh.setError(q) // the flush reports it
}

// peerOf returns whom q was sending to when its memory faulted.
func (sh *shard) peerOf(q *qp) *qp {
	if q.job != nil {
		return q.job.peer
	}
	return q.conn.peer
}

// noPage says what a fault of memory is, with its address.
const noPage = "memory at %#x of the device's mapping has no page behind it"

// faultOf returns the address of a fault of memory that was recovered.
func faultOf(r any) (addr uintptr, ok bool) {
	err, ok := r.(runtime.Error)
	var fault interface{ Addr() uintptr }
	if !ok || !errors.As(err, &fault) {
		return 0, false
	}
	return fault.Addr(), true
}
