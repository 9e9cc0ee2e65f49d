package engine

import (
	"fmt"
	"math"
	"os"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// A usage is what the kernel says about a shard's thread. It tells time in which the
// thread waited for memory from time in which others had its core. The kernel is asked
// now and then, not at each step, and once more when something took too long.
type usage struct {
	now    unix.Rusage // at the last sample
	out    uint64      // cycles that were nobody's work, ever: sleep, requests, other shards
	delays *os.File    // /proc/thread-self/schedstat; nil: the kernel does not say
	text   [96]byte
	whole  struct { // at the last sample that was a whole one
		at, out     uint64 // device clock
		ran, queued time.Duration
	}
}

// wholeTime lies between two whole samples, which also ask how long the thread has
// waited for a core. That takes a microsecond or two.
const wholeTime = 5 * time.Millisecond

// kernelTime is how long the kernel may be at work for the thread where it does not
// wait, since that is counted in ticks: it clears large pages, or reclaims others.
const kernelTime = 10 * time.Millisecond

// A delay is what is known of a visit that took too long.
type delay struct {
	took     time.Duration // of it, at memory
	faults   int64         // of pages
	majors   int64         // of them, with a page that had to be fetched
	waits    int64
	preempts int64
}

// String says what the kernel has counted.
func (d delay) String() string {
	return fmt.Sprintf("page faults %d (%d of them from a disk), waits in the kernel %d", d.faults, d.majors, d.waits)
}

func (d delay) attrs() []any {
	return []any{"for", d.took.Round(time.Microsecond), "faults", d.faults, "majors", d.majors, "waits", d.waits}
}

// measure begins to measure on the calling thread, which is the shard's, until
// unmeasure.
func (sh *shard) measure() {
	sh.usage.delays, _ = os.Open("/proc/thread-self/schedstat")
	sh.thread.Publish(uint64(unix.Gettid()))
	sh.mark.Publish(clock.Now())
	sh.usage.sample(sh.mark.Observe(), true)
	sh.bound = clock.Cycles(slowTime)
}

func (sh *shard) unmeasure() {
	sh.bound = math.MaxUint64
	sh.busy.Publish(0)
	sh.thread.Publish(0)
	if sh.usage.delays != nil {
		_ = sh.usage.delays.Close()
		sh.usage.delays = nil
	}
}

// sample asks the kernel how things are now.
func (u *usage) sample(now uint64, all bool) {
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &u.now)
	if all || now-u.whole.at > clock.Cycles(wholeTime) {
		u.whole.at, u.whole.out = now, u.out
		u.whole.ran, u.whole.queued = ran(&u.now), u.waited()
	}
}

// waited returns how long the thread has waited for a core since it began.
func (u *usage) waited() time.Duration {
	if u.delays == nil {
		return 0
	}
	n, err := u.delays.ReadAt(u.text[:], 0) // nanoseconds that it ran, that it waited, turns
	if n == 0 && err != nil {
		return 0
	}
	field, sum := 0, time.Duration(0)
	for _, b := range u.text[:n] {
		switch {
		case b == ' ' || b == '\n':
			if field++; field == 2 {
				return sum
			}
			sum = 0
		case b >= '0' && b <= '9':
			sum = 10*sum + time.Duration(b-'0')
		}
	}
	return 0
}

// judge reports whether it was memory that held the thread up between two times, and
// for how long. There must have been a page fault, and the thread must have waited in
// the kernel although it did not ask for that, or the kernel must have worked for
// long; what it waited for a core does not count.
func (u *usage) judge(mark, now uint64) (d delay, ok bool) {
	was, whole := u.now, u.whole
	end := clock.Now()
	u.sample(end, true)
	took := clock.Duration(now - mark)
	kernel := time.Duration(u.now.Stime.Nano() - was.Stime.Nano())
	idle := clock.Duration(end-whole.at) - clock.Duration(u.out-whole.out)
	blocked := idle - (u.whole.ran - whole.ran) - (u.whole.queued - whole.queued)
	d = delay{
		took:     min(took, blocked),
		faults:   u.now.Minflt - was.Minflt + u.now.Majflt - was.Majflt,
		majors:   u.now.Majflt - was.Majflt,
		waits:    u.now.Nvcsw - was.Nvcsw,
		preempts: u.now.Nivcsw - was.Nivcsw,
	}
	if kernel > kernelTime && kernel > blocked {
		d.took = min(took, kernel)
	} else if d.waits == 0 || u.delays == nil && d.preempts > 0 {
		return d, false
	}
	return d, d.faults > 0 && d.took > slowTime
}

// ran returns how long a thread has run.
func ran(u *unix.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }
