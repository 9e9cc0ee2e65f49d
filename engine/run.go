package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"golang.org/x/sys/unix"
)

// stepsPerGuard is how many steps run between two looks at what is not work:
// the request to stop, the frame that catches faults of memory.
const stepsPerGuard = 256

// Run steps the engine on a thread of its own until ctx ends, then executes what
// has been announced, flushes what cannot be, and returns nil; it returns an error
// when the thread cannot be put on the cores asked for. At most one Run at a time.
// started, unless nil, is called once the thread is in
// its place and serves requests.
//
// The goroutine spins: it holds its P, so GOMAXPROCS should count one more than
// the rest of the program needs. It can be preempted like any other.
func (e *Engine) Run(ctx context.Context, started func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := e.pin()
	if err != nil {
		return err
	}
	defer unpin()
	if e.cfg.Idle != IdleSpin {
		defer shortTurns()()
	}
	// A region can lose its pages although it is sealed (a full tmpfs, a
	// trusted file that shrank). That is a fault of one work request, not of
	// the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	b, err := makeBed()
	if err != nil {
		return err
	}
	defer b.close()
	e.mail.open(func() {
		if e.asleep.Load() {
			b.rouse()
		}
	})
	defer e.mail.shut()
	if err := e.lieDown(b); err != nil {
		return err
	}
	defer func() { e.bed = nil }()
	defer e.leave()
	defer context.AfterFunc(ctx, b.rouse)()
	if started != nil {
		started()
	}
	alone := shm.Alone()
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
	e.windUp()
	return nil
}

// steps runs a batch of steps and returns how much they did. With hasty set it
// ends at the first that found nothing to do.
func (e *Engine) steps(hasty bool) (done int) {
	defer e.rescue()
	defer e.publish() // also when faults cut the batch off
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

// rescue turns a fault of memory into an error of the queue that the device was
// at. Anything else is a mistake of ours and stays a panic.
func (e *Engine) rescue() {
	r := recover()
	if r == nil {
		return
	}
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
	} else if p := e.peerOf(q); p != nil {
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
func (e *Engine) peerOf(q *qp) *qp {
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

// ErrCPUs reports cores in Config.CPUs that the thread cannot be put on.
var ErrCPUs = errors.New("engine")

// pin puts the calling thread on the cores that the configuration names, until
// unpin: the thread is not ours for ever.
func (e *Engine) pin() (unpin func(), err error) {
	if e.cfg.CPUs == nil {
		return func() {}, nil
	}
	var set, allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		return nil, fmt.Errorf("engine: which cores are allowed: %w", err)
	}
	for _, cpu := range e.cfg.CPUs {
		if cpu < 0 || !allowed.IsSet(cpu) {
			return nil, fmt.Errorf("%w: core %d does not exist or is not allowed to this process (%d are)", ErrCPUs, cpu, allowed.Count())
		}
		set.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("engine: cores %v: %w", e.cfg.CPUs, err)
	}
	return func() { _ = unix.SchedSetaffinity(0, &allowed) }, nil
}
