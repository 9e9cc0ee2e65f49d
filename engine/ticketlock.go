package engine

import (
	"sync/atomic"

	"github.com/nicless/nicless/internal/cpu"
)

// A ticket lock lets one thread in at a time, in the order in which they came. A shard
// that goes from step to step comes behind the threads that wait for it, so that none
// waits for longer than a step.
type ticketLock struct {
	next    atomic.Uint32 // number that the next thread draws
	serving atomic.Uint32 // number of the thread that is in
}

// How long a thread waits before it yields the core to others, which may be needed to
// let it in: some 20 us, more than most steps take.
const (
	ticketRelax = 16
	ticketSpins = 64
)

func (t *ticketLock) lock() {
	n := t.next.Add(1) - 1
	for spins := 1; t.serving.Load() != n; spins++ {
		if cpu.Relax(ticketRelax); spins > ticketSpins {
			cpu.Yield()
		}
	}
}

// tryLock goes in if nobody is in or waits.
func (t *ticketLock) tryLock() bool {
	n := t.serving.Load()
	return t.next.CompareAndSwap(n, n+1)
}

func (t *ticketLock) unlock() { t.serving.Add(1) }
