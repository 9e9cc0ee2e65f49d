//go:build linux && (amd64 || arm64)

// Package closers closes descriptors that clients have opened, on goroutines called closers.
// Each user has closers of its own.
//
// Closing a descriptor that a client opened can block: a socket may linger, or a file system
// may be the client's own program. Closing a connection can block too, if there are unread
// descriptors in it. So neither the device nor the goroutine that serves a client closes
// these descriptors; closers do.
//
//   - Each user has a queue of calls, and one closer. If the closer is stuck and more calls
//     wait, the user gets another closer, up to Each closers.
//   - A closer that takes long is sent a signal. The signal ends every wait that the kernel
//     calls interruptible, for example that of a lingering socket: the kernel then sends the
//     remaining data in the background.
//
// A wait that the signal does not end stops one closer. An example is a locked file of the
// client's own FUSE file system.
package closers

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Most bounds the closers of all users together, and Each those of one user. Each closer may
// be a thread that is stuck. Most is far below 10,000, the number of threads at which a Go
// program ends.
const (
	Most = 512
	Each = 8
)

// A call is interrupted first after firstInterrupt. The time to the next interruption then
// doubles each time, up to lastInterrupt.
const (
	firstInterrupt = 10 * time.Millisecond
	lastInterrupt  = time.Second
)

// Closers are the closers and the calls that wait for them. The zero value is ready for use.
// Safe for concurrent use.
type Closers struct {
	mu      sync.Mutex
	busy    int // number of closers
	waiting int // number of waiting calls, of all users
	users   map[uint32]*queue
	starved []*queue // queues of users that have no closer, because there are already Most closers
}

// A queue holds the waiting calls of one user.
type queue struct {
	user    uint32
	calls   []func()
	busy    int // number of closers that work on this queue
	stuck   int // how many of these closers have been interrupted in their present call
	starved bool
}

// Add makes a closer of the user call f, after the calls that wait already for this user. Add
// itself does not wait.
func (c *Closers) Add(user uint32, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.users[user]
	if q == nil {
		if c.users == nil {
			c.users = make(map[uint32]*queue)
		}
		q = &queue{user: user}
		c.users[user] = q
	}
	q.calls = append(q.calls, f)
	c.waiting++
	c.staff(q)
}

// Waiting returns the number of calls that no closer has begun yet.
func (c *Closers) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// Clogged reports whether all the closers that a user may have are stuck. The user's next
// call would then have to wait for one of them.
func (c *Closers) Clogged(user uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.users[user]
	return q != nil && q.stuck >= Each
}

// staff starts a closer for a queue if the queue needs one and may have one. Half of Most is
// reserved for users that have no closer. The caller holds c.mu.
func (c *Closers) staff(q *queue) {
	switch {
	case len(q.calls) == 0 || q.busy > q.stuck || q.starved:
	case q.busy == 0 && c.busy == Most:
		q.starved = true
		c.starved = append(c.starved, q)
	case q.busy == 0 || q.busy < Each && c.busy < Most/2:
		q.busy++
		c.busy++
		go c.work(q)
	}
}

// work makes the calls of one user until none is left.
func (c *Closers) work(q *queue) {
	runtime.LockOSThread() // because signals are sent to this thread
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	for {
		c.mu.Lock()
		if len(q.calls) == 0 {
			c.leave(q)
			c.mu.Unlock()
			return
		}
		f := q.calls[0]
		q.calls[0] = nil
		q.calls = q.calls[1:]
		c.waiting--
		c.mu.Unlock()
		i := c.interrupt(q, thread)
		f()
		i.end()
	}
}

// leave is called when a closer leaves a queue and ends. If a queue has no closer because there were too
// many, leave starts a closer for that queue. The caller holds c.mu.
func (c *Closers) leave(q *queue) {
	q.busy--
	c.busy--
	if q.busy == 0 {
		delete(c.users, q.user)
	}
	if len(c.starved) > 0 {
		next := c.starved[0]
		c.starved[0] = nil
		c.starved = c.starved[1:]
		next.starved = false
		c.staff(next)
	}
}

// An interruption sends signals to a closer whose call takes long.
type interruption struct {
	c      *Closers
	q      *queue
	thread int
	timer  *time.Timer

	mu   sync.Mutex
	wait time.Duration // time to the next signal
	late bool          // a signal was sent, so the closer counts as stuck
	done bool          // the call has returned
}

// interrupt begins the interruption of a call that a closer of q, on the given thread, is about to make.
func (c *Closers) interrupt(q *queue, thread int) *interruption {
	i := &interruption{c: c, q: q, thread: thread, wait: firstInterrupt}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timer = time.AfterFunc(i.wait, i.signal)
	return i
}

// signal interrupts the thread by SIGURG, the signal that Go's own scheduler uses and that
// programs do not notice.
func (i *interruption) signal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done {
		return
	}
	if !i.late {
		i.late = true
		i.c.mu.Lock()
		i.q.stuck++
		i.c.staff(i.q)
		i.c.mu.Unlock()
	}
	_ = unix.Tgkill(os.Getpid(), i.thread, unix.SIGURG)
	i.wait = min(2*i.wait, lastInterrupt)
	i.timer.Reset(i.wait)
}

// end is called when the call has returned. No signal is sent after end.
func (i *interruption) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.done = true
	i.timer.Stop()
	if i.late {
		i.c.mu.Lock()
		i.q.stuck--
		i.c.mu.Unlock()
	}
}
