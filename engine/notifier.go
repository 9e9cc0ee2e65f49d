//go:build linux && (amd64 || arm64)

package engine

import (
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"golang.org/x/sys/unix"
)

// A notifier sends to one event socket of a client. The kernel calls everything that waits for a
// socket before send returns, and a client decides how much waits for its socket: 10^6 watchers
// (epoll, io_uring) take 100 ms. So the device's thread sends itself only while a send that was
// quick has lately shown that few wait. Otherwise it queues the event, and a closer of the client's
// user sends it (package closers). Events of one socket stay in order.
type notifier struct {
	e    *device
	uid  uint32
	fd   int
	kin  bool   // the client's user may stop the device's thread anyway: a quick send is shown until one is slow
	seen uint64 // device clock at the last quick send of the device's thread; 0: there is none that counts

	// What the device's thread and closers share.
	shown  atomic.Uint64 // device clock at the last quick send of a closer; 0: there is none that counts
	queue  chan notice
	queued atomic.Bool   // a closer sends the queue, or is about to
	lost   atomic.Uint32 // events for which the socket had no room when a closer sent them
	start  func()        // starts a closer; made once, so that starting one allocates little

	mu     sync.Mutex // held during each send of a closer. The device's thread does not take it
	closed bool
}

// A notice is an event that waits for a closer.
type notice struct {
	record  uint64 // of a completion channel, if message is nil
	message []byte
	cq      *cq // whose completion the record announces
}

const (
	// quickSend is how long a quick send takes at most. One with few watchers takes some
	// microseconds, and one with a hundred waiting threads less than 300.
	quickSend = 500 * time.Microsecond

	// quickCounts is how long a quick send shows that few wait. One thread adds about 10^6 watchers
	// in a second, and threads that add to one socket wait for each other. So the next send takes a
	// few milliseconds at most. A client whose events come more seldom pays for a closer's wakeup.
	quickCounts = 10 * time.Millisecond

	// noticesQueued is how many events wait for a closer, beside those in the socket. They are part
	// of socketCost.
	noticesQueued = 64
)

// newNotifier makes an event socket for the client, and returns the client's end.
func (c *client) newNotifier() (*notifier, *os.File, error) {
	mine, yours, err := eventSocket()
	if err != nil {
		return nil, nil, err
	}
	me := uint32(os.Geteuid())
	n := &notifier{e: c.e, uid: c.uid, fd: mine, kin: c.local || c.uid == me || c.uid == 0, queue: make(chan notice, noticesQueued)}
	if n.kin {
		n.seen = clock.Now()
	}
	n.start = func() { n.e.discard(n.uid, 0, n.sendQueued) }
	return n, yours, nil
}

// send sends an event now, or queues it. An error means that the client does not get it.
func (n *notifier) send(v notice) error {
	now := clock.Now()
	if !n.quick(now) {
		return n.add(v)
	}
	err := v.sendTo(n.fd)
	n.judge(now)
	if err == nil && v.cq != nil {
		v.cq.sent++
	}
	return err
}

// quick reports whether the device's thread may send. Queued events come first.
func (n *notifier) quick(now uint64) bool {
	last := max(n.seen, n.shown.Load())
	return last != 0 && (n.kin || now < last+clock.Cycles(quickCounts)) && !n.queued.Load()
}

// judge looks at a send of the device's thread that began at start.
func (n *notifier) judge(start uint64) {
	if n.seen = clock.Now(); n.seen-start > clock.Cycles(quickSend) && !(n.kin && n.e.hooks.sendsNow) {
		n.seen = 0
		n.shown.Store(0) // no closer is sending
	}
}

// add queues an event. If the queue is full, the event is lost, as with a socket that is full.
func (n *notifier) add(v notice) error {
	select {
	case n.queue <- v:
	default:
		return unix.EAGAIN
	}
	if !n.queued.Swap(true) {
		go n.start()
	}
	return nil
}

// sendQueued sends what is queued. It runs on a closer.
func (n *notifier) sendQueued() {
	for {
		for n.sendNext() {
		}
		n.queued.Store(false)
		if len(n.queue) == 0 || n.queued.Swap(true) {
			return // what the device's thread has queued since then starts another closer
		}
	}
}

// sendNext sends the next queued event, and returns false if there is none.
func (n *notifier) sendNext() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var v notice
	select {
	case v = <-n.queue:
	default:
		return false
	}
	if n.closed || v.cq != nil && v.cq.retracted.Load() {
		return true
	}
	start := clock.Now()
	err := v.sendTo(n.fd)
	end := clock.Now()
	if end-start > clock.Cycles(quickSend) {
		end = 0
	}
	n.shown.Store(end)
	switch {
	case err == nil && v.cq != nil:
		v.cq.sentAside.Add(1)
	case err != nil && !hungUp(err):
		n.lost.Add(1)
	}
	return true
}

// close closes the device's end. Not on the device's thread: it can take as long as a send.
func (n *notifier) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	_ = unix.Close(n.fd)
}

// sendTo writes the event to a socket. It does not block.
func (v *notice) sendTo(fd int) error {
	if v.message != nil {
		return unix.Send(fd, v.message, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}
	record := recordOf(v.record)
	return unix.Send(fd, record[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// hungUp reports whether a client has closed its end of the socket, and so wants no events.
func hungUp(err error) bool { return err == unix.EPIPE || err == unix.ECONNRESET }
