//go:build linux && (amd64 || arm64)

package report

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/blocking"
	"github.com/nicless/nicless/internal/clock"
)

// A thread that waits for memory cannot report this before it continues. The watchdog can.
// It is a goroutine that checks now and then whether the engine's threads have advanced. It
// touches no memory of clients, and takes no lock that a request holds.
//
// The watchdog needs a P. With GOMAXPROCS 1 it therefore reports only after the stuck
// thread has continued. If a garbage collection begins while a thread is stuck, the
// collection waits for the thread, and the watchdog waits for the collection.

const (
	watchTime  = 100 * time.Millisecond // time between two checks while a shard is busy
	watchSleep = time.Second            // time between two checks while all shards sleep
	StuckTime  = 200 * time.Millisecond // a shard is stuck if it has not advanced for this long
	stuckAgain = 5                      // a case is reported again when it is so many times as old
	stuckQuiet = time.Second            // least time between the reports of two cases of one shard
)

// StartWatchdog starts the watchdog; end stops it. The watchdog sleeps in the kernel,
// because a timer of the Go runtime may belong to the P that the stuck thread holds.
func StartWatchdog(e *object.Device) (end func(), err error) {
	stop, err := sleep.NewEventFD()
	if err != nil {
		return nil, fmt.Errorf("engine: eventfd of the watchdog: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		cases := make([]stuckCase, len(e.Shards)+1)
		fd := int(stop.Fd())
		for next := watchTime; ; next = checkShards(e, cases) {
			if ended, _ := blocking.Readable(fd, next); ended {
				return
			}
		}
	}()
	return func() {
		_ = sleep.Signal(stop)
		<-gone
		_ = stop.Close()
	}, nil
}

// A stuckCase is the watchdog's record of one shard, or of the request that is being
// served. A case lasts while the shard or the request does not advance.
type stuckCase struct {
	mark       uint64        // device clock when the shard last advanced, or when the request began
	queued     uint64        // time that the thread had waited for a core by the last check, in ns
	nextReport time.Duration // age of the case at its next report
	last       object.Stuck
	reported   bool   // the case has been reported
	quietUntil uint64 // device clock until which no new case is reported
	suppressed int    // cases that were not reported because of quietUntil
}

// checkShards checks all shards, and the request that is being served, once. It returns the
// time until the next check.
func checkShards(e *object.Device, cases []stuckCase) (next time.Duration) {
	next = watchSleep
	var all []object.Stuck
	now := clock.Now()
	r := e.Watchdog.Request.Load()
	for i, l := range e.Shards {
		mark, busy := l.Mark.Observe(), l.Busy.Observe() == 1
		if busy {
			next = watchTime
		}
		// During a request, the shard serves the request or waits for the thread that does.
		busy = busy && r == nil
		c := &cases[i]
		if !c.update(e, mark, busy, now) {
			continue
		}
		s := e.Watchdog.Owners.Find(l.Touched.Observe())
		if !c.queryKernel(&s, int(l.Thread.Observe())) {
			continue
		}
		c.report(e, s, now)
		all = append(all, c.last)
	}
	c := &cases[len(e.Shards)]
	since := uint64(0)
	if r != nil {
		since, next = r.Since, watchTime
	}
	if c.update(e, since, r != nil, now) {
		c.report(e, object.Stuck{Client: r.Client, Request: r.What}, now)
		all = append(all, c.last)
	}
	e.Watchdog.Mu.Lock()
	e.Watchdog.Stuck = all
	e.Watchdog.Mu.Unlock()
	return next
}

// update updates the case of a shard that last advanced at mark, and reports whether the shard is
// stuck. If a shard that was reported as stuck has advanced, update writes that to the log.
func (c *stuckCase) update(e *object.Device, mark uint64, busy bool, now uint64) bool {
	if mark != c.mark || !busy {
		if c.reported {
			c.reportResumed(e, now)
		}
		*c = stuckCase{mark: mark, quietUntil: c.quietUntil, suppressed: c.suppressed}
	}
	return busy && now > mark && clock.Duration(now-mark) >= StuckTime
}

// queryKernel queries the state of a thread. It returns false if the state is not clear yet: it
// takes two checks to distinguish a running thread from one that waits for a core.
func (c *stuckCase) queryKernel(s *object.Stuck, thread int) bool {
	dir := fmt.Sprintf("/proc/self/task/%d/", thread)
	state := "?"
	if text, err := os.ReadFile(dir + "stat"); err == nil {
		if _, rest, ok := strings.Cut(string(text), ") "); ok && rest != "" {
			state = rest[:1]
		}
	}
	var ran, queued, turns uint64
	if text, err := os.ReadFile(dir + "schedstat"); err == nil {
		_, _ = fmt.Sscan(string(text), &ran, &queued, &turns)
	}
	waited := time.Duration(queued - c.queued)
	first := c.queued == 0
	c.queued = queued
	switch state {
	case "D":
		s.Thread = "waits in the kernel and cannot be interrupted, not even by SIGKILL"
	case "S":
		s.Thread = "waits in the kernel"
	case "R":
		if first {
			return false
		}
		s.Thread = "runs, perhaps in the kernel"
		if waited > watchTime/2 {
			*s = object.Stuck{Thread: "waits for a core", NoCore: true}
		}
	default:
		s.Thread = "is in state " + state
	}
	if text, err := os.ReadFile(dir + "wchan"); err == nil && len(text) > 1 && state != "R" {
		s.Thread += ", in " + string(text)
	}
	return true
}

// report writes to the log that a shard is stuck, if a report is due.
func (c *stuckCase) report(e *object.Device, s object.Stuck, now uint64) {
	s.For = clock.Duration(now - c.mark)
	begins := c.nextReport == 0
	c.last = s
	if s.For < c.nextReport {
		return
	}
	c.nextReport = stuckAgain * s.For
	if begins && now < c.quietUntil {
		c.suppressed++
		return
	}
	c.reported, c.quietUntil = true, now+clock.Cycles(stuckQuiet)
	attrs := append(s.Attrs(), slog.String("for", s.For.Round(time.Millisecond).String()))
	if c.suppressed > 0 {
		attrs = append(attrs, slog.Int("unsaid", c.suppressed))
		c.suppressed = 0
	}
	text := "the engine's thread is stuck at memory of a client; all clients of this thread wait"
	if s.Client == "" {
		text = "the engine's thread is stuck; all clients of this thread wait"
	}
	if s.NoCore {
		text = "the engine's thread gets no core; all clients of this thread wait"
	}
	e.Journal.Log(slog.LevelWarn, text, attrs...)
}

// reportResumed writes to the log that a shard is no longer stuck.
func (c *stuckCase) reportResumed(e *object.Device, now uint64) {
	e.Journal.Log(slog.LevelWarn, "the engine's thread goes on", append(c.last.Attrs(),
		slog.String("after", fmt.Sprintf("%v to %v", c.last.For.Round(time.Millisecond),
			clock.Duration(now-c.mark).Round(time.Millisecond))))...)
}
