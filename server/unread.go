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

// The kernel counts, for the user that this process runs as, the descriptors that were sent
// and are not read yet, whichever client they were sent to. If there are more than
// RLIMIT_NOFILE, the kernel lets this user send no more descriptors to any process
// (ETOOMANYREFS). So this file charges unread descriptors to the user whose client has not read
// them. A user whose clients leave too many descriptors unread gets no more descriptors.

// unreadAnswers has the answers with descriptors that clients may not have read yet, at
// most one for each connection. All listeners of an engine use the same unreadAnswers,
// because a user's clients share the user's limits, whatever listener they use. Safe for
// concurrent use.
type unreadAnswers struct {
	device    nic.Device
	listeners int // number of the engine's listeners; unreadOf.mu guards it

	mu  sync.Mutex
	all map[*net.UnixConn]unreadAnswer
}

// unreadOf has the unreadAnswers of each engine that has a listener.
var unreadOf struct {
	mu      sync.Mutex
	engines map[nic.Device]*unreadAnswers
}

// useUnread returns the unreadAnswers of an engine for one more listener. The listener calls
// release when it ends.
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
	u.listeners--
	if u.listeners == 0 {
		delete(unreadOf.engines, u.device)
	}
}

type unreadAnswer struct {
	uid  uint32
	cost nic.Cost
	sent bool // the answer was sent; before that, the connection looks as if all had been read
}

var errUnread = errors.New("its answer brings descriptors; read the answers to the requests before it first")

// charge counts an answer with n descriptors that is about to be sent. It returns an error
// if the client has not read everything that was sent to it before, or if all clients of
// the user together have left too many descriptors unread.
func (u *unreadAnswers) charge(conn *net.UnixConn, uid uint32, n int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if unixsock.Unread(conn) {
		return errUnread
	}
	u.refund(conn)
	cost := nic.Cost{Unread: n}
	err := u.device.Charge(uid, cost)
	if err != nil { // some answers may have been read by now: refund those and try again
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

// sent notes that the answer that was charged last has been sent.
func (u *unreadAnswers) sent(conn *net.UnixConn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if a, ok := u.all[conn]; ok {
		a.sent = true
		u.all[conn] = a
	}
}

// refund takes back the charge for a connection's answer. The caller holds u.mu.
func (u *unreadAnswers) refund(conn *net.UnixConn) {
	if a, ok := u.all[conn]; ok {
		u.device.Refund(a.uid, a.cost)
		delete(u.all, conn)
	}
}

// wait waits until the client has read the last answer or has closed its end, or until ctx
// ends. It is called when a connection has ended, before the connection is closed. The kernel
// counts the answer's descriptors until the client reads the answer or closes its end, and only
// this end of the connection shows when that happens.
func (u *unreadAnswers) wait(ctx context.Context, conn *net.UnixConn) {
	pause := time.Millisecond
	for unixsock.Unread(conn) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refund(conn)
}
