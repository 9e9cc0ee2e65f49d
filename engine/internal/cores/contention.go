//go:build linux && (amd64 || arm64)

package cores

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// Programs that use verbs poll their completion queues without a pause. Where such programs
// outnumber the cores, a thread that spins uses up its time slice and is preempted for
// milliseconds, during which messages wait. A thread that sleeps, however briefly, is given a
// core at once when it wakes. So an engine that finds that it was preempted takes short naps
// (docs/design/0016-crowded-cores.md).

// gapTime is for how long the engine must have been preempted for its cores to count as
// contended. It is about as long as another thread's time slice, and longer than an interrupt
// or the work of a kernel thread.
const gapTime = time.Millisecond

// holdTime is for how long cores count as contended after the engine was preempted. When this
// time is over, the kernel is queried whether more threads want to run than the engine has cores.
// If not, the engine spins again. If the engine is then soon preempted again, its cores count as
// contended for twice as long as before, up to holdMost.
const (
	holdTime = 250 * time.Millisecond
	holdMost = 4 * time.Second
)

// While cores are contended, the engine checks its queues checksPerNap times, and then naps.
// The longer it has had no work, the longer its naps are.
const (
	checksPerNap = 20
	shortestNap  = 10 * time.Microsecond
	napShare     = 8 // a nap is one napShare-th of the time without work
)

// NapTime is for how long after its last work the engine takes these naps. After that it
// sleeps as it does while its cores are not contended.
const NapTime = 10 * time.Millisecond

// A Contention finds out whether other threads want the cores of the calling thread. A check is a
// visit of the engine to its queues that found nothing to do. Times are device clock readings. Not
// safe for concurrent use.
type Contention struct {
	checked     uint64        // time of the last check; 0: the thread has worked or slept since
	preemptions int64         // how often the thread had been preempted at the last check
	count       func() int64  // returns how often the thread has been preempted so far
	until       uint64        // time until which cores count as contended
	contended   bool          // cores counted as contended at the last check
	hold        time.Duration // for how long cores count as contended after the last preemption
	checks      int           // number of checks since there was work or a nap
	cores       int           // number of cores that the thread may run on
}

// NewContention returns a Contention of the calling thread.
func NewContention() (c Contention) {
	c.count = preemptions
	c.preemptions = c.count()
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) == nil {
		c.cores = allowed.Count()
	}
	return c
}

// Check reports whether cores are contended. It is called at each check. Cores begin to count
// as contended if since the last check the thread was preempted and more than gapTime has
// passed.
func (c *Contention) Check(now uint64) bool {
	if c.checked != 0 && now-c.checked > clock.Cycles(gapTime) {
		if n := c.count(); n != c.preemptions {
			c.preemptions = n
			c.preempted(now)
		}
	}
	if c.contended && now >= c.until && runnable() > c.cores {
		c.until = now + clock.Cycles(holdTime)
	}
	c.checked, c.contended = now, now < c.until
	return c.contended
}

// preempted notes that the thread was preempted.
func (c *Contention) preempted(now uint64) {
	if c.until != 0 && now-c.until < clock.Cycles(c.hold) {
		c.hold = min(2*c.hold, holdMost)
	} else if now >= c.until {
		c.hold = holdTime
	}
	c.until = now + clock.Cycles(c.hold)
}

// Contended returns what the last call of Check returned.
func (c *Contention) Contended() bool { return c.contended }

// Worked notes that the engine has found work. The time that the work took does not count as
// a preemption.
func (c *Contention) Worked() { c.checked, c.checks = 0, 0 }

// Slept notes that the thread has slept since the last check.
func (c *Contention) Slept() { c.checked = 0 }

// Nap is called after a Check that returned true. It returns how long the thread should sleep
// now, at most longest. If it returns 0, the thread should check once more instead. idle
// is the time since the thread's last work.
func (c *Contention) Nap(idle, longest time.Duration) time.Duration {
	c.checks++
	if c.checks <= checksPerNap {
		return 0
	}
	c.checked, c.checks = 0, 0
	return min(max(idle/napShare, shortestNap), longest)
}

// runnable returns how many threads of the system run or want to run, including the calling
// thread.
func runnable() (n int) {
	text, err := os.ReadFile("/proc/loadavg") // 0.20 0.18 0.12 3/345 11206
	if err != nil {
		return 0
	}
	if fields := strings.Fields(string(text)); len(fields) == 5 {
		running, _, _ := strings.Cut(fields[3], "/")
		n, _ = strconv.Atoi(running)
	}
	return n
}

// preemptions returns how often the calling thread has been preempted (involuntary context
// switches).
func preemptions() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return int64(u.Nivcsw)
}
