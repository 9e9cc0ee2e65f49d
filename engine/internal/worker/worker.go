//go:build linux && (amd64 || arm64)

// Package worker has threads that copy pieces of long transfers for the device, each on a core of its own.
//
// The device gives tasks to a Worker and takes them back, in the same order (execution/dma.go).
package worker

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/pagefault"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"golang.org/x/sys/unix"
)

// A Worker is a thread that does copy tasks, one after another, and nothing else. It has a
// core of its own. T is what the device knows of a task.
type Worker[T any] struct {
	Ring [Ring]Task[T]

	// Owned by the device: how many tasks it has given to the worker, and how many of these
	// it has taken back from the ring.
	Given, Seen uint64
	_           [64]byte

	// Owned by the worker.
	Next   uint64         // number of the next task
	copier copying.Copier // copies the tasks that go past the caches

	Asleep atomic.Bool // the worker sleeps or is about to
	ended  atomic.Bool // the worker is to end
	wakeFD *os.File    // an eventfd that wakes the worker; nil in tests, where no worker sleeps
}

// Ring is the number of tasks that a worker has room for.
const Ring = 8

// A Task is one piece of a transfer.
type Task[T any] struct {
	State      atomic.Uint32
	PastCaches bool // copied by Worker.copier
	Dst, Src   []byte
	Fault      uintptr // if State is Faulted: address of the missing memory
	Of         T       // owned by the device
	_          [64]byte
}

// The states of a task. The device stores Given, and may change Given to
// Recalled. The worker changes Given to Taken, and then stores Done or
// Faulted. Both sides leave Given by a compare-and-swap, so only one of them
// succeeds. A task that is done or faulted belongs to the device again.
//
// Publish: Given. Observed by Worker.Work. It covers the task.
// Publish: Done, Faulted. Observed by execution.mover.CollectTasks. They cover the copy.
const (
	Done uint32 = iota
	Faulted
	Given
	Recalled
	Taken
)

// spinning is how long a worker without tasks spins before it sleeps.
const spinning = 50 * time.Microsecond

// run does tasks on a core until the worker is to end. Once the thread is on that core, run sends
// nil on started. If the thread cannot be put there, run sends the reason.
func (w *Worker[T]) run(core int, started chan<- error) {
	runtime.LockOSThread() // and no unlock, so that the thread ends with the goroutine
	if err := cores.PinWorker(core); err != nil {
		started <- err
		return
	}
	debug.SetPanicOnFault(true)
	started <- nil
	alone, spin := cpu.Uniprocessor(), clock.Cycles(spinning)
	for since := uint64(0); !w.ended.Load(); {
		if w.Work() {
			since = 0
			continue
		}
		now := clock.Now()
		switch {
		case alone:
			w.sleep() // the engine's thread needs this core, or this P
		case since == 0:
			since = now
		case now-since < spin:
			cpu.Relax(1)
		default:
			w.sleep()
			since = 0
		}
	}
}

// sleep waits until Wake writes to wakeFD. The device stores a task and then loads asleep;
// the worker stores asleep and then loads the task. These loads and stores are sequentially
// consistent, so at least one side sees the other's store.
func (w *Worker[T]) sleep() {
	w.Asleep.Store(true)
	if w.Ring[w.Next%Ring].State.Load() <= Faulted && !w.ended.Load() {
		var count [8]byte
		_, _ = unix.Read(int(w.wakeFD.Fd()), count[:])
	}
	w.Asleep.Store(false)
}

// Work does the next task, and reports whether there was one.
func (w *Worker[T]) Work() bool {
	task := &w.Ring[w.Next%Ring]
	if task.State.Load() <= Faulted {
		return false
	}
	w.Next++
	if task.State.CompareAndSwap(Given, Taken) {
		task.State.Store(w.copy(task))
	} else {
		task.State.Store(Done) // the task was recalled
	}
	return true
}

// copy does a task and returns the task's new state: Done or Faulted.
func (w *Worker[T]) copy(task *Task[T]) (outcome uint32) {
	defer func() {
		if r := recover(); r != nil {
			addr, ok := pagefault.Of(r)
			if !ok {
				panic(r)
			}
			task.Fault, outcome = addr, Faulted
		}
	}()
	if task.PastCaches {
		w.copier.Copy(task.Dst, task.Src)
	} else {
		copy(task.Dst, task.Src)
	}
	return Done
}

// Wake wakes the worker if it sleeps. It may write to wakeFD once more than needed, which
// does no harm.
func (w *Worker[T]) Wake() {
	if w.Asleep.Load() && w.wakeFD != nil {
		_ = sleep.Signal(w.wakeFD)
	}
}

// Start starts a worker on each core. end stops the workers, and returns when their
// threads have ended.
func Start[T any](cores []int) (workers []*Worker[T], end func(), err error) {
	var all sync.WaitGroup
	end = func() {
		for _, w := range workers {
			w.ended.Store(true)
			_ = sleep.Signal(w.wakeFD)
		}
		all.Wait()
		for _, w := range workers {
			_ = w.wakeFD.Close()
		}
	}
	for _, cpu := range cores {
		w := &Worker[T]{}
		w.wakeFD, err = sleep.NewEventFD()
		if err == nil {
			workers = append(workers, w)
			started := make(chan error, 1)
			all.Go(func() { w.run(cpu, started) })
			err = <-started
		}
		if err != nil {
			end()
			return nil, nil, err
		}
	}
	return workers, end, nil
}
