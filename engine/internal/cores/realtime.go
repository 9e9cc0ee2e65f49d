//go:build linux && (amd64 || arm64)

package cores

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A thread with a real-time policy (SCHED_FIFO, SCHED_RR) keeps its core until it sleeps, or
// until a thread of higher priority wants the core. An engine's thread that always has work, or
// spins, never sleeps. The engine's other threads, which take signals and serve control requests,
// have the same priority, because they inherit it. If another spinning thread has the other cores,
// such as that of a client, they wait for ever.

// LetHelpersRun gives the calling thread a lower priority than the other threads of this process, if it
// has a real-time policy: it lowers the priority by one. From the lowest priority it raises that of
// the others instead, which needs a privilege (RLIMIT_RTPRIO). It does nothing if the thread yields
// now and then. undo restores the thread's priority, on the same thread, as far as that limit allows.
//
// warning says whom the thread may starve nevertheless, and cure how to avoid that. Both are empty
// if there is nobody.
func LetHelpersRun(yields bool) (undo func(), warning, cure string) {
	undo = func() {}
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || !realtime(attr) {
		return undo, "", ""
	}
	turns := yields
	switch {
	case yields:
	case attr.Priority == 1:
		turns = raiseOthers()
	default:
		was := *attr
		attr.Priority--
		if turns = unix.SchedSetAttr(0, attr, 0) == nil; turns {
			undo = func() { _ = unix.SchedSetAttr(0, &was, 0) }
		}
	}
	warning, cure = starved(turns, helpersAreRealtime(), otherCores(), reserve(os.DirFS("/")))
	return undo, warning, cure
}

// raiseOthers raises the real-time priorities of the other threads of this process from 1 to 2. Threads
// that are made later inherit it. It returns false if that is not allowed.
func raiseOthers() bool {
	own := unix.Gettid()
	for changed := true; changed; { // a thread may have been made by one that had the old priority
		changed = false
		for _, id := range threads() {
			attr, err := unix.SchedGetAttr(id, 0)
			if id == own || err != nil || !realtime(attr) || attr.Priority != 1 {
				continue
			}
			attr.Priority = 2
			if err := unix.SchedSetAttr(id, attr, 0); err == nil {
				changed = true
			} else if !errors.Is(err, unix.ESRCH) {
				return false
			}
		}
	}
	return true
}

// threads returns the numbers of the threads of this process.
func threads() (ids []int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// starved says whom a thread with a real-time policy may starve. turns means that threads of this
// process which have that policy, too, get their turns; helpers, that they have it; others, that this process
// may run on cores that are not the thread's; reserve, that the kernel keeps time for threads of other policies.
func starved(turns, helpers, others, reserve bool) (warning, cure string) {
	switch {
	case !turns:
		return "the engine's thread has the lowest real-time priority, and so have the threads that help it: if others spin too, requests and signals wait for ever",
			"a priority of 2 or more (chrt -f 2), or RLIMIT_RTPRIO"
	case !helpers && !others:
		return "the engine's thread has a real-time policy, and the threads that help it have not, and no core of their own: requests and signals wait while it works or spins",
			"one policy for the whole process (chrt without -R), or more cores for the process"
	case !reserve:
		return "the engine's thread has a real-time policy and the kernel keeps no time for others (sched_rt_runtime_us is -1): what else needs its core, such as threads of the kernel, waits for ever",
			"the default, sysctl kernel.sched_rt_runtime_us=950000, or a core that nothing else needs (isolcpus)"
	}
	return "", ""
}

func realtime(attr *unix.SchedAttr) bool {
	return attr.Policy == unix.SCHED_FIFO || attr.Policy == unix.SCHED_RR
}

// helpersAreRealtime reports whether all other threads of this process have a real-time policy. With
// SCHED_RESET_ON_FORK (chrt -R) only the first thread of a process has it.
func helpersAreRealtime() bool {
	own := unix.Gettid()
	for _, id := range threads() {
		if attr, err := unix.SchedGetAttr(id, 0); id != own && err == nil && !realtime(attr) {
			return false
		}
	}
	return true
}

// otherCores reports whether the first thread of this process may run on a core on which the
// calling thread may not.
func otherCores() bool {
	var own, first unix.CPUSet
	if unix.SchedGetaffinity(0, &own) != nil || unix.SchedGetaffinity(os.Getpid(), &first) != nil {
		return true
	}
	both := 0
	for core := range len(first) * 64 {
		if first.IsSet(core) && own.IsSet(core) {
			both++
		}
	}
	return first.Count() > both
}

// reserve reports whether the kernel keeps a part of each second for threads without a real-time
// policy.
func reserve(root fs.FS) bool {
	text, err := fs.ReadFile(root, "proc/sys/kernel/sched_rt_runtime_us")
	return err != nil || strings.TrimSpace(string(text)) != "-1"
}
