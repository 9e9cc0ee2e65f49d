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
// signal ends their wait. So the bytes are written by a goroutine for the channel, and the
// manager, whose lock all programs need, waits only for a moment: normally the bytes are there
// when it goes on.

// bytesWanted is the pending work on a pipe.
type bytesWanted struct {
	mu   sync.Mutex
	n    int           // bytes to write; less than 0: to take out
	done chan struct{} // closed when all is done; nil: it is
}

// A pipeUser is a user with channels.
type pipeUser struct {
	turns   chan struct{} // one for each thread that may wait for a pipe of the user
	hasteTo time.Time     // until then the manager does not wait for pipes of this user
}

const (
	pipeThreads = 64                   // of one user
	pipeWait    = 5 * time.Millisecond // how long the manager waits for a pipe
	pipeHaste   = time.Second          // how long it does not wait after it has waited in vain
)

// pipeUsers has the users by uid.
type pipeUsers struct {
	mu  sync.Mutex
	all map[uint32]*pipeUser
}

func (u *pipeUsers) of(uid uint32) *pipeUser {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.all[uid]
	if one == nil {
		if u.all == nil {
			u.all = make(map[uint32]*pipeUser)
		}
		one = &pipeUser{turns: make(chan struct{}, pipeThreads)}
		u.all[uid] = one
	}
	return one
}

// patient reports whether it makes sense to wait for a pipe of the user, and vain says that it did
// not.
func (u *pipeUsers) patient(one *pipeUser) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().After(one.hasteTo)
}

func (u *pipeUsers) vain(one *pipeUser) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one.hasteTo = time.Now().Add(pipeHaste)
}

// Put adds a byte to the pipe.
func (ch *cmChannel) Put() { ch.want(1) }

// Take takes up to n bytes out of the pipe.
func (ch *cmChannel) Take(n int) { ch.want(-n) }

func (ch *cmChannel) want(n int) {
	b, user := &ch.bytes, ch.s.pipes.of(ch.uid)
	b.mu.Lock()
	b.n += n
	if b.done == nil {
		b.done = make(chan struct{})
		go ch.work(user)
	}
	done := b.done
	b.mu.Unlock()
	if !ch.s.pipes.patient(user) {
		return
	}
	limit := time.NewTimer(pipeWait)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		ch.s.pipes.vain(user)
	}
}

// work does what is wanted.
func (ch *cmChannel) work(user *pipeUser) {
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

// closePipe closes the pipe, after what is being done to it.
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
