//go:build linux && (amd64 || arm64)

// Package ticketlock is a lock for threads that spin. One thread at a time holds the lock,
// and threads get it in the order in which they asked for it.
//
// Each shard of the engine holds its own lock for the length of a step. It also holds the
// lock of another shard while it works on a queue pair of that shard. A shard that unlocks
// its lock and locks it again at once gets it after the threads that were already waiting, so
// no thread waits for longer than a step. A sync.Mutex gives no such order.
//
// A ticket is a number that a thread draws when it asks for the lock. The lock serves tickets
// in the order of their numbers.
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

// A waiting thread spins for some 20 us, which is longer than most steps. After that it
// yields its core after each attempt, because the thread that it waits for may need that
// core.
const (
	pauses         = 16 // PAUSE instructions between two attempts
	attemptsToSpin = 64 // attempts before the thread yields
)

// Lock takes the lock. It waits until the lock is free and every thread that asked for the
// lock earlier has had it.
func (l *Lock) Lock() {
	ticket := l.next.Add(1) - 1
	for attempts := 1; l.serving.Load() != ticket; attempts++ {
		cpu.Relax(pauses)
		if attempts > attemptsToSpin {
			cpu.Yield()
		}
	}
}

// TryLock takes the lock if no thread holds it or waits for it, and reports whether it has
// taken the lock.
func (l *Lock) TryLock() bool {
	n := l.serving.Load()
	return l.next.CompareAndSwap(n, n+1)
}

// Unlock releases the lock, which the caller holds, to the next waiting thread.
func (l *Lock) Unlock() { l.serving.Add(1) }
