//go:build linux && (amd64 || arm64)

package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
)

// Descriptors that were sent and not read yet count against the user that this process
// runs as, of whichever client they are. Past RLIMIT_NOFILE the kernel sends no more of
// them for anybody (ETOOMANYREFS). So they are charged here to the user whose client has
// not read them, and a user whose clients leave too many unread is sent no more.

// unreadAnswers are the answers with descriptors that may not have been read, at most
// one for each connection, of all listeners of an engine: their clients share what their
// user may have. Safe for concurrent use.
type unreadAnswers struct {
	device    nic.Device
	listeners int // of the engine; unreadOf.mu guards it

	mu  sync.Mutex
	all map[*net.UnixConn]unreadAnswer
}

// unreadOf has the unreadAnswers of each engine that has a listener.
var unreadOf struct {
	mu      sync.Mutex
	engines map[nic.Device]*unreadAnswers
}

// useUnread returns the unreadAnswers of an engine for one more listener, until release.
func useUnread(d nic.Device) *unreadAnswers {
	unreadOf.mu.Lock()
	defer unreadOf.mu.Unlock()
	u := unreadOf.engines[d]
	if u == nil {
		u = &unreadAnswers{device: d}
		if unreadOf.engines == nil {
			unreadOf.engines = make(map[nic.Device]*unreadAnswers)
		}
		unreadOf.engines[d] = u
	}
	u.listeners++
	return u
}

func (u *unreadAnswers) release() {
	unreadOf.mu.Lock()
	defer unreadOf.mu.Unlock()
	if u.listeners--; u.listeners == 0 {
		delete(unreadOf.engines, u.device)
	}
}

type unreadAnswer struct {
	uid  uint32
	cost nic.Cost
	sent bool // until then the connection looks as if everything had been read
}

var errUnread = errors.New("its answer brings descriptors; read the answers to the requests before it first")

// charge counts an answer with n descriptors that is about to be sent. It is an error if
// the client has not read everything that was sent to it before, or if the user's
// clients together have left too many descriptors unread.
func (u *unreadAnswers) charge(conn *net.UnixConn, uid uint32, n int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if unixsock.Unread(conn) {
		return errUnread
	}
	u.refund(conn)
	cost := nic.Cost{Unread: n}
	err := u.device.Charge(uid, cost)
	if err != nil { // what has been read meanwhile counts no more
		for c, a := range u.all {
			if a.sent && !unixsock.Unread(c) {
				u.refund(c)
			}
		}
		err = u.device.Charge(uid, cost)
	}
	if err != nil {
		return err
	}
	if u.all == nil {
		u.all = make(map[*net.UnixConn]unreadAnswer)
	}
	u.all[conn] = unreadAnswer{uid: uid, cost: cost}
	return nil
}

// sent says that the answer which was charged last has been sent.
func (u *unreadAnswers) sent(conn *net.UnixConn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a, ok := u.all[conn]; ok {
		a.sent = true
		u.all[conn] = a
	}
}

// refund takes back what was charged for the answer of a connection. The caller holds
// u.mu.
func (u *unreadAnswers) refund(conn *net.UnixConn) {
	if a, ok := u.all[conn]; ok {
		u.device.Refund(a.uid, a.cost)
		delete(u.all, conn)
	}
}

// wait is called when a connection has ended and before it is closed. An unread answer
// counts until the client reads it or closes its end, and only this end of the
// connection can tell when that is. It waits for that, or until ctx ends.
func (u *unreadAnswers) wait(ctx context.Context, conn *net.UnixConn) {
	for pause := time.Millisecond; unixsock.Unread(conn) && ctx.Err() == nil; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refund(conn)
}
