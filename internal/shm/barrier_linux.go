package shm

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2).
const (
	barrierQuery    = 0
	barrierGlobal   = 1 << 1 // MEMBARRIER_CMD_GLOBAL_EXPEDITED
	barrierRegister = 1 << 2 // MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED
)

func membarrier(command uintptr) (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, command, 0, 0)
	if errno != 0 {
		return 0, fmt.Errorf("shm: membarrier: %w", errno)
	}
	return int(n), nil
}

// CanBarrier reports whether Barrier works on this system.
var CanBarrier = sync.OnceValue(func() bool {
	const both = barrierGlobal | barrierRegister
	n, err := membarrier(barrierQuery)
	return err == nil && n&both == both
})

// JoinBarrier registers this process, so that from now on a Barrier of any process includes
// this process's threads. It may take some 10 ms.
var JoinBarrier = sync.OnceValue(func() error {
	_, err := membarrier(barrierRegister)
	return err
})

// Barrier executes a full memory barrier on every running thread of each process that has
// joined. Earlier stores of such a thread are visible to the caller afterwards, and earlier
// stores of the caller are visible to later loads of the thread. This serves two sides that
// both have to order a store before a load. The side that does so often needs no barrier
// instruction. The side that does so seldom calls Barrier, which pays for both.
func Barrier() error {
	_, err := membarrier(barrierGlobal)
	return err
}
