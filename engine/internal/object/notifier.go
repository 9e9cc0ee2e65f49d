//go:build linux && (amd64 || arm64)

package object

import (
	"os"
	"time"

	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

const (
	// QuickSend is how long a quick send takes at most. One with few watchers takes some
	// microseconds, and one with a hundred waiting threads less than 300.
	QuickSend = 500 * time.Microsecond

	// QuickCounts is how long a quick send shows that few wait. One thread adds about 10^6 watchers
	// in a second, and threads that add to one socket wait for each other. So the next send takes a
	// few milliseconds at most. A client whose events come more seldom pays for a closer's wakeup.
	QuickCounts = 10 * time.Millisecond

	// NoticesQueued is how many events wait for a closer, beside those in the socket. They are part
	// of SocketCost.
	NoticesQueued = 64
)

// NewNotifier makes an event socket for the client, and returns the client's end.
func (c *Client) NewNotifier() (*Notifier, *os.File, error) {
	mine, yours, err := eventsocket.Pair(EventBuffer)
	if err != nil {
		return nil, nil, err
	}
	me := uint32(os.Geteuid())
	n := &Notifier{e: c.Device, uid: c.UID, FD: mine, Kin: c.Local || c.UID == me || c.UID == 0,
		queue: make(chan Notice, NoticesQueued)}
	if n.Kin {
		n.Seen = clock.Now()
	}
	n.start = func() { n.e.Discard(n.uid, 0, n.sendQueued) }
	return n, yours, nil
}

// Send sends an event now, or queues it. An error means that the client does not get it; if it is one of
// eventsocket.IsFull, the caller may send the event later.
func (n *Notifier) Send(v Notice) error {
	if n.Paused.Load() > 0 {
		return unix.EAGAIN
	}
	now := clock.Now()
	if !n.Quick(now) {
		return n.add(v)
	}
	err := eventsocket.Send(n.FD, v.message, v.Record)
	n.RecordSend(now)
	if err == nil && v.CQ != nil {
		v.CQ.Sent++
	}
	return err
}

// Quick reports whether the device's thread may send. Queued events come first.
func (n *Notifier) Quick(now uint64) bool {
	last := max(n.Seen, n.Shown.Load())
	return last != 0 && (n.Kin || now < last+clock.Cycles(QuickCounts)) && !n.Queued.Load()
}

// RecordSend records how long a send of the device's thread took that began at start.
func (n *Notifier) RecordSend(start uint64) {
	n.Seen = clock.Now()
	if n.Seen-start > clock.Cycles(QuickSend) && !(n.Kin && n.e.Hooks.SendsNow) {
		n.Seen = 0
		n.Shown.Store(0) // no closer is sending
	}
}

// add queues an event. A queue that is full is as a socket that is full.
func (n *Notifier) add(v Notice) error {
	select {
	case n.queue <- v:
	default:
		return unix.EAGAIN
	}
	if !n.Queued.Swap(true) {
		go n.start()
	}
	return nil
}

// sendQueued sends what is queued. It runs on a closer. If the socket is full, another closer goes on after
// a pause, because the user's other descriptors wait for this one.
func (n *Notifier) sendQueued() {
	for {
		for n.sendNext() {
		}
		if n.waitsForRoom() {
			return
		}
		n.Queued.Store(false)
		if len(n.queue) == 0 || n.Queued.Swap(true) {
			return // what the device's thread has queued since then starts another closer
		}
	}
}

// waitsForRoom reports whether an event has found no room, and then starts a closer after a pause.
func (n *Notifier) waitsForRoom() bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	if n.Kept != nil {
		time.AfterFunc(n.aside.Lengthen(), n.start)
	}
	return n.Kept != nil
}

// sendNext sends the next queued event, and returns false if there is none, or no room for it.
func (n *Notifier) sendNext() bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	var v Notice
	switch {
	case n.Kept != nil:
		v, n.Kept = *n.Kept, nil
	default:
		select {
		case v = <-n.queue:
		default:
			return false
		}
	}
	if n.closed || v.CQ != nil && v.CQ.Retracted.Load() {
		return true
	}
	start := clock.Now()
	err := eventsocket.Send(n.FD, v.message, v.Record)
	end := clock.Now()
	if end-start > clock.Cycles(QuickSend) {
		end = 0
	}
	n.Shown.Store(end)
	if eventsocket.IsFull(err) {
		n.Kept = &v
		return false
	}
	n.aside = eventsocket.Pauses{}
	switch {
	case err == nil && v.CQ != nil:
		v.CQ.SentAside.Add(1)
	case err != nil && !eventsocket.HungUp(err):
		n.Lost.Add(1)
	}
	return true
}

// Close closes the device's end. Not on the device's thread: it can take as long as a send.
func (n *Notifier) Close() {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.closed = true
	_ = unix.Close(n.FD)
}
