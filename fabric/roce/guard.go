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

	// Letters wait in queues: messages of handshakes that this end takes part in, message 1 from addresses
	// that have paths or lines, and message 1 from others. A handshake takes about 0.2 ms. Queues that are
	// longer hold letters that have been sent again already.
	queueAnswers   = 1024
	queueKnown     = 1024
	queueStrangers = 128

	mostLetter = firstSize // no other message is longer
)

// A guard authenticates the packets of a carrier. The loops use its sessions; its goroutine makes them,
// see handshake.go.
type guard struct {
	c     *Carrier
	party *auth.Party

	slots                     [guardSlots]slot
	answers, known, strangers chan letter
	wake                      chan struct{}

	mu      sync.Mutex // taken after the table's lock; not held during a system call
	remotes map[key]*remote
	sweeps  uint64 // how many times remotes were looked through

	counts authCounts
	h      handshakes // of the goroutine
}

// A slot is what a number leads to: the number's low bits are the place of the slot. The guard's
// goroutine writes it, the receiver reads it.
type slot struct {
	number  atomic.Uint32 // 0: free
	session atomic.Pointer[session]
}

// A remote is a remote address as seen from a local address. All paths between these two have the same.
type remote struct {
	from *local
	addr netip.Addr // without a zone
	key  key        // of the source path

	send   atomic.Pointer[session]   // in which packets are sent; nil: none yet
	plain  atomic.Bool               // packets are exchanged without keys
	demand atomic.Bool               // packets are to be sent, or a path was requested
	sent   atomic.Uint64             // packets, by the sender
	got    atomic.Uint64             // packets, by the receiver
	state  atomic.Pointer[authState] // for reports
	seen   uint64                    // guarded by the guard's lock: sweeps when it was requested last
	held   held                      // packets that wait for a session
	p      peerState                 // the goroutine's
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
	seal   *auth.Sealer // the sender's
	quiet  *auth.Sealer // the goroutine's

	used    atomic.Bool   // something good has come
	got     atomic.Uint64 // good datagrams
	verdict atomic.Uint32 // of the other end, if it refuses
}

// A letter is a message of a handshake that has come.
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

// signal makes the goroutine look what has changed. It does not wait.
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

// remote returns the remote address of a path with this key, which it makes if necessary. The caller holds
// the table's lock.
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

// want requests a session with a remote address, if there is none. It does not wait: the engine's thread
// and the sender call it.
func (g *guard) want(r *remote) {
	if g != nil && r.send.Load() == nil && r.demand.CompareAndSwap(false, true) {
		g.signal()
	}
}

// plainFrom reports whether packets without keys are taken from where a datagram comes.
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
	for range 64 { // a quarter of the slots is free even if all paths have sessions
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

// freeNumber ends what a number leads to.
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
