//go:build linux && (amd64 || arm64)

// Package ticketlock is a lock for threads that spin: it lets one thread in at a time,
// in the order in which they came.
//
// Each shard of the engine holds its own lock for the length of a step, and another
// shard's while it works on a queue pair there. A shard that unlocks and locks again at
// once comes behind the threads that wait already, so that none of them waits for longer
// than a step. A sync.Mutex gives no such order.
//
// A ticket is the number that a thread draws when it comes; the lock serves tickets in
// order of their numbers.
package ticketlock

import (
	"sync/atomic"

	"github.com/nicless/nicless/internal/cpu"
)

// A Lock is a ticket lock. Its zero value is unlocked. It must not be copied.
type Lock struct {
	next    atomic.Uint32 // ticket that the next thread draws
	serving atomic.Uint32 // ticket of the thread that holds the lock, or may take it next
}

// A waiting thread gives up its core between attempts after pauses of some 20 us in all,
// more than most steps take: the thread that it waits for may need that core.
const (
	pauses         = 16 // PAUSE instructions between two attempts
	attemptsToSpin = 64 // attempts before the thread yields
)

// Lock waits until the lock is free and every thread that came before has had it.
func (l *Lock) Lock() {
	ticket := l.next.Add(1) - 1
	for attempts := 1; l.serving.Load() != ticket; attempts++ {
		if cpu.Relax(pauses); attempts > attemptsToSpin {
			cpu.Yield()
		}
	}
}

// TryLock takes the lock if no thread holds it or waits for it, and reports whether it
// has.
func (l *Lock) TryLock() bool {
	n := l.serving.Load()
	return l.next.CompareAndSwap(n, n+1)
}

// Unlock lets the next thread in. The caller holds the lock.
func (l *Lock) Unlock() { l.serving.Add(1) }
