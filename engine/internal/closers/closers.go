//go:build linux && (amd64 || arm64)

// Package closers closes what clients have opened, on goroutines of each user's own.
//
// Closing a descriptor that a client opened can block: a socket may linger, a file system
// may be the client's own program. Closing a connection blocks likewise while descriptors
// lie in it unread. So neither the device nor the goroutine that serves a client closes
// them: closers do.
//
//   - Each user has a queue of its own, and one closer. If that closer is stuck and more
//     waits, the user gets another, up to Each.
//   - A closer that takes long is sent a signal. That ends every wait that the kernel
//     calls interruptible, lingering sockets among them: the kernel sends what is left in
//     the background.
//
// What the signal does not end stops one closer: a locked file of the client's own FUSE
// file system, for instance.
package closers

import (
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of the threads that may be stuck in closing, of all users and of each; well
// below the 10,000 of which a Go program dies.
const (
	Most = 512
	Each = 8
)

// How long a close may take until it is first interrupted, and until then again, at the
// most.
const (
	firstInterrupt = 10 * time.Millisecond
	lastInterrupt  = time.Second
)

// Closers are goroutines that close, and what waits for them. The zero value is ready.
// Safe for concurrent use.
type Closers struct {
	mu      sync.Mutex
	busy    int // goroutines
	waiting int // calls, of all users
	users   map[uint32]*queue
	starved []*queue // of users that have no closer, because all are busy
}

// A queue is what one user has waiting.
type queue struct {
	user    uint32
	calls   []func()
	busy    int // closers that work on it
	stuck   int // of these, how many have been interrupted already
	starved bool
}

// Add has f called by a closer of the user's, after what the user has waiting. It does
// not wait.
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

// Waiting returns how many calls no closer has begun.
func (c *Closers) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

// Clogged reports whether all the closers that a user may have are stuck, so that its
// next call would wait behind those.
func (c *Closers) Clogged(user uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.users[user]
	return q != nil && q.stuck >= Each
}

// staff starts a closer for a queue if it needs one and may have one. Half of all closers
// are for users that have none.
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
	runtime.LockOSThread() // the thread is interrupted
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

// leave takes a closer off a queue, and gives it to a queue that has none.
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
	wait time.Duration
	late bool
	done bool
}

func (c *Closers) interrupt(q *queue, thread int) *interruption {
	i := &interruption{c: c, q: q, thread: thread, wait: firstInterrupt}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timer = time.AfterFunc(i.wait, i.signal)
	return i
}

// signal interrupts the thread, by the signal that Go's own scheduler uses and programs
// do not see.
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

// end is called when the call has returned. No signal comes after it.
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
