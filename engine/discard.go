package engine

import (
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// Closing a descriptor that a client opened can block: a socket may linger, a file
// system may be the client's own program. Closing a connection blocks likewise while
// descriptors lie in it unread. So neither the device nor the goroutine that stops it
// waits for that: closer goroutines do. What waits for a closer counts as the user's,
// so that in the end this user is refused, and nobody else.
//
//   - Each user has a queue of its own, and one closer. If that one is stuck and more
//     waits, the user gets another, up to closersEach.
//   - A closer that takes long is sent a signal. That ends every wait that the kernel
//     calls interruptible, lingering sockets among them: the kernel sends what is left
//     in the background.
//   - Connections do not wait behind other descriptors, because accept depends on their
//     being closed: a connection has to be accepted before it can be refused.
//
// Where the listener refuses descriptors (PassRights, Linux 6.16) none lies unread and
// connections close at once; a verbs server lets them be sent after hello, and does not
// greet users whose closers are stuck (Clogged). On older kernels one way remains: a
// descriptor that blocks without regard to signals, such as a locked file of the
// client's own FUSE file system, stops one closer. A user who brings closersEach of
// them and then so many connections that they fill the reserve of descriptors
// (backlogged) does pause accept for everybody: the user of a connection is not known
// before it is accepted. The same needs closersMost of them, of more than 250 users,
// where users work together.

// Bounds of the threads that may be stuck in closing, for connections and for other
// descriptors each; well below the 10,000 of which a Go program dies.
const (
	closersMost = 512
	closersEach = 8
)

// Patience with a close: how long until it is first interrupted, and until then
// again, at the most.
const (
	closePatience = 10 * time.Millisecond
	closeAgain    = time.Second
)

// discards are the descriptors that wait to be closed.
type discards struct{ files, connections closers }

// discard has n descriptors closed, which owe has counted.
func (e *Engine) discard(uid uint32, n int, closeAll func()) {
	e.discarded.files.add(e.shares.payer(uid), func() {
		closeAll()
		e.shares.give(uid, bill{descriptors: n})
	})
}

// discardConnection has a connection closed, for which held is charged until then. One
// that no descriptor could be sent to is closed at once: it does not wait behind
// others, so that a refused connection costs nothing.
func (e *Engine) discardConnection(uid uint32, conn *net.UnixConn, held bill) {
	shut := func() {
		_ = conn.Close()
		e.shares.give(uid, held)
	}
	if !unixsock.PassesRights(conn) {
		shut()
		return
	}
	e.discarded.connections.add(e.shares.payer(uid), shut)
}

// clogged reports whether all the closers that a user may have for connections are
// stuck, so that the user's next connections would wait behind those.
func (e *Engine) clogged(uid uint32) bool {
	return e.discarded.connections.clogged(e.shares.payer(uid))
}

func (c *closers) clogged(user uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.users[user]
	return p != nil && p.stuck >= closersEach
}

// backlogged reports whether so many connections wait to be closed that the process
// could be short of descriptors for others.
func (e *Engine) backlogged() bool {
	e.shares.mu.Lock()
	most := e.shares.most[descriptors] / 8
	e.shares.mu.Unlock()
	return e.discarded.connections.waiting() > most
}

// closers are goroutines that close, and what waits for them.
type closers struct {
	mu     sync.Mutex
	busy   int
	length int // of all piles
	users  map[uint32]*pile
	turns  []*pile // of users who have no closer, because all are busy
}

// A pile is what one user has waiting.
type pile struct {
	user  uint32
	jobs  []func()
	busy  int // closers that work on it
	stuck int // of these, how many have been interrupted already
	turn  bool
}

// add has f called by a closer for the user.
func (c *closers) add(user uint32, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.users[user]
	if p == nil {
		if c.users == nil {
			c.users = make(map[uint32]*pile)
		}
		p = &pile{user: user}
		c.users[user] = p
	}
	p.jobs = append(p.jobs, f)
	c.length++
	c.staff(p)
}

// waiting returns how many calls no closer has begun.
func (c *closers) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.length
}

// staff starts a closer for a pile if it needs one and may have one. Half of all are
// for users who have none.
func (c *closers) staff(p *pile) {
	switch {
	case len(p.jobs) == 0 || p.busy > p.stuck || p.turn:
	case p.busy == 0 && c.busy == closersMost:
		p.turn = true
		c.turns = append(c.turns, p)
	case p.busy == 0 || p.busy < closersEach && c.busy < closersMost/2:
		p.busy++
		c.busy++
		go c.work(p)
	}
}

// work closes what one user has waiting until there is no more.
func (c *closers) work(p *pile) {
	runtime.LockOSThread() // which is what is interrupted
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	for {
		c.mu.Lock()
		if len(p.jobs) == 0 {
			c.leave(p)
			c.mu.Unlock()
			return
		}
		f := p.jobs[0]
		p.jobs[0] = nil
		p.jobs = p.jobs[1:]
		c.length--
		c.mu.Unlock()
		i := c.interrupt(p, thread)
		f()
		i.end()
	}
}

// leave takes a closer off a pile, and gives it to a pile that waits for one.
func (c *closers) leave(p *pile) {
	p.busy--
	c.busy--
	if p.busy == 0 {
		delete(c.users, p.user)
	}
	if len(c.turns) > 0 {
		next := c.turns[0]
		c.turns[0] = nil
		c.turns = c.turns[1:]
		next.turn = false
		c.staff(next)
	}
}

// An interruption is what a closer is told when it takes long.
type interruption struct {
	c      *closers
	p      *pile
	thread int
	timer  *time.Timer

	mu   sync.Mutex
	wait time.Duration
	late bool
	done bool
}

func (c *closers) interrupt(p *pile, thread int) *interruption {
	i := &interruption{c: c, p: p, thread: thread, wait: closePatience}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.timer = time.AfterFunc(i.wait, i.signal)
	return i
}

// signal interrupts the thread, by the signal that Go's own scheduler uses and
// programs do not see.
func (i *interruption) signal() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.done {
		return
	}
	if !i.late {
		i.late = true
		i.c.mu.Lock()
		i.p.stuck++
		i.c.staff(i.p)
		i.c.mu.Unlock()
	}
	_ = unix.Tgkill(os.Getpid(), i.thread, unix.SIGURG)
	i.wait = min(2*i.wait, closeAgain)
	i.timer.Reset(i.wait)
}

// end says that the closer goes on. No signal comes after it.
func (i *interruption) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.done = true
	i.timer.Stop()
	if i.late {
		i.c.mu.Lock()
		i.p.stuck--
		i.c.mu.Unlock()
	}
}
