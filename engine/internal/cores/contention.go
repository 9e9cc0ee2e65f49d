//go:build linux && (amd64 || arm64)

package cores

import (
	"os"
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

// checksPerWake takes the place of checksPerNap when posters end the naps: the thread that waits for the
// engine's answer may be one that it has preempted.
const checksPerWake = 3

// NapTime is for how long after its last work the engine takes these naps. After that it
// sleeps as it does while its cores are not contended.
const NapTime = 10 * time.Millisecond

// Posters can end a nap by waking the engine. Those that have not promised it may never do so. So the longer
// the naps end at a wake-up, and not at their timer, the longer they may be: a nap may last trustedNap,
// doubled for each wakesPerDouble wake-ups since the last nap whose timer ended it while there was work, and
// longestNap at most. That is longer than the time between two ticks of most kernels: a timer that comes
// before the next tick has to be programmed, which on a virtual machine takes longer than a WRITE.
const (
	trustedNap     = 50 * time.Microsecond
	wakesPerDouble = 8
	longestNap     = 5 * time.Millisecond
)

// countEvery is how often a thread without work, or on contended cores, asks at most how many threads want
// to run. One count that finds enough cores ends the state of contended cores, because naps without need
// cost posters a system call each. Two counts in a row that find too few begin it.
const countEvery = 2 * time.Millisecond

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
	all         bool          // these are all cores of the system
	counted     uint64        // when the runnable threads were last counted
	crowded     bool          // there were too many
	runnable    func() int    // returns how many threads of the system run or want to run
	close       func()        // gives back what runnable needs
	nap         napEnd        // how the last nap ended, if it was the last thing that happened
	wakes       int           // naps that a wake-up ended since the last one whose timer ended it too late
}

// napEnd says what ended a nap.
type napEnd uint8

const (
	noNap    napEnd = iota
	napTimer        // its timer
	napWake         // a poster
)

// NewContention returns a Contention of the calling thread. Close gives back what it needs.
func NewContention() (c Contention) {
	threads := openRunnable()
	c.count, c.runnable, c.close = preemptions, threads.count, threads.close
	c.preemptions = c.count()
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) == nil {
		c.cores = allowed.Count()
		c.all = c.cores == countOnline(os.DirFS("/"))
	}
	return c
}

// Close ends the use of c.
func (c *Contention) Close() { c.close() }

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
	if c.contended && (now >= c.until || c.all && c.countIsDue(now)) {
		if c.recount(now) {
			c.until = now + clock.Cycles(holdTime)
		} else {
			c.until = min(c.until, now)
		}
	}
	c.checked, c.contended = now, now < c.until
	c.nap = noNap
	return c.contended
}

// Count is called after a Check that returned false, when the thread has had no work for a while. Cores begin
// to count as contended if more threads want to run than there are cores: this thread may have a core for
// itself, and the threads for which it waits share another one. Count does nothing if the thread may not run
// on all cores, because the kernel's number does not say where the threads are.
func (c *Contention) Count(now uint64) {
	if c.all && c.countIsDue(now) {
		before := c.crowded
		if c.recount(now) && before {
			c.until = now + clock.Cycles(holdTime)
		}
	}
}

// countIsDue reports whether the last count is long ago.
func (c *Contention) countIsDue(now uint64) bool {
	return now-c.counted >= clock.Cycles(countEvery)
}

// recount counts the runnable threads, and reports whether there are more than cores.
func (c *Contention) recount(now uint64) bool {
	c.counted, c.crowded = now, c.runnable() > c.cores
	return c.crowded
}

// preempted notes that the thread was preempted.
func (c *Contention) preempted(now uint64) {
	if c.until != 0 && now-c.until < clock.Cycles(c.hold) {
		c.hold = min(2*c.hold, holdMost)
	} else if now >= c.until {
		c.hold = holdTime
	}
	c.until, c.counted = now+clock.Cycles(c.hold), now
}

// Contended returns what the last call of Check returned.
func (c *Contention) Contended() bool { return c.contended }

// Worked notes that the engine has found work. The time that the work took does not count as
// a preemption.
func (c *Contention) Worked() {
	c.checked, c.checks = 0, 0
	switch c.nap {
	case napTimer:
		c.wakes = 0
	case napWake:
		c.wakes++
	}
	c.nap = noNap
}

// Slept notes that the thread has slept since the last check.
func (c *Contention) Slept() { c.checked = 0 }

// Nap is called after a Check that returned true. It returns how long the thread should sleep
// now, at most longest. If it returns 0, the thread should check once more instead. idle
// is the time since the thread's last work. If wakeable is true, posters may end the nap, and it may be
// longer than longest if they have done so for the last naps.
func (c *Contention) Nap(idle, longest time.Duration, wakeable bool) time.Duration {
	c.checks++
	trusted := wakeable && c.wakes >= wakesPerDouble
	if c.checks <= checksPerNap && !(trusted && c.checks > checksPerWake) {
		return 0
	}
	c.checked, c.checks = 0, 0
	nap := min(max(idle/napShare, shortestNap), longest)
	if trusted {
		nap = max(nap, min(trustedNap<<min(c.wakes/wakesPerDouble, 8), longestNap))
	}
	return nap
}

// Napped notes that a nap has ended, and whether a poster has ended it.
func (c *Contention) Napped(woken bool) {
	c.nap = napTimer
	if woken {
		c.nap = napWake
	}
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
