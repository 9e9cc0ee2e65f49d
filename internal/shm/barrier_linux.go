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

// CanBarrier reports whether this system has Barrier.
var CanBarrier = sync.OnceValue(func() bool {
	const both = barrierGlobal | barrierRegister
	n, err := membarrier(barrierQuery)
	return err == nil && n&both == both
})

// JoinBarrier has this process take part in the Barrier of any process, from
// now on. It may take some 10 ms.
var JoinBarrier = sync.OnceValue(func() error {
	_, err := membarrier(barrierRegister)
	return err
})

// Barrier has a full memory barrier happen on every thread of each process that
// has joined: what such a thread has stored before is visible to the caller
// afterwards, and what the caller has stored before is visible to everything
// that the thread loads afterwards. So one side pays for the order of a store
// and a load that the other side does plainly and often.
func Barrier() error {
	_, err := membarrier(barrierGlobal)
	return err
}
