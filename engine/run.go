package engine

import (
	"context"
	"errors"
	"runtime"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
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
	first := e.lanes[0]
	t, err := first.moveIn()
	if err != nil {
		return err
	}
	defer t.moveOut()
	e.mail.open(t.rouse)
	defer e.mail.shut()
	end, err := first.startWorkers()
	if err != nil {
		return err
	}
	defer end()
	defer e.getUp()
	if err := t.lieDown(); err != nil {
		return err
	}
	crew, err := e.muster(ctx)
	defer crew.dismiss()
	if err != nil {
		return err
	}
	defer e.leave()
	stop, err := e.guard()
	if err != nil {
		return err
	}
	defer stop()
	defer context.AfterFunc(ctx, t.bed.rouse)()
	if started != nil {
		started()
	}
	first.loop(ctx)
	crew.halt()
	e.windUp()
	return nil
}

// loop steps a lane until ctx ends.
func (e *lane) loop(ctx context.Context) {
	alone := e.shareCore()
	idle := newIdler(e, alone)
	for ctx.Err() == nil {
		done := e.steps(idle.hasty())
		if alone {
			shm.Yield() // whoever posts needs this core, or this P, to do so
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
func (e *lane) steps(hasty bool) (done int) {
	defer e.rescue()
	defer e.endBatch() // also when faults cut the batch off
	e.restart()
	for range stepsPerGuard {
		n := e.Step()
		done += n
		if n > 0 {
			continue
		}
		if hasty {
			done += e.patrolAll() // who yields or naps after each step has looked at everybody
			break
		}
		shm.Relax(1)
	}
	return done
}

// endBatch ends what steps has begun.
func (e *lane) endBatch() {
	e.publishAt(e.passed())
}

// rescue turns a fault of memory into an error of the queue that the device was
// at. Anything else is a mistake of ours and stays a panic.
func (e *lane) rescue() {
	r := recover()
	if r == nil {
		return
	}
	defer e.letGo()
	addr, ok := faultOf(r)
	if !ok || e.cur == nil && e.curCQ == nil {
		panic(r)
	}
	e.cutOff()
	if c := e.curCQ; c != nil {
		e.curCQ = nil
		e.disarm(c)
		e.explainCQ(c, codeMemoryFault, noPage+"; CQ %#06x raises no more events", addr, c.num)
		return
	}
	q := e.cur
	e.cur = nil
	e.putBack(e.now) // a shared receive that was taken for nothing
	e.memoryFault(q, addr)
}

// memoryFault makes a fault of memory, on the way of q's work, an error of q.
func (e *lane) memoryFault(q *qp, addr uintptr) {
	if q.attr.State == control.StateERR {
		// Not even the error can be reported there.
		e.explainQueue(q, codeMemoryFault, noPage+"; the queue pair is given up", addr)
		e.setState(q, control.StateRST)
		return
	}
	e.explainQueue(q, codeMemoryFault, noPage+"; the work request fails", addr)
	q.faulted = cqe.RemoteOperation
	if q.client.holds(uint64(addr)) {
		q.faulted = cqe.LocalProtection
	} else if p := e.peerOf(q); p != nil && e.holds(p.client.lane) {
		e.setError(p)
		if q.transport != control.QPTypeRC {
			// No fault of the sender's: its message is judged anew, and finds nobody.
			q.faulted = 0
			e.park(q)
			return
		}
	}
	e.setError(q) // the flush reports it
}

// peerOf returns whom q was sending to when its memory faulted.
func (e *lane) peerOf(q *qp) *qp {
	if q.job != nil {
		return q.job.peer
	}
	return q.peer
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
