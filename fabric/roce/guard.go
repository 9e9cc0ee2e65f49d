//go:build linux && (amd64 || arm64)

package roce

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nicless/nicless/fabric/auth"
)

const (
	// guardSlots is how many sessions and handshakes there can be. Each path may need three: two sessions and
	// a handshake. The rest is for handshakes of strangers. A power of two.
	guardSlots = 4 * tableSize

	numberTries = 64 // how many random numbers takeNumber tries

	// Letters wait in three queues: messages of handshakes that this end takes part in (answers), message 1
	// from addresses that have paths or lines in the file of peers (known), and message 1 from all other
	// addresses (strangers). A handshake takes about 0.2 ms. If the queues were longer, letters would wait
	// for so long that their senders send them again.
	queueAnswers   = 1024
	queueKnown     = 1024
	queueStrangers = 128

	mostLetter = firstSize // message 1 is the longest message of a handshake
)

// A guard authenticates the packets of a carrier. The guard's goroutine makes sessions (handshake.go), the
// sender and the receiver use them.
type guard struct {
	c     *Carrier
	party *auth.Party

	slots                     [guardSlots]slot // numbers of sessions and handshakes
	answers, known, strangers chan letter      // the queues of letters
	wake                      chan struct{}    // has an element if the goroutine has to look at once

	// mu guards remotes and sweeps. It is taken after the table's lock, and not held during a system call.
	mu      sync.Mutex
	remotes map[key]*remote // all remotes, by remote.key
	sweeps  uint64          // how many sweeps there were

	counts authCounts
	h      handshakes // for the guard's goroutine only
}

// A slot has the number of a session or handshake, by which this end names it. The low bits of the number are
// the place of the slot. The guard's goroutine writes slots, the receiver reads them.
type slot struct {
	number  atomic.Uint32           // 0: the slot is free
	session atomic.Pointer[session] // nil: there is only a handshake
}

// A remote is a remote address as seen from a local address. All paths between the two addresses share it.
type remote struct {
	from *local
	addr netip.Addr // without a zone
	key  key        // of the path with class 0 and the default hop limit

	send  atomic.Pointer[session]   // the session in which packets are sent; nil: none yet
	plain atomic.Bool               // packets are exchanged without keys
	sent  atomic.Uint64             // packets sent in sessions; the sender counts
	got   atomic.Uint64             // packets received in sessions; the receiver counts
	state atomic.Pointer[authState] // for reports
	held  held                      // packets that wait for a session
	p     peerState                 // for the guard's goroutine only

	sessionRequested atomic.Bool // a session was requested, for packets or for a new path
	usedAfterSweep   uint64      // guard.sweeps at the last call of guard.remote; guarded by guard.mu
}

// An authState is what reports say about a remote address.
type authState struct {
	why   string // why there is no session
	since time.Time
}

// A session is an authenticated session with a remote address. Only the atomic fields change after open.
type session struct {
	*auth.Session
	remote *remote
	since  time.Time // when the session began

	// A sealer is for one goroutine, so there are two. They share the counter of the session.
	senderSealer *auth.Sealer // for the sender: seals packets
	guardSealer  *auth.Sealer // for the guard's goroutine: seals verdicts, and packets that were held

	got     atomic.Uint64 // how many datagrams with a good tag have come
	gotAny  atomic.Bool   // a datagram with a good tag has come, and the guard's goroutine was told
	verdict atomic.Uint32 // the auth.Verdict of the other end: auth.Accepted unless the other end refuses
}

// A letter is a message of a handshake that was received.
type letter struct {
	from *local     // the local address that has received the message
	addr netip.Addr // the sender
	n    int        // length of the message
	b    [mostLetter]byte
}

// authCounts counts what has become of handshakes; AuthStats in stats.go explains the counts.
type authCounts struct {
	requests, begun, answered, done, refused, failed, cookies, overBudget atomic.Uint64
}

func newGuard(c *Carrier) *guard {
	if c.cfg.Auth == nil {
		return nil
	}
	g := &guard{
		c: c, party: c.cfg.Auth, wake: make(chan struct{}, 1), remotes: make(map[key]*remote),
		answers: make(chan letter, queueAnswers), known: make(chan letter, queueKnown),
		strangers: make(chan letter, queueStrangers),
	}
	g.h.init(g, time.Now(), g.transmit)
	return g
}

// signal makes the guard's goroutine look at once what is to be done. signal does not wait.
func (g *guard) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// find returns the session that this end names by a number; nil if there is none.
func (g *guard) find(number uint32) *session {
	if s := g.slots[number%guardSlots].session.Load(); s != nil && s.Own == number {
		return s
	}
	return nil
}

// remote returns the remote of the paths with this key, whatever their class and hop limit. It makes the
// remote if there is none. The caller may hold the table's lock.
func (g *guard) remote(k key, from *local) *remote {
	if g == nil {
		return nil
	}
	k.class, k.hops = 0, defaultHops
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.remotes[k]
	if r == nil {
		r = &remote{from: from, addr: netip.AddrFrom16(k.remote).Unmap(), key: k}
		if !g.party.Required && !g.mayHaveKey(r.addr) {
			r.plain.Store(true)
		}
		g.remotes[k] = r
	}
	r.usedAfterSweep = g.sweeps
	return r
}

// mayHaveKey reports whether this end may accept a key from an address: a line of the file of peers covers
// the address, or this end trusts the first key that it gets from an address (auth.Peers.Trusts).
func (g *guard) mayHaveKey(a netip.Addr) bool {
	return g.party.Peers.Trusts() || g.party.Peers.Covers(a)
}

// requestSession requests a session with a remote address, if there is no session. The engine's thread and
// the sender call it, so it does not wait until there is one.
func (g *guard) requestSession(r *remote) {
	if g != nil && r.send.Load() == nil && r.sessionRequested.CompareAndSwap(false, true) {
		g.signal()
	}
}

// plainFrom reports whether packets without keys are accepted from the sender of a datagram.
func (g *guard) plainFrom(d *datagram) bool {
	switch {
	case g.party.Required:
		return false
	case d.path != nil:
		return d.path.peer.plain.Load()
	}
	return !g.party.Peers.Covers(d.remote)
}

// letter queues a message of a handshake for the goroutine. It neither waits nor allocates memory.
func (g *guard) letter(from *local, d *datagram, b []byte) Reason {
	queue := g.answers
	switch b[1] {
	case kindFirst:
		if len(b) != firstSize {
			return BadLength
		}
		queue = g.strangers
		if d.path != nil || g.party.Peers.Covers(d.remote) {
			queue = g.known
		} else if !g.party.Peers.Trusts() {
			return UnknownPeer
		}
	case kindSecond, kindThird, kindCookie:
		if len(b) > mostLetter {
			return BadLength
		}
		// Strangers cannot guess the number of a handshake, so they cannot fill the queue.
		if n := binary.BigEndian.Uint32(b[4:]); n == 0 || g.slots[n%guardSlots].number.Load() != n {
			return NoSession
		}
	default:
		return UnknownOpcode
	}
	l := letter{from: from, addr: d.remote, n: len(b)}
	copy(l.b[:], b)
	select {
	case queue <- l:
		return good
	default:
		return HandshakeFlood
	}
}

// takeNumber takes a free number for a session or handshake; 0 if it finds none. A quarter of the slots is
// free even if each path has two sessions and a handshake, so numberTries tries find one almost surely.
func (g *guard) takeNumber() uint32 {
	for range numberTries {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		n := binary.BigEndian.Uint32(b[:])
		if s := &g.slots[n%guardSlots]; n != 0 && s.number.Load() == 0 {
			s.number.Store(n)
			return n
		}
	}
	return 0
}

// freeNumber frees the slot of a number, if the slot still has this number.
func (g *guard) freeNumber(n uint32) {
	if s := &g.slots[n%guardSlots]; s.number.Load() == n {
		s.session.Store(nil)
		s.number.Store(0)
	}
}

// open makes a session of the result of a handshake. From then on, the receiver finds it by its number.
func (g *guard) open(a *auth.Session, r *remote, now time.Time) *session {
	s := &session{Session: a, remote: r, since: now, senderSealer: a.Sealer(), guardSealer: a.Sealer()}
	g.slots[a.Own%guardSlots].session.Store(s)
	return s
}
