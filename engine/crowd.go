package engine

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// Programs that use verbs poll their completion queues without a pause. Where
// there are more of them than cores, a thread that spins uses up its turn on a core,
// and is put off it for milliseconds: with an engine that spins too, each message waits
// for that. A thread that sleeps, however short, is given a core at once when it wakes.
// So an engine that has been put off its core takes short naps.

// crowdGap is how long the engine must have been kept from its core to call it
// crowded: as long as another's turn, not an interrupt or a kernel thread.
const crowdGap = time.Millisecond

// For how long that is held for true. Then the kernel is asked whether more threads
// want to run than there are cores for the engine; if they do not, it spins again, and
// if that was wrong, it waits longer the next time.
const (
	crowdTime = 250 * time.Millisecond
	crowdMost = 4 * time.Second
)

// How it waits then: so many looks, then naps that grow with the time without
// work, until it has been without for so long that it sleeps as always.
const (
	crowdLooks = 20
	crowdNap   = 10 * time.Microsecond
	crowdShare = 8
	crowdIdle  = 10 * time.Millisecond
)

// A crowd is what the engine knows of others who want its core.
type crowd struct {
	seen      uint64        // device clock at the last look that found nothing; 0: it did something since
	preempted int64         // how often its thread had been put off a core
	count     func() int64  // what says how often that is now
	until     uint64        // it is taken to be crowded until then
	here      bool          // likewise, at the last look
	hold      time.Duration // for how long it was held for true the last time
	looks     int           // since there was work
	cores     int           // that the engine may run on
}

func newCrowd() (c crowd) {
	c.count = preemptions
	c.preempted = c.count()
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) == nil {
		c.cores = allowed.Count()
	}
	return c
}

// look reports whether cores are scarce, at a look of the device's that found
// nothing.
func (c *crowd) look(now uint64) bool {
	if c.seen != 0 && now-c.seen > clock.Cycles(crowdGap) {
		if n := c.count(); n != c.preempted {
			c.preempted = n
			c.found(now)
		}
	}
	if c.here && now >= c.until && runnable() > c.cores {
		c.until = now + clock.Cycles(crowdTime)
	}
	c.seen, c.here = now, now < c.until
	return c.here
}

// found notes that the engine was put off its core.
func (c *crowd) found(now uint64) {
	if c.until != 0 && now-c.until < clock.Cycles(c.hold) {
		c.hold = min(2*c.hold, crowdMost)
	} else if now >= c.until {
		c.hold = crowdTime
	}
	c.until = now + clock.Cycles(c.hold)
}

// nap returns how long to sleep so long after the last work.
func (c *crowd) nap(idle time.Duration) time.Duration {
	return min(max(idle/crowdShare, crowdNap), napTime)
}

// runnable returns how many threads run or want to, this one among them.
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

// preemptions returns how often the calling thread has been put off a core that
// it did not leave by itself.
func preemptions() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return int64(u.Nivcsw)
}

// turn is how long the thread asks to run at a time: the shorter, the sooner it
// gets a core when it wakes (Linux 6.12; before, it is ignored).
const turn = 100 * time.Microsecond

// shortTurns asks for short turns for the calling thread, until undo.
func shortTurns() (undo func()) {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return func() {}
	}
	was := *attr
	attr.Runtime = uint64(turn)
	if attr.Policy != unix.SCHED_NORMAL || unix.SchedSetAttr(0, attr, 0) != nil {
		return func() {}
	}
	return func() { _ = unix.SchedSetAttr(0, &was, 0) }
}
