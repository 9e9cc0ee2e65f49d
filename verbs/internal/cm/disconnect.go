//go:build linux && (amd64 || arm64)

package cm

import (
	"time"

	"github.com/nicless/nicless/verbs/internal/abi"
	"golang.org/x/sys/unix"
)

// disconnect serves DISCONNECT. The request is struct rdma_ucm_disconnect. As in the kernel, it
// is no error if there is no connection any more.
func (m *Manager) disconnect(c *Call, req []byte) error {
	i, err := m.find(c, le.Uint32(req[abi.CMDisconnectID:]))
	switch {
	case err != nil:
		return err
	case i.link == nil:
		return refuse(unix.EINVAL, "DISCONNECT: id %d has %v", i.handle, i.link)
	case i.link.state == connected:
		i.link.become(dreqSent)
		i.link.send(i.link.dreq())
	}
	return nil
}

// gotDREQ ends the connection. It answers at once, so that the program at the other end need not wait for
// this program. The kernel waits for the program before it answers.
func (l *link) gotDREQ(Message) {
	l.send(&DREP{l.number, l.peer})
	if l.state == dreqSent || l.id.m.Unpolled == nil || l.id.detached {
		l.disconnected(0)
		return
	}
	l.become(timeWait)
	l.disconnectedAfter(0)
}

// mostUnpolled bounds how long disconnectedAfter waits for the program to poll its completions: in all, less
// than twice mostUnpolled.
const mostUnpolled = 64 * time.Millisecond

// disconnectedAfter notifies the program, after the time d, that the other end has ended the connection. If
// the program has not polled all completions of its queue pair by then, disconnectedAfter waits longer.
//
// Many programs poll their CQ, then read their events, and close the queue pair when they read this event. A
// message of the other end that arrives between these two steps would be lost: its last message, or all of
// its messages if the program lost the processor between the steps.
func (l *link) disconnectedAfter(d time.Duration) {
	i, m := l.id, l.id.m
	l.stop = m.After(d, func() {
		// Not under the lock: the device is asked.
		unpolled := d < mostUnpolled && m.Unpolled(i.program.UID, l.qpn)
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case i.link != l: // the program has destroyed the id
		case unpolled:
			l.disconnectedAfter(max(2*d, time.Millisecond))
		default:
			l.disconnected(0)
		}
	})
}

// dreq returns the message that ends the connection.
func (l *link) dreq() *DREQ { return &DREQ{l.number, l.peer, l.peerQPN} }

func (l *link) gotDREP(Message) { l.disconnected(0) }

// disconnected notifies the program that the connection has ended, once.
func (l *link) disconnected(status int32) {
	l.startTimewait()
	if l.id.state == connecting {
		l.id.state = ended
		l.id.notifyStatus(disconnected, status)
	}
}

// startTimewait begins the time in which packets of the connection can still be on their way. A program
// should not use the queue pair for another connection before this time ends. The program gets an event at
// its end.
func (l *link) startTimewait() {
	l.become(timeWait)
	i := l.id
	timeout := l.timeout
	if i.detached {
		timeout = min(timeout, longestTimewait)
	}
	l.stop = i.m.later(timewait(timeout), func() {
		if i.link == l {
			l.become(over)
			i.notifyStatus(timewaitExit, 0)
		}
	})
}
