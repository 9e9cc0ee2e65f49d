package engine

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/cpu"
	"golang.org/x/sys/unix"
)

// A worker is a thread on a core of its own that copies what the device hands it,
// piece after piece, and knows nothing else. See dma.go for the device's side.
type worker struct {
	ring [workerRing]copyTask

	// The device's: how many tasks have been given, and how many of them seen to
	// be done.
	given, seen uint64
	_           [64]byte

	// The worker's.
	next   uint64 // task to do
	copier copier // of what no cache holds

	asleep atomic.Bool // or about to be
	ended  atomic.Bool // asked to end
	wakeFD *os.File    // that it is woken by; nil: it never sleeps, in tests
}

// workerRing is how many tasks a worker may have before it.
const workerRing = 8

// A copyTask is one piece of a transfer.
type copyTask struct {
	state      atomic.Uint32
	pastCaches bool // by the copier
	dst, src   []byte
	fault      uintptr // where memory was missing, of one that is spoilt

	// The device's.
	job    *job    // nil: it matters no more
	client *Client // who has it, of what one may have
	keys   [4]*mkey
	_      [64]byte
}

// The states of an task. The device makes it given and, from given, recalled; the
// worker makes it taken, from given too, and then over or spoilt: who of the two is
// first decides. Over, the place in the ring is the device's again.
//
// Publish: given. Observed by worker.work. It covers the task.
// Publish: over, spoilt. Observed by shard.collect. They cover the copy.
const (
	taskDone uint32 = iota
	taskFaulted
	taskGiven
	taskRecalled
	taskTaken
)

// workerSpin is how long a worker without tasks spins before it sleeps.
const workerSpin = 50 * time.Microsecond

// run does tasks on a core until it is asked to end. started is told when the
// thread is in its place, or why it cannot be there.
func (w *worker) run(core int, started chan<- error) {
	runtime.LockOSThread() // for ever: the thread ends with the goroutine
	var set unix.CPUSet
	set.Set(core)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		started <- fmt.Errorf("%w: DMA core %d: %w", ErrCPUs, core, err)
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
			w.sleep() // who would give it something needs this core, or this P
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

// sleep waits until the device has rung the bell. The giver of an task stores it
// before it loads asleep, and here it is the other way round; both are sequentially
// consistent, so one of the two sees the other.
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
	e := &w.ring[w.next%workerRing]
	if e.state.Load() <= taskFaulted {
		return false
	}
	w.next++
	if e.state.CompareAndSwap(taskGiven, taskTaken) {
		e.state.Store(w.copy(e))
	} else {
		e.state.Store(taskDone) // it was recalled
	}
	return true
}

// copy does an task and returns what has become of it.
func (w *worker) copy(e *copyTask) (outcome uint32) {
	defer func() {
		if r := recover(); r != nil {
			addr, ok := faultOf(r)
			if !ok {
				panic(r)
			}
			e.fault, outcome = addr, taskFaulted
		}
	}()
	if e.pastCaches {
		w.copier.copy(e.dst, e.src)
	} else {
		copy(e.dst, e.src)
	}
	return taskDone
}

// wake wakes the worker if it sleeps. The bell may be rung once too often.
func (w *worker) wake() {
	if w.asleep.Load() && w.wakeFD != nil {
		_, _ = unix.Write(int(w.wakeFD.Fd()), eventOne)
	}
}

// startWorkers starts a worker on each core. end stops them, and returns when they are
// gone.
func startWorkers(cores []int) (workers []*worker, end func(), err error) {
	var all sync.WaitGroup
	end = func() {
		for _, w := range workers {
			w.ended.Store(true)
			_, _ = unix.Write(int(w.wakeFD.Fd()), eventOne)
		}
		all.Wait()
		for _, w := range workers {
			_ = w.wakeFD.Close()
		}
	}
	for _, cpu := range cores {
		w := &worker{}
		if w.wakeFD, err = newEventFD(); err == nil {
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
