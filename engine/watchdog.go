//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
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
	stuckTime  = 200 * time.Millisecond // a shard is stuck if it has not advanced for this long
	stuckAgain = 5                      // a case is reported again when it is this many times as old as at its last report
	stuckQuiet = time.Second            // least time between the reports of two cases of one shard
)

// Stuck says where a thread of the engine is stuck, and for how long.
type Stuck struct {
	Client, Peer string // clients whose memory may be the cause; empty: none is known
	Queue        uint32 // number of Client's queue pair or, if CQ is true, of its completion queue
	CQ           bool
	PeerQueue    uint32        // number of Peer's queue pair
	Request      string        // the request of Client that is being served; empty: the thread works for a queue
	For          time.Duration // time since the thread last advanced
	Thread       string        // state of the thread, as the kernel reports it
	NoCore       bool          // the thread only waits for a core; all fields except For and Thread are zero
}

// Stuck returns where threads of the engine are stuck, as the watchdog's last check found
// it. Safe for concurrent use.
func (e *device) Stuck() []Stuck {
	e.watchdog.mu.Lock()
	defer e.watchdog.mu.Unlock()
	return slices.Clone(e.watchdog.stuck)
}

// A watchdog holds what the watchdog goroutine reads in addition to shard.progress, and
// what it has found.
type watchdog struct {
	owners  queueOwners
	request atomic.Pointer[controlRequest] // the request that is being served; nil: none

	mu    sync.Mutex
	stuck []Stuck
}

// A controlRequest is a request of a client that is being served.
type controlRequest struct {
	client, what string
	since        uint64 // device clock
}

// queueOwners knows the client of each queue. It exists because the watchdog may not read
// the engine's own tables.
type queueOwners struct {
	mu     sync.Mutex
	queues map[uint64]owner // key: progress.at while that queue's memory is touched
}

type owner struct {
	client string
	peer   uint32 // number of the queue pair that the queue is connected to
}

func (o *queueOwners) put(at uint64, client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queues == nil {
		o.queues = make(map[uint64]owner)
	}
	o.queues[at] = owner{client: client}
}

// connect records the peer of a queue pair.
func (o *queueOwners) connect(at uint64, peer uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.queues[at]
	q.peer = peer
	o.queues[at] = q
}

func (o *queueOwners) drop(at uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.queues, at)
}

// find returns the client of a queue, and the client of its peer.
func (o *queueOwners) find(at uint64) (s Stuck) {
	o.mu.Lock()
	defer o.mu.Unlock()
	q, ok := o.queues[at]
	if !ok {
		return s
	}
	s.Client, s.Queue, s.CQ = q.client, uint32(at), at&atCQ != 0
	if p, ok := o.queues[uint64(q.peer)]; ok && !s.CQ && q.peer != 0 && uint64(q.peer) != at {
		s.Peer, s.PeerQueue = p.client, q.peer
	}
	return s
}

// startWatchdog starts the watchdog; end stops it. The watchdog sleeps in the kernel,
// because a timer of the Go runtime may belong to the P that the stuck thread holds.
func startWatchdog(e *device) (end func(), err error) {
	stop, err := sleep.NewEventFD()
	if err != nil {
		return nil, fmt.Errorf("engine: eventfd of the watchdog: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		cases := make([]stuckCase, len(e.shards)+1)
		fds := []unix.PollFd{{Fd: int32(stop.Fd()), Events: unix.POLLIN}}
		for next := watchTime; ; next = checkShards(e, cases) {
			if n, _ := unix.Poll(fds, int(next.Milliseconds())); n > 0 {
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
	last       Stuck
	told       bool   // the case has been reported
	quietUntil uint64 // device clock until which no new case is reported
	unsaid     int    // cases that were not reported because of quietUntil
}

// checkShards checks all shards, and the request that is being served, once. It returns the
// time until the next check.
func checkShards(e *device, cases []stuckCase) (next time.Duration) {
	next = watchSleep
	var all []Stuck
	now := clock.Now()
	r := e.watchdog.request.Load()
	for i, l := range e.shards {
		mark, busy := l.mark.Observe(), l.busy.Observe() == 1
		if busy {
			next = watchTime
		}
		busy = busy && r == nil // during a request, the shard serves the request or waits for the thread that does
		c := &cases[i]
		if !c.isStuck(e, mark, busy, now) {
			continue
		}
		s := e.watchdog.owners.find(l.at.Observe())
		if !c.askKernel(&s, int(l.thread.Observe())) {
			continue
		}
		c.report(e, s, now)
		all = append(all, c.last)
	}
	c := &cases[len(e.shards)]
	since := uint64(0)
	if r != nil {
		since, next = r.since, watchTime
	}
	if c.isStuck(e, since, r != nil, now) {
		c.report(e, Stuck{Client: r.client, Request: r.what}, now)
		all = append(all, c.last)
	}
	e.watchdog.mu.Lock()
	e.watchdog.stuck = all
	e.watchdog.mu.Unlock()
	return next
}

// isStuck reports whether a shard that last advanced at mark is stuck. If a shard that was
// reported as stuck has advanced, isStuck writes that to the log.
func (c *stuckCase) isStuck(e *device, mark uint64, busy bool, now uint64) bool {
	if mark != c.mark || !busy {
		if c.told {
			c.reportResumed(e, now)
		}
		*c = stuckCase{mark: mark, quietUntil: c.quietUntil, unsaid: c.unsaid}
	}
	return busy && now > mark && clock.Duration(now-mark) >= stuckTime
}

// askKernel asks the kernel for the state of a thread. It returns false if the state is not
// clear yet: it takes two checks to tell a running thread from one that waits for a core.
func (c *stuckCase) askKernel(s *Stuck, thread int) bool {
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
			*s = Stuck{Thread: "waits for a core", NoCore: true}
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
func (c *stuckCase) report(e *device, s Stuck, now uint64) {
	s.For = clock.Duration(now - c.mark)
	begins := c.nextReport == 0
	c.last = s
	if s.For < c.nextReport {
		return
	}
	c.nextReport = stuckAgain * s.For
	if begins && now < c.quietUntil {
		c.unsaid++
		return
	}
	c.told, c.quietUntil = true, now+clock.Cycles(stuckQuiet)
	attrs := append(s.attrs(), slog.String("for", s.For.Round(time.Millisecond).String()))
	if c.unsaid > 0 {
		attrs = append(attrs, slog.Int("unsaid", c.unsaid))
		c.unsaid = 0
	}
	text := "the engine's thread is stuck at memory of a client; all clients of this thread wait"
	if s.Client == "" {
		text = "the engine's thread is stuck; all clients of this thread wait"
	}
	if s.NoCore {
		text = "the engine's thread gets no core; all clients of this thread wait"
	}
	e.journal.Log(slog.LevelWarn, text, attrs...)
}

// reportResumed writes to the log that a shard is no longer stuck.
func (c *stuckCase) reportResumed(e *device, now uint64) {
	e.journal.Log(slog.LevelWarn, "the engine's thread goes on", append(c.last.attrs(),
		slog.String("after", fmt.Sprintf("%v to %v", c.last.For.Round(time.Millisecond), clock.Duration(now-c.mark).Round(time.Millisecond))))...)
}

func (s *Stuck) attrs() (list []any) {
	if s.Client != "" {
		list = append(list, slog.String("client", s.Client))
	}
	switch {
	case s.Request != "":
		list = append(list, slog.String("request", s.Request))
	case s.CQ:
		list = append(list, slog.String("cq", fmt.Sprintf("%#06x", s.Queue)))
	case s.Client != "":
		list = append(list, slog.String("queue", fmt.Sprintf("%#06x", s.Queue)))
	}
	if s.Peer != "" {
		list = append(list, slog.String("peer", s.Peer), slog.String("peer_queue", fmt.Sprintf("%#06x", s.PeerQueue)))
	}
	if s.Thread != "" {
		list = append(list, slog.String("thread", s.Thread))
	}
	return list
}
