//go:build linux && (amd64 || arm64)

package ucx

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A cause is why a connection to a port of the carrier was dropped.
type cause int

const (
	causeAddress  cause = iota // peer= does not allow its address
	causeJunk                  // its first bytes are not those of an engine
	causeSlow                  // it has sent too little in time
	causeTooMany               // it has made room: there were too many connections, of its address or at all
	causeTooOften              // its address has met this engine too often
	causeVersion               // it speaks another version
	causeKeys                  // it has not proved that it has a key that is accepted
	causeTicket                // a connection for libucx without a valid ticket
	causeRefused               // its hello is not valid, or not possible
	causeBanned                // its worker address has ended the process
	causes
)

var causeNames = [causes]string{
	"address not allowed", "no greeting", "too slow", "too many at once", "too many meetings",
	"another version", "wrong key", "no ticket", "refused", "banned",
}

var errJunk = errors.New("what it sends is no greeting of an engine")

// Limits for connections whose meeting is not over. A rack has some tens of engines, which may all connect
// when one of them starts, and several engines may be behind one address.
const (
	greetTime       = time.Second // how long a connection may take to send its preamble
	mostPending     = 128         // how many connections there may be at once
	mostPendingEach = 16          // how many of one address
	mostSources     = 4096        // how many addresses have a count of meetings; all others share one count

	// How many meetings one address may have at once, and how many more in each second. An X25519 handshake
	// takes some 0.2 ms of a processor.
	meetings     = 128
	meetingsRate = 32
)

// strangers has the connections whose meeting is not over, and counts meetings. Connections of one address
// cannot keep out those of others: when there are too many, the oldest of the address with the most is
// closed.
type strangers struct {
	mu      sync.Mutex
	pending []*pendingConn         // from the oldest to the newest
	sources map[netip.Addr]*bucket // meetings that each address has left

	counts   [causes]atomic.Uint64 // connections that were dropped
	loggedAt [causes]time.Time     // when the log had the last line about them
}

// A pendingConn is a connection whose meeting is not over.
type pendingConn struct {
	source netip.Addr
	conn   net.Conn
}

type bucket struct {
	left float64
	at   time.Time
}

// sourceOf returns what counts as one source: an IPv4 address, or the first half of an IPv6 address, which is
// that of a network.
func sourceOf(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64)
	return p.Addr()
}

// add adds a connection. If there are too many, it closes another one, and displaced is true.
func (s *strangers) add(conn net.Conn, from netip.Addr) (p *pendingConn, displaced bool) {
	p = &pendingConn{sourceOf(from), conn}
	s.mu.Lock()
	defer s.mu.Unlock()
	own, sources := 1, make([]netip.Addr, len(s.pending))
	for i, o := range s.pending {
		sources[i] = o.source
		if o.source == p.source {
			own++
		}
	}
	closed := -1 // which connection makes room; -1: none
	if own > mostPendingEach {
		closed = slices.Index(sources, p.source)
	} else if len(s.pending) >= mostPending {
		closed = oldestOfLargest(sources)
	}
	if closed >= 0 {
		_ = s.pending[closed].conn.Close()
		s.pending = slices.Delete(s.pending, closed, closed+1)
	}
	s.pending = append(s.pending, p)
	return p, closed >= 0
}

// oldestOfLargest returns the place of the connection that makes room for another one: the oldest of the
// source with the most connections. sources has the source of each connection, from the oldest to the
// newest, and is not empty.
func oldestOfLargest[S comparable](sources []S) (at int) {
	each := map[S]int{}
	for _, s := range sources {
		each[s]++
	}
	for i, s := range sources {
		if each[s] > each[sources[at]] {
			at = i
		}
	}
	return at
}

// remove removes a connection. It returns false if the connection was closed before, to make room.
func (s *strangers) remove(p *pendingConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.pending {
		if o == p {
			s.pending = append(s.pending[:i], s.pending[i+1:]...)
			return true
		}
	}
	return false
}

// closeAll closes all connections whose meeting is not over.
func (s *strangers) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pending {
		_ = p.conn.Close()
	}
}

// takeMeeting counts a meeting of an address, and reports whether the address had one left.
func (s *strangers) takeMeeting(from netip.Addr, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	source := sourceOf(from)
	b := s.sources[source]
	if b == nil {
		if len(s.sources) >= mostSources {
			for source, o := range s.sources {
				if o.after(now) >= meetings {
					delete(s.sources, source)
				}
			}
		}
		if len(s.sources) >= mostSources {
			source = netip.Addr{} // the count that all further addresses share
		}
		b = s.sources[source]
		if b == nil {
			b = &bucket{meetings, now}
			s.sources[source] = b
		}
	}
	b.left, b.at = b.after(now), now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// after returns how many meetings are left at a time.
func (b *bucket) after(now time.Time) float64 {
	return min(meetings, b.left+meetingsRate*now.Sub(b.at).Seconds())
}

// countDropped counts a connection that was dropped. It reports whether to log it: once a minute for each
// cause.
func (s *strangers) countDropped(why cause) bool {
	s.counts[why].Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if last := s.loggedAt[why]; !last.IsZero() && now.Sub(last) < time.Minute {
		return false
	}
	s.loggedAt[why] = now
	return true
}

// String lists the counts that are not 0.
func (s *strangers) String() string {
	var parts []string
	total := uint64(0)
	for i := range s.counts {
		if n := s.counts[i].Load(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, causeNames[i]))
			total += n
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d connections of strangers dropped (%s)", total, strings.Join(parts, ", "))
}
