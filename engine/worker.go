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

// A worker is a thread on a core of its own that does copy tasks, one after the other, and
// nothing else. dma.go is the device's side of it.
type worker struct {
	ring [workerRing]copyTask

	// Owned by the device: how many tasks it has given, and how many of them it has
	// taken back.
	given, seen uint64
	_           [64]byte

	// Owned by the worker.
	next   uint64         // number of the next task
	copier copying.Copier // of transfers past the caches

	asleep atomic.Bool // it sleeps or is about to
	ended  atomic.Bool // it is asked to end
	wakeFD *os.File    // an eventfd that wakes it; nil in tests, where it never sleeps
}

// workerRing is the number of tasks that a worker has room for.
const workerRing = 8

// A copyTask is one piece of a transfer.
type copyTask struct {
	state      atomic.Uint32
	pastCaches bool // copied by worker.copier
	dst, src   []byte
	fault      uintptr // address of the missing memory, if taskFaulted

	// Owned by the device.
	job    *job    // nil: the task was recalled
	client *client // whose share of the tasks it counts to
	keys   [4]*mkey
	_      [64]byte
}

// The states of a task. The device stores taskGiven and changes that to taskRecalled; the
// worker changes it to taskTaken, and then stores taskDone or taskFaulted. Both leave
// taskGiven by a compare-and-swap, so one of them is first. A task that is done or faulted
// is the device's again.
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

// run does tasks on a core until the worker is asked to end. It sends on started nil once
// the thread is on that core, or the reason why it cannot be.
func (w *worker) run(core int, started chan<- error) {
	runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
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
// the worker stores asleep and then loads the task. Both are sequentially consistent, so
// one of the two sees the other's store.
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
		task.state.Store(taskDone) // it was recalled
	}
	return true
}

// copy does a task and returns its state after that: taskDone or taskFaulted.
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

// wake wakes the worker if it sleeps. It may write to wakeFD once too often, which does no
// harm.
func (w *worker) wake() {
	if w.asleep.Load() && w.wakeFD != nil {
		_ = sleep.Signal(w.wakeFD)
	}
}

// startWorkers starts a worker on each core. end stops them, and returns when their threads
// have ended.
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
