package engine

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors that were sent and that nobody has read count against the user that the
// device runs as; past RLIMIT_NOFILE the kernel takes no more of them from anybody
// (ETOOMANYREFS). So they are counted here for the user that does not read them, and a
// user whose clients leave too many unread gets no more.

// flights are the answers with descriptors that may not have been read. Safe for
// concurrent use.
type flights struct {
	shares *shares
	mu     sync.Mutex
	all    map[*net.UnixConn]flight
}

// A flight is the last answer of a connection that brought descriptors.
type flight struct {
	uid  uint32
	n    int
	sent bool // else it may look as if it had been read
}

// board counts an answer with n descriptors that is about to be sent, or says why it
// may not be: the connection must have read all that was sent to it before, and the
// user's clients together may leave no more unread than the user's share.
func (f *flights) board(conn *net.UnixConn, uid uint32, n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if hasUnread(conn) {
		return fmt.Errorf("its answer brings descriptors; read the answers to the requests before it first")
	}
	f.land(conn)
	err := f.shares.take(uid, bill{unread: n})
	if err != nil { // what has been read since counts no more
		for c, a := range f.all {
			if a.sent && !hasUnread(c) {
				f.land(c)
			}
		}
		err = f.shares.take(uid, bill{unread: n})
	}
	if err != nil {
		return err
	}
	if f.all == nil {
		f.all = make(map[*net.UnixConn]flight)
	}
	f.all[conn] = flight{uid: uid, n: n}
	return nil
}

// sent says that the answer that was counted last has been sent.
func (f *flights) sent(conn *net.UnixConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, ok := f.all[conn]; ok {
		a.sent = true
		f.all[conn] = a
	}
}

// land stops counting the answer of a connection.
func (f *flights) land(conn *net.UnixConn) {
	if a, ok := f.all[conn]; ok {
		f.shares.give(a.uid, bill{unread: a.n})
		delete(f.all, conn)
	}
}

// landed is called when a connection has ended, before it is closed: what its client
// has not read stays in flight until it is read or the client closes its end, and only
// this end of the connection can tell. It waits for that, unless ctx ends.
func (f *flights) landed(ctx context.Context, conn *net.UnixConn) {
	for pause := time.Millisecond; hasUnread(conn) && ctx.Err() == nil; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.land(conn)
}

// hasUnread reports whether something that was sent to a connection is unread.
func hasUnread(conn *net.UnixConn) (yes bool) {
	raw, err := conn.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) {
			n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			yes = err == nil && n > 0
		})
	}
	return yes
}
