//go:build linux && (amd64 || arm64)

package verbs

import (
	"os"
	"slices"
	"sync"

	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"golang.org/x/sys/unix"
)

// A feed is a descriptor from which a program reads events, or answers to queries: one datagram by each
// read. Datagrams that do not fit into the socket wait until the program reads, so that a program with
// thousands of objects that fail together is told of each. A goroutine sends these; all others are sent at
// once.
type feed struct {
	mine   *os.File
	cookie uint64 // of the program's end, by which that end is recognised
	omit   bool   // events have no event queue entry
	most   int    // datagrams that may wait, beside those of subscriptions that wait at most once

	// mu is held while a datagram is sent, which does not wait. Only goroutines of the feed's context lock
	// it.
	mu       sync.Mutex
	sent     uint64     // number of datagrams
	unit     int        // what SIOCOUTQ counts for a datagram of 8 bytes; 0: unknown
	waiting  []datagram // in order
	draining bool       // a goroutine sends what waits

	// gone is called without mu when n datagrams have been sent that have outlived their subscriptions.
	gone func(n int)
}

// A datagram waits for room in the socket.
type datagram struct {
	bytes []byte
	once  *subscription // the subscription whose only unread datagram it is; nil: of no such subscription
}

// mostWaiting is how many events with an entry may wait beside the about 270 in the socket. The kernel has
// no limit but memory. With 64 feeds of 16 programs, 1024 events each take a fifth of what a user may
// have.
const mostWaiting = 1024

// feedCost is what a feed costs without datagrams that wait.
var feedCost = nic.Cost{Memory: 2*asyncBuffer + 4096, Descriptors: 1}

// cost is what a feed costs its user. A datagram that may wait takes its slice and 80 bytes. Those of
// subscriptions are a part of subscriptionCost.
func (f *feed) cost() nic.Cost { return feedCost.Plus(nic.Cost{Memory: f.most * 128}) }

// newFeed makes a feed and the program's end. The caller has charged its cost.
func newFeed(f *feed) (theirs *os.File, err error) {
	a, theirs, err := newAsync()
	if err != nil {
		return nil, err
	}
	_ = a.reader.Close() // unread events are never taken back
	f.mine, f.cookie = a.mine, a.cookie
	// Twice, because an allocation that the kernel watches for errors (KFENCE) counts less, and it watches
	// none directly after another. Too small a unit would have unread datagrams counted that have been
	// read.
	f.unit = max(f.measure(theirs), f.measure(theirs))
	return theirs, nil
}

// measure sends and reads a datagram, and returns what SIOCOUTQ counted for it.
func (f *feed) measure(theirs *os.File) (n int) {
	var b [8]byte
	if f.transmit(b[:]) != nil {
		return 0
	}
	n = f.queued()
	_ = unixsock.Control(theirs, func(fd int) error {
		_, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT)
		return err
	})
	return n
}

func (f *feed) transmit(b []byte) error {
	return unixsock.Control(f.mine, func(fd int) error {
		return unix.Send(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
}

// queued returns how many bytes of the kernel's memory unread datagrams take, 0 if it is not known.
func (f *feed) queued() (n int) {
	_ = unixsock.Control(f.mine, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		return err
	})
	return n
}

// send sends a datagram now or, if the socket is full, when the program has read. It returns false if
// there is no room, or no reader any more. With once it sends nothing while the last datagram of that
// subscription is unread, as the kernel: the program will look at the object when it reads that one. The
// feed keeps no reference to b.
func (f *feed) send(b []byte, once *subscription) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if once != nil && (once.dropped || f.holds(once)) {
		return true
	}
	if len(f.waiting) == 0 {
		err := f.transmit(b)
		if err == nil {
			f.count(once)
		}
		if err != unix.EAGAIN {
			return err == nil
		}
	}
	if once == nil && len(f.waiting) >= f.most {
		return false
	}
	f.waiting = append(f.waiting, datagram{slices.Clone(b), once})
	if once != nil {
		once.waits = true
	}
	if !f.draining {
		f.draining = true
		go f.drain()
	}
	return true
}

// holds reports whether the last datagram of a subscription is unread. A datagram counts until the read
// that takes it has ended. A completion before that is one that the program sees after its read.
func (f *feed) holds(s *subscription) bool {
	if s.waits || s.place == 0 || f.unit == 0 {
		return s.waits
	}
	unread := (f.queued() + f.unit - 1) / f.unit // one may count less than the unit (see newFeed)
	return s.place > f.sent-min(uint64(unread), f.sent)
}

// drop notes that a subscription has ended, and reports whether its datagram still waits. As in the kernel,
// the program will read it, and until then it is charged.
func (f *feed) drop(s *subscription) (waits bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.dropped = true
	return s.waits
}

// discard drops what waits, and returns how many datagrams have outlived their subscriptions.
func (f *feed) discard() (outlived int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.waiting {
		if d.outlives() {
			outlived++
		}
	}
	f.waiting = nil
	return outlived
}

func (d *datagram) outlives() bool { return d.once != nil && d.once.dropped }

// count notes that a datagram was sent.
func (f *feed) count(once *subscription) {
	f.sent++
	if once != nil {
		once.place, once.waits = f.sent, false
	}
}

// drain sends what waits, as the program makes room, until nothing waits or the feed has ended.
func (f *feed) drain() {
	raw, err := f.mine.SyscallConn()
	if err == nil {
		err = raw.Write(func(uintptr) (done bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			outlived := 0
			defer func() {
				if outlived > 0 {
					go f.gone(outlived) // it waits for the context's lock, whose holder may close the feed
				}
			}()
			for len(f.waiting) > 0 {
				if f.transmit(f.waiting[0].bytes) == unix.EAGAIN {
					return false
				}
				if f.waiting[0].outlives() {
					outlived++
				}
				f.count(f.waiting[0].once) // it was sent, or there is no reader any more
				f.waiting = f.waiting[1:]
			}
			f.waiting, f.draining = nil, false
			return true
		})
	}
	if err != nil { // closed
		f.discard()
	}
}

// awaitEnd waits until the program has closed the last descriptor of the feed, and ends the feed.
func (x *uctx) awaitEnd(f *feed) {
	if raw, err := f.mine.SyscallConn(); err == nil {
		_ = raw.Read(func(fd uintptr) bool { return unixsock.HungUp(int(fd)) })
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.ended {
		x.endFeed(f)
	}
}

// endClosedFeeds ends the feeds that the program has closed, if awaitEnd has not done it yet. It reports
// whether there were any.
func (x *uctx) endClosedFeeds() (any bool) {
	for _, f := range slices.Concat(x.subs.channels, x.subs.commands) {
		up := false
		_ = unixsock.Control(f.mine, func(fd int) error {
			up = unixsock.HungUp(fd)
			return nil
		})
		if up {
			x.endFeed(f)
			any = true
		}
	}
	return any
}

// endFeed ends a feed that nobody can read any more, and its subscriptions, unless that has been done.
func (x *uctx) endFeed(f *feed) {
	t := &x.subs
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.channels, f) && !slices.Contains(t.commands, f) {
		return
	}
	is := func(other *feed) bool { return other == f }
	t.channels = slices.DeleteFunc(t.channels, is)
	t.commands = slices.DeleteFunc(t.commands, is)
	for o := range t.subscriptions {
		x.dropSubscriptions(o, func(s *subscription) bool { return s.to == f })
	}
	x.refundOutlived(f.discard())
	_ = f.mine.Close()
	x.refund(f.cost())
}
