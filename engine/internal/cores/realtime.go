//go:build linux && (amd64 || arm64)

package cores

import (
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// A thread with a real-time policy (SCHED_FIFO, SCHED_RR) keeps its core until it sleeps, or
// until a thread of higher priority wants the core. An engine's thread that always has work, or
// spins, never sleeps. The engine's other threads, which take signals and serve control requests,
// have the same priority, because they inherit it. If other spinning threads, such as those of clients, have
// the other cores, the engine's other threads wait for ever. So the engine's thread sleeps now and then.

const (
	// pauseEvery is how often a thread pauses. A request or a signal for which threads have to get a core
	// several times takes some tenths of a second then.
	pauseEvery = 20 * time.Millisecond

	// pauseTime is for how long a thread pauses at least. A core that becomes idle asks the others for
	// threads that they cannot run, which takes a few microseconds.
	pauseTime = 20 * time.Microsecond

	// One pause of longEvery takes longTime. A thread that is ready on the engine's core itself, such as
	// the monitor of Go's runtime, fills a short pause: then the core does not become idle, and asks
	// nobody. All pauses together are 0.5 % of the thread's time.
	longEvery = 5
	longTime  = 200 * time.Microsecond
)

// A Pauser lets the other threads of the process have the core of an engine's thread now and then. The
// zero value never does. Only the engine's thread uses it.
type Pauser struct {
	realtime bool
	next     uint64 // device clock of the next pause
	pauses   int    // short ones since the last long one
}

// NewPauser returns a Pauser for the calling thread. The Pauser pauses only if the thread has a real-time
// policy and yields is false: yields says that the thread lets others have its core anyway.
//
// warning names the threads that may starve in spite of the pauses, and cure says how to avoid that. Both are
// empty if no threads may starve.
func NewPauser(yields bool) (p Pauser, warning, cure string) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || !realtime(attr) {
		return Pauser{}, "", ""
	}
	warning, cure = starved(helpersAreRealtime(), otherCores(), reserve(os.DirFS("/")))
	return Pauser{realtime: !yields}, warning, cure
}

// Pause sleeps for a moment if a pause is due.
func (p *Pauser) Pause() {
	if !p.realtime || clock.Now() < p.next {
		return
	}
	// A signal may end the sleep early, which does no harm.
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &unix.Timespec{Nsec: int64(p.duration())}, nil)
	p.next = clock.Now() + clock.Cycles(pauseEvery)
}

// duration returns for how long the pause that begins now is to be.
func (p *Pauser) duration() time.Duration {
	p.pauses++
	if p.pauses < longEvery {
		return pauseTime
	}
	p.pauses = 0
	return longTime
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

// starved returns a warning about what a thread with a real-time policy may starve, and the cure.
//   - helpers: the process's other threads have a real-time policy too, so they get the core in the pauses
//   - others: this process may run on cores other than the thread's
//   - reserve: the kernel keeps time for threads without a real-time policy
func starved(helpers, others, reserve bool) (warning, cure string) {
	switch {
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
// SCHED_RESET_ON_FORK (chrt -R) only the first thread of a process has such a policy.
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
