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
	causeAddress cause = iota // peer= does not allow its address
	causeJunk                 // its first bytes are not those of an engine
	causeSlow                 // it has sent too little in time
	causeCrowd                // too many others of its address were there, or too many at all
	causeOften                // its address has met too often
	causeVersion              // it speaks another version
	causeKeys                 // it has not proved that it has a key that is accepted
	causeTicket               // a connection for libucx without a valid ticket
	causeRefused              // its hello is not valid, or not possible
	causeBanned               // its worker address has ended the process
	causes
)

var causeNames = [causes]string{
	"address not allowed", "no greeting", "too slow", "too many at once", "too many meetings",
	"another version", "wrong key", "no ticket", "refused", "banned",
}

var errJunk = errors.New("what it sends is no greeting of an engine")

// Limits for connections that are not of peers yet. A rack has some tens of engines, which may all connect
// when one of them starts; and several may be behind one address.
const (
	greetTime    = time.Second // for the first bytes
	mostHalf     = 128         // connections whose meeting is not over, at once
	mostHalfEach = 16          // of them from one address
	meetings     = 128         // of one address at once; an X25519 handshake takes some 0.2 ms of a processor
	meetingsRate = 32          // and so many more in each second
	mostSources  = 4096        // addresses whose meetings are counted; all further ones share one count
)

// A half is a connection whose meeting is not over.
type half struct {
	source netip.Addr
	conn   net.Conn
}

// A crowd has the connections whose meeting is not over, and counts meetings. Those of one address cannot
// keep out others: the oldest of the address with the most makes room.
type crowd struct {
	mu      sync.Mutex
	halves  []*half // the oldest first
	sources map[netip.Addr]*bucket

	counts   [causes]atomic.Uint64
	loggedAt [causes]time.Time // when the log had the last line
}

type bucket struct {
	left float64
	at   time.Time
}

// sourceOf returns what counts as one source: an IPv4
// address, or the half of an IPv6 address that a network has.
func sourceOf(a netip.Addr) netip.Addr {
	if a = a.Unmap(); a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64)
	return p.Addr()
}

// enter adds a connection. It closes another one if there are too many, and returns true then.
func (c *crowd) enter(conn net.Conn, from netip.Addr) (h *half, closed bool) {
	h = &half{sourceOf(from), conn}
	c.mu.Lock()
	defer c.mu.Unlock()
	own, sources := 1, make([]netip.Addr, len(c.halves))
	for i, o := range c.halves {
		sources[i] = o.source
		if o.source == h.source {
			own++
		}
	}
	i := -1
	if own > mostHalfEach {
		i = slices.Index(sources, h.source)
	} else if len(c.halves) >= mostHalf {
		i = giver(sources)
	}
	if closed = i >= 0; closed {
		_ = c.halves[i].conn.Close()
		c.halves = slices.Delete(c.halves, i, i+1)
	}
	c.halves = append(c.halves, h)
	return h, closed
}

// giver returns which of these makes room for another one, of whatever source: the oldest of the source with
// the most. They are sorted by age, the oldest first; there is at least one.
func giver[S comparable](sources []S) (at int) {
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

// leave removes a connection. It returns false if the connection was closed to make room.
func (c *crowd) leave(h *half) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, o := range c.halves {
		if o == h {
			c.halves = append(c.halves[:i], c.halves[i+1:]...)
			return true
		}
	}
	return false
}

// disperse closes all connections whose meeting is not over.
func (c *crowd) disperse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.halves {
		_ = h.conn.Close()
	}
}

// takeMeeting counts a meeting, and reports whether the address had one left.
func (c *crowd) takeMeeting(from netip.Addr, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	source := sourceOf(from)
	b := c.sources[source]
	if b == nil {
		if len(c.sources) >= mostSources {
			for s, o := range c.sources {
				if o.after(now) >= meetings {
					delete(c.sources, s)
				}
			}
		}
		if len(c.sources) >= mostSources {
			source = netip.Addr{}
		}
		if b = c.sources[source]; b == nil {
			b = &bucket{meetings, now}
			c.sources[source] = b
		}
	}
	b.left, b.at = b.after(now), now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

func (b *bucket) after(now time.Time) float64 {
	return min(meetings, b.left+meetingsRate*now.Sub(b.at).Seconds())
}

// countDropped counts a connection that was dropped. It
// reports whether to log it: once a minute for each cause.
func (c *crowd) countDropped(why cause) bool {
	c.counts[why].Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if last := c.loggedAt[why]; !last.IsZero() && now.Sub(last) < time.Minute {
		return false
	}
	c.loggedAt[why] = now
	return true
}

// String lists the counts that are not 0.
func (c *crowd) String() string {
	var parts []string
	total := uint64(0)
	for i := range c.counts {
		if n := c.counts[i].Load(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, causeNames[i]))
			total += n
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("%d connections of strangers dropped (%s)", total, strings.Join(parts, ", "))
}
