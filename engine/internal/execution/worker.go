//go:build linux && (amd64 || arm64)

package execution

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/copying"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"golang.org/x/sys/unix"
)

// A Worker is a thread that does copy tasks, one after another, and nothing else. It has a
// core of its own. The device's side of a worker is in dma.go.
type Worker struct {
	Ring [WorkerRing]copyTask

	// Owned by the device: how many tasks it has given to the worker, and how many of these
	// it has taken back from the ring.
	Given, seen uint64
	_           [64]byte

	// Owned by the worker.
	Next   uint64         // number of the next task
	copier copying.Copier // copies the tasks that go past the caches

	Asleep atomic.Bool // the worker sleeps or is about to
	ended  atomic.Bool // the worker is to end
	wakeFD *os.File    // an eventfd that wakes the worker; nil in tests, where no worker sleeps
}

// WorkerRing is the number of tasks that a worker has room for.
const WorkerRing = 8

// A copyTask is one piece of a transfer.
type copyTask struct {
	State      atomic.Uint32
	pastCaches bool // copied by Worker.copier
	dst, src   []byte
	Fault      uintptr // if State is TaskFaulted: address of the missing memory

	// Owned by the device.
	job    *object.Job    // nil: the task was recalled
	client *object.Client // the client whose share of the worker tasks this task uses
	keys   [4]*object.Mkey
	_      [64]byte
}

// The states of a task. The device stores TaskGiven, and may change TaskGiven to
// TaskRecalled. The worker changes TaskGiven to TaskTaken, and then stores TaskDone or
// TaskFaulted. Both sides leave TaskGiven by a compare-and-swap, so only one of them
// succeeds. A task that is done or faulted belongs to the device again.
//
// Publish: TaskGiven. Observed by Worker.Work. It covers the task.
// Publish: TaskDone, TaskFaulted. Observed by mover.CollectTasks. They cover the copy.
const (
	TaskDone uint32 = iota
	TaskFaulted
	TaskGiven
	TaskRecalled
	TaskTaken
)

// workerSpin is how long a worker without tasks spins before it sleeps.
const workerSpin = 50 * time.Microsecond

// run does tasks on a core until the worker is to end. Once the thread is on that core, run sends
// nil on started. If the thread cannot be put there, run sends the reason.
func (w *Worker) run(core int, started chan<- error) {
	runtime.LockOSThread() // and no unlock, so that the thread ends with the goroutine
	if err := cores.PinWorker(core); err != nil {
		started <- err
		return
	}
	debug.SetPanicOnFault(true)
	started <- nil
	alone, spin := cpu.Uniprocessor(), clock.Cycles(workerSpin)
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

// sleep waits until wake writes to wakeFD. The device stores a task and then loads asleep;
// the worker stores asleep and then loads the task. These loads and stores are sequentially
// consistent, so at least one side sees the other's store.
func (w *Worker) sleep() {
	w.Asleep.Store(true)
	if w.Ring[w.Next%WorkerRing].State.Load() <= TaskFaulted && !w.ended.Load() {
		var count [8]byte
		_, _ = unix.Read(int(w.wakeFD.Fd()), count[:])
	}
	w.Asleep.Store(false)
}

// Work does the next task, and reports whether there was one.
func (w *Worker) Work() bool {
	task := &w.Ring[w.Next%WorkerRing]
	if task.State.Load() <= TaskFaulted {
		return false
	}
	w.Next++
	if task.State.CompareAndSwap(TaskGiven, TaskTaken) {
		task.State.Store(w.copy(task))
	} else {
		task.State.Store(TaskDone) // the task was recalled
	}
	return true
}

// copy does a task and returns the task's new state: TaskDone or TaskFaulted.
func (w *Worker) copy(task *copyTask) (outcome uint32) {
	defer func() {
		if r := recover(); r != nil {
			addr, ok := object.FaultOf(r)
			if !ok {
				panic(r)
			}
			task.Fault, outcome = addr, TaskFaulted
		}
	}()
	if task.pastCaches {
		w.copier.Copy(task.dst, task.src)
	} else {
		copy(task.dst, task.src)
	}
	return TaskDone
}

// wake wakes the worker if it sleeps. It may write to wakeFD once more than needed, which
// does no harm.
func (w *Worker) wake() {
	if w.Asleep.Load() && w.wakeFD != nil {
		_ = sleep.Signal(w.wakeFD)
	}
}

// StartWorkers starts a worker on each core. end stops the workers, and returns when their
// threads have ended.
func StartWorkers(cores []int) (workers []*Worker, end func(), err error) {
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
		w := &Worker{}
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
