//go:build linux && (amd64 || arm64)

package bench

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrRealtime refuses rows that need an engine process, in a process with a real-time policy. There
// the client's thread keeps one core and the engine's the other, and the threads that serve the
// engine's control requests may get none.
var ErrRealtime = errors.New("bench: real-time policy")

// checkPolicy returns an error if groups need a process of their own and this process has a real-time
// policy, which that process would inherit.
func checkPolicy(groups []group) error {
	i := slices.IndexFunc(groups, func(g group) bool { return g.process })
	if i < 0 {
		return nil
	}
	for _, thread := range []int{os.Getpid(), 0} {
		attr, err := unix.SchedGetAttr(thread, 0)
		if err != nil {
			continue
		}
		if name, ok := realtimePolicies[attr.Policy]; ok {
			return fmt.Errorf("%w: this process has %s with priority %d, and row %s needs an engine process beside it; their spinning threads would keep both cores from the threads that serve requests",
				ErrRealtime, name, attr.Priority, groups[i].rows[0].name)
		}
	}
	return nil
}

var realtimePolicies = map[uint32]string{unix.SCHED_FIFO: "SCHED_FIFO", unix.SCHED_RR: "SCHED_RR",
	unix.SCHED_DEADLINE: "SCHED_DEADLINE"}
