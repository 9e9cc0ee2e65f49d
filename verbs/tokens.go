//go:build linux && (amd64 || arm64)

package verbs

import (
	"strconv"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// The bytes in the pipe of a channel of rdma_cm. A program can read the pipe into memory whose page
// does not arrive. Its read then holds the lock of the pipe, which writers need as well, and no
// signal ends their wait. So a goroutine for the channel writes the bytes. The manager, whose lock
// all programs need, waits for that goroutine only for a moment. Normally the bytes are written by
// then.

// bytesWanted is the pending work on a pipe.
type bytesWanted struct {
	mu   sync.Mutex
	n    int           // bytes to write; if negative, bytes to take out
	done chan struct{} // closed when all bytes are written or taken out; nil: none are pending
}

// A pipeUser is a user with channels.
type pipeUser struct {
	turns       chan struct{} // has one value for each thread that may wait for a pipe of the user
	noWaitUntil time.Time     // the manager does not wait for pipes of this user before this time
}

const (
	pipeThreads = 64                   // number of threads for the pipes of one user
	pipeWait    = 5 * time.Millisecond // how long the manager waits for a pipe
	pipeNoWait  = time.Second          // how long it does not wait after it has waited in vain
)

// pipeUsers has the users by uid.
type pipeUsers struct {
	mu  sync.Mutex
	all map[uint32]*pipeUser
}

// of returns the pipeUser with a uid.
func (u *pipeUsers) of(uid uint32) *pipeUser {
	u.mu.Lock()
	defer u.mu.Unlock()
	user := u.all[uid]
	if user == nil {
		if u.all == nil {
			u.all = make(map[uint32]*pipeUser)
		}
		user = &pipeUser{turns: make(chan struct{}, pipeThreads)}
		u.all[uid] = user
	}
	return user
}

// shouldWait reports whether the manager should wait for a pipe of the user. It should not for pipeNoWait
// after waitedInVain.
func (u *pipeUsers) shouldWait(user *pipeUser) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().After(user.noWaitUntil)
}

func (u *pipeUsers) waitedInVain(user *pipeUser) {
	u.mu.Lock()
	defer u.mu.Unlock()
	user.noWaitUntil = time.Now().Add(pipeNoWait)
}

// Put adds a byte to the pipe.
func (ch *cmChannel) Put() { ch.addTokens(1) }

// Take takes up to n bytes out of the pipe.
func (ch *cmChannel) Take(n int) { ch.addTokens(-n) }

// addTokens writes n bytes to the pipe or, if n is negative, takes up to -n bytes out. It waits for a moment
// until that is done.
func (ch *cmChannel) addTokens(n int) {
	b, user := &ch.bytes, ch.s.pipes.of(ch.uid)
	b.mu.Lock()
	b.n += n
	if b.done == nil {
		b.done = make(chan struct{})
		go ch.transferBytes(user)
	}
	done := b.done
	b.mu.Unlock()
	if !ch.s.pipes.shouldWait(user) {
		return
	}
	limit := time.NewTimer(pipeWait)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		ch.s.pipes.waitedInVain(user)
	}
}

// transferBytes writes or takes out the pending bytes of the pipe, until none are pending.
func (ch *cmChannel) transferBytes(user *pipeUser) {
	user.turns <- struct{}{}
	defer func() { <-user.turns }()
	for b := &ch.bytes; ; {
		b.mu.Lock()
		n := b.n
		b.n = 0
		if n == 0 {
			close(b.done)
			b.done = nil
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		_ = unixsock.Control(ch.pipe, func(fd int) error { return addBytes(fd, n) })
	}
}

// addBytes writes n bytes to a pipe or, if n is negative, reads up to -n from it. fd is the write
// end.
func addBytes(fd, n int) error {
	for ; n > 0; n-- { // one at a time, because a longer write needs a page of its own
		if _, err := unix.Write(fd, []byte{0}); err != nil || n == 1 {
			return err
		}
	}
	reader, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC,
		0)
	if err != nil {
		return err
	}
	_, err = unix.Read(reader, make([]byte, -n))
	_ = unix.Close(reader)
	return err
}

// closePipe closes the pipe, after a pending write or read.
func (ch *cmChannel) closePipe() {
	ch.bytes.mu.Lock()
	busy := ch.bytes.done != nil
	ch.bytes.mu.Unlock()
	if busy {
		go ch.pipe.Close()
		return
	}
	_ = ch.pipe.Close()
}
