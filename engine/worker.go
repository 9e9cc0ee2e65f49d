//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"golang.org/x/sys/unix"
)

// A worker is a thread that does copy tasks, one after another, and nothing else. It has a
// core of its own. The device's side of a worker is in dma.go.
type worker struct {
	ring [workerRing]copyTask

	// Owned by the device: how many tasks it has given to the worker, and how many of these
	// it has taken back from the ring.
	given, seen uint64
	_           [64]byte

	// Owned by the worker.
	next   uint64         // number of the next task
	copier copying.Copier // copies the tasks that go past the caches

	asleep atomic.Bool // the worker sleeps or is about to
	ended  atomic.Bool // the worker is asked to end
	wakeFD *os.File    // an eventfd that wakes the worker; nil in tests, where no worker sleeps
}

// workerRing is the number of tasks that a worker has room for.
const workerRing = 8

// A copyTask is one piece of a transfer.
type copyTask struct {
	state      atomic.Uint32
	pastCaches bool // copied by worker.copier
	dst, src   []byte
	fault      uintptr // if state is taskFaulted: address of the missing memory

	// Owned by the device.
	job    *job    // nil: the task was recalled
	client *client // the client whose share of the worker tasks this task uses
	keys   [4]*mkey
	_      [64]byte
}

// The states of a task. The device stores taskGiven, and may change taskGiven to
// taskRecalled. The worker changes taskGiven to taskTaken, and then stores taskDone or
// taskFaulted. Both sides leave taskGiven by a compare-and-swap, so only one of them
// succeeds. A task that is done or faulted belongs to the device again.
//
// Publish: taskGiven. Observed by worker.work. It covers the task.
// Publish: taskDone, taskFaulted. Observed by shard.collectTasks. They cover the copy.
const (
	taskDone uint32 = iota
	taskFaulted
	taskGiven
	taskRecalled
	taskTaken
)

// workerSpin is how long a worker without tasks spins before it sleeps.
const workerSpin = 50 * time.Microsecond

// run does tasks on a core until the worker is asked to end. Once the thread is on that
// core, run sends nil on started. If the thread cannot be put there, run sends the reason.
func (w *worker) run(core int, started chan<- error) {
	runtime.LockOSThread() // and no unlock, so that the thread ends with the goroutine
	if err := cores.PinWorker(core); err != nil {
		started <- err
		return
	}
	debug.SetPanicOnFault(true)
	started <- nil
	alone, spin := cpu.Uniprocessor(), clock.Cycles(workerSpin)
	for since := uint64(0); !w.ended.Load(); {
		if w.work() {
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

// sleep waits until wake writes to wakeFD. The device stores a task and then loads asleep;
// the worker stores asleep and then loads the task. These loads and stores are sequentially
// consistent, so at least one side sees the other's store.
func (w *worker) sleep() {
	w.asleep.Store(true)
	if w.ring[w.next%workerRing].state.Load() <= taskFaulted && !w.ended.Load() {
		var count [8]byte
		_, _ = unix.Read(int(w.wakeFD.Fd()), count[:])
	}
	w.asleep.Store(false)
}

// work does the next task, and reports whether there was one.
func (w *worker) work() bool {
	task := &w.ring[w.next%workerRing]
	if task.state.Load() <= taskFaulted {
		return false
	}
	w.next++
	if task.state.CompareAndSwap(taskGiven, taskTaken) {
		task.state.Store(w.copy(task))
	} else {
		task.state.Store(taskDone) // the task was recalled
	}
	return true
}

// copy does a task and returns the task's new state: taskDone or taskFaulted.
func (w *worker) copy(task *copyTask) (outcome uint32) {
	defer func() {
		if r := recover(); r != nil {
			addr, ok := faultOf(r)
			if !ok {
				panic(r)
			}
			task.fault, outcome = addr, taskFaulted
		}
	}()
	if task.pastCaches {
		w.copier.Copy(task.dst, task.src)
	} else {
		copy(task.dst, task.src)
	}
	return taskDone
}

// wake wakes the worker if it sleeps. It may write to wakeFD once more than needed, which
// does no harm.
func (w *worker) wake() {
	if w.asleep.Load() && w.wakeFD != nil {
		_ = sleep.Signal(w.wakeFD)
	}
}

// startWorkers starts a worker on each core. end stops the workers, and returns when their
// threads have ended.
func startWorkers(cores []int) (workers []*worker, end func(), err error) {
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
		w := &worker{}
		if w.wakeFD, err = sleep.NewEventFD(); err == nil {
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
