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
	// guardSlots is how many sessions and handshakes there can be: two sessions and a
	// handshake for each path, and handshakes of strangers. A power of two.
	guardSlots = 4 * tableSize

	// Letters wait in three queues: messages of handshakes that this end takes part in, message 1 from
	// addresses that have paths or lines in the file of peers, and message 1 from others. A handshake takes
	// about 0.2 ms. In longer queues, letters would wait until their senders have sent them again.
	queueAnswers   = 1024
	queueKnown     = 1024
	queueStrangers = 128

	mostLetter = firstSize // no other message is longer
)

// A guard authenticates the packets of a carrier. The sender and the receiver use its sessions. Its goroutine
// makes them; see handshake.go.
type guard struct {
	c     *Carrier
	party *auth.Party

	slots                     [guardSlots]slot // of sessions and handshakes
	answers, known, strangers chan letter      // the queues of letters
	wake                      chan struct{}    // makes the goroutine look

	mu      sync.Mutex // taken after the table's lock; not held during a system call
	remotes map[key]*remote
	sweeps  uint64 // how many sweeps there were

	counts authCounts
	h      handshakes // of the goroutine
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

	send   atomic.Pointer[session]   // the session in which packets are sent; nil: none yet
	plain  atomic.Bool               // packets are exchanged without keys
	demand atomic.Bool               // a session was requested, for packets or for a new path
	sent   atomic.Uint64             // packets that were sent; the sender counts
	got    atomic.Uint64             // packets that have come; the receiver counts
	state  atomic.Pointer[authState] // for reports
	seen   uint64                    // guard.sweeps when a path was requested last; guarded by guard.mu
	held   held                      // packets that wait for a session
	p      peerState                 // for the guard's goroutine only
}

// An authState is what reports say about a remote address.
type authState struct {
	why   string // why there is no session
	since time.Time
}

// A session is an authenticated session with a remote address. Fields that are not atomic do not change.
type session struct {
	*auth.Session
	remote *remote
	since  time.Time
	seal   *auth.Sealer // for the sender: packets
	quiet  *auth.Sealer // for the guard's goroutine: words, and packets that were held

	used    atomic.Bool   // a datagram with a good tag has come
	got     atomic.Uint64 // datagrams with a good tag
	verdict atomic.Uint32 // the auth.Verdict of the other end: auth.Accepted unless it refuses
}

// A letter is a message of a handshake that was received.
type letter struct {
	from *local
	addr netip.Addr
	n    int
	b    [mostLetter]byte
}

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

// signal makes the guard's goroutine look what has changed. It does not wait.
func (g *guard) signal() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// find returns the session with a number of this end; nil if there is none.
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
		if !g.party.Required && !g.party.Peers.Trusts() && !g.party.Peers.Covers(r.addr) {
			r.plain.Store(true)
		}
		g.remotes[k] = r
	}
	r.seen = g.sweeps
	return r
}

// requestSession requests a session with a remote address, if there is none. It does not wait: the engine's
// thread and the sender call it.
func (g *guard) requestSession(r *remote) {
	if g != nil && r.send.Load() == nil && r.demand.CompareAndSwap(false, true) {
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
		// The number cannot be guessed, so strangers do not fill the queue.
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

// takeNumber returns a free number for a session or handshake; 0 if there is none.
func (g *guard) takeNumber() uint32 {
	for range 64 { // tries; a quarter of the slots is free even if all paths have sessions
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

// open makes a session known to the receiver.
func (g *guard) open(a *auth.Session, r *remote, now time.Time) *session {
	s := &session{Session: a, remote: r, since: now, seal: a.Sealer(), quiet: a.Sealer()}
	g.slots[a.Own%guardSlots].session.Store(s)
	return s
}
