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

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// A thread that waits for memory cannot say so before it goes on. The watchdog can: it
// is a goroutine beside the engine's threads that looks whether they have advanced
// since the last time. It touches no memory of clients, and takes no lock that a
// request holds.
//
// It needs a P: with GOMAXPROCS 1 it speaks when the thread has gone on. And a garbage
// collection that begins meanwhile waits for the thread, and the watchdog waits for the
// collection.

// How often it looks, awake and while all shards sleep; from when on a shard is stuck;
// how often that is repeated, in growing distances; and how often a new case is said.
const (
	watchTime  = 100 * time.Millisecond
	watchSleep = time.Second
	stuckTime  = 200 * time.Millisecond
	stuckAgain = 5
	stuckQuiet = time.Second
)

// Stuck says where a thread of the engine is, and for how long it has not advanced.
type Stuck struct {
	Client, Peer string // whose memory it may be; empty: none is known
	Queue        uint32 // number of Client's queue pair, or completion queue
	CQ           bool
	PeerQueue    uint32
	Request      string // which Client has made, in place of a queue's work
	For          time.Duration
	Thread       string // what it does, as the kernel says
	NoCore       bool   // nothing but that: others have its core
}

// Stuck returns where threads of the engine are stuck now, as the watchdog has seen at
// its last look. Safe for concurrent use.
func (e *Engine) Stuck() []Stuck {
	e.watchdog.mu.Lock()
	defer e.watchdog.mu.Unlock()
	return slices.Clone(e.watchdog.stuck)
}

// A watchdog is what is known outside of the shards.
type watchdog struct {
	owners  queueOwners
	request atomic.Pointer[controlRequest] // that is being served

	mu    sync.Mutex
	stuck []Stuck
}

// A controlRequest is one that a client has made.
type controlRequest struct {
	client, what string
	since        uint64 // device clock
}

// queueOwners knows the client of each queue, for the watchdog, which may not ask the
// engine.
type queueOwners struct {
	mu     sync.Mutex
	queues map[uint64]owner // by progress.at
}

type owner struct {
	client string
	peer   uint32 // number of the queue pair that it is connected to
}

func (o *queueOwners) put(at uint64, client string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.queues == nil {
		o.queues = make(map[uint64]owner)
	}
	o.queues[at] = owner{client: client}
}

// connect notes the peer of a queue pair.
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

// guard starts the watchdog, until end. It sleeps in the kernel: a timer of the Go
// runtime may belong to the P that the stuck thread holds.
func (e *Engine) guard() (end func(), err error) {
	bell, err := newEventFD()
	if err != nil {
		return nil, fmt.Errorf("engine: what its watchdog sleeps on: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		cases := make([]stuckCase, len(e.shards)+1)
		fds := []unix.PollFd{{Fd: int32(bell.Fd()), Events: unix.POLLIN}}
		for next := watchTime; ; next = e.watch(cases) {
			if n, _ := unix.Poll(fds, int(next.Milliseconds())); n > 0 {
				return
			}
		}
	}()
	return func() {
		_, _ = unix.Write(int(bell.Fd()), eventOne)
		<-gone
		_ = bell.Close()
	}, nil
}

// A stuckCase is one shard, or the requests, from one time that it is stuck to the next.
type stuckCase struct {
	mark   uint64 // where it is stuck
	queued uint64 // ns that it had waited for a core at the look before
	again  time.Duration
	was    Stuck
	told   bool   // that it is stuck has been said
	quiet  uint64 // device clock; nothing new is said before
	unsaid int
}

// watch looks at all shards once, and returns when to look again.
func (e *Engine) watch(cases []stuckCase) (next time.Duration) {
	next = watchSleep
	var all []Stuck
	now := clock.Now()
	r := e.watchdog.request.Load()
	for i, l := range e.shards {
		mark, busy := l.mark.Observe(), l.busy.Observe() == 1
		if busy {
			next = watchTime
		}
		busy = busy && r == nil // else the shard serves the request, or waits for the thread that does
		c := &cases[i]
		if !c.look(e, mark, busy, now) {
			continue
		}
		s := e.watchdog.owners.find(l.at.Observe())
		if !c.ask(&s, int(l.thread.Observe())) {
			continue
		}
		c.say(e, s, now)
		all = append(all, c.was)
	}
	c := &cases[len(e.shards)]
	since := uint64(0)
	if r != nil {
		since, next = r.since, watchTime
	}
	if c.look(e, since, r != nil, now) {
		c.say(e, Stuck{Client: r.client, Request: r.what}, now)
		all = append(all, c.was)
	}
	e.watchdog.mu.Lock()
	e.watchdog.stuck = all
	e.watchdog.mu.Unlock()
	return next
}

// look reports whether a shard that has made its mark then is stuck there. If the shard
// was stuck and has gone on, it says so.
func (c *stuckCase) look(e *Engine, mark uint64, busy bool, now uint64) bool {
	if mark != c.mark || !busy {
		if c.told {
			c.goesOn(e, now)
		}
		*c = stuckCase{mark: mark, quiet: c.quiet, unsaid: c.unsaid}
	}
	return busy && now > mark && clock.Duration(now-mark) >= stuckTime
}

// ask asks the kernel what a thread does. It returns false if that is not clear yet: it
// takes two looks to tell a thread that runs from one that waits for a core.
func (c *stuckCase) ask(s *Stuck, thread int) bool {
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
		s.Thread = "waits in the kernel; nothing ends that, not even SIGKILL"
	case "S":
		s.Thread = "waits in the kernel"
	case "R":
		if first {
			return false
		}
		s.Thread = "runs, in the kernel perhaps"
		if waited > watchTime/2 {
			*s = Stuck{Thread: "is given no core; others have it", NoCore: true}
		}
	default:
		s.Thread = "is in state " + state
	}
	if text, err := os.ReadFile(dir + "wchan"); err == nil && len(text) > 1 && state != "R" {
		s.Thread += ", in " + string(text)
	}
	return true
}

// say says that a shard is stuck, if it is time to.
func (c *stuckCase) say(e *Engine, s Stuck, now uint64) {
	s.For = clock.Duration(now - c.mark)
	begins := c.again == 0
	c.was = s
	if s.For < c.again {
		return
	}
	c.again = stuckAgain * s.For
	if begins && now < c.quiet {
		c.unsaid++
		return
	}
	c.told, c.quiet = true, now+clock.Cycles(stuckQuiet)
	attrs := append(s.attrs(), slog.String("for", s.For.Round(time.Millisecond).String()))
	if c.unsaid > 0 {
		attrs = append(attrs, slog.Int("unsaid", c.unsaid))
		c.unsaid = 0
	}
	text := "the engine's thread is stuck at memory of a client; all clients of it wait"
	if s.Client == "" {
		text = "the engine's thread is stuck; all clients of it wait"
	}
	if s.NoCore {
		text = "the engine's thread is not given a core; all clients of it wait"
	}
	e.journal.say(slog.LevelWarn, text, attrs...)
}

// goesOn says that a shard is no longer stuck.
func (c *stuckCase) goesOn(e *Engine, now uint64) {
	e.journal.say(slog.LevelWarn, "the engine's thread goes on", append(c.was.attrs(),
		slog.String("after", fmt.Sprintf("%v to %v", c.was.For.Round(time.Millisecond), clock.Duration(now-c.mark).Round(time.Millisecond))))...)
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
