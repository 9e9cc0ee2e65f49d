//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/stretchr/testify/require"
)

// A room has the guards of some hosts that are not started, a network between them that the test
// moves by hand, and a clock of its own.
type room struct {
	t     testing.TB
	now   time.Time
	hosts map[netip.Addr]*host
	from  map[netip.Addr]*local
	mail  []mail
	lose  func(m *mail) bool // nil: no datagram is lost
}

// mail is a datagram on the way.
type mail struct {
	from, to netip.Addr
	b        []byte
}

func newRoom(t testing.TB) *room {
	return &room{t: t, now: time.Unix(1e9, 0), hosts: map[netip.Addr]*host{}, from: map[netip.Addr]*local{}}
}

// add makes the host at an address.
func (r *room) add(a netip.Addr, party *auth.Party) *host {
	r.t.Helper()
	h := newHost(r.t, Config{Auth: party})
	stopped(r.t, h)
	require.NoError(r.t, h.AddAddress(a))
	r.hosts[a], r.from[a] = h, (*h.locals.Load())[0]
	h.guard.h.init(h.guard, r.now, func(_ *local, to netip.Addr, b []byte) {
		r.mail = append(r.mail, mail{a, to, append([]byte(nil), b...)})
	})
	return h
}

// take gives a datagram to the host to which it goes, as the receiver does, and returns how many bytes
// of answers it causes.
func (r *room) take(m mail) (why Reason) {
	h := r.hosts[m.to]
	if h == nil {
		return good
	}
	rec, g := h.receiver, h.guard
	rec.from = r.from[m.to]
	rec.d = datagram{remote: m.from}
	rec.d.path = h.paths.known(rec.key())
	why = rec.checkDatagram(append([]byte(nil), m.b...))
	for _, queue := range []chan letter{g.answers, g.known, g.strangers} {
		for len(queue) > 0 {
			l := <-queue
			g.h.take(&l, r.now)
		}
	}
	return why
}

// settle moves what is on the way, and what it causes, until no datagram is left.
func (r *room) settle() {
	for n := 0; len(r.mail) > 0; n++ {
		require.Less(r.t, n, 100000, "it does not end")
		m := r.mail[0]
		r.mail = r.mail[1:]
		if r.lose == nil || !r.lose(&m) {
			r.take(m)
			r.look()
		}
	}
}

func (r *room) look() {
	for _, h := range r.hosts {
		h.guard.h.look(r.now)
	}
}

// pass lets time pass, in steps of 10 ms.
func (r *room) pass(d time.Duration) {
	for until := r.now.Add(d); r.now.Before(until); {
		r.now = r.now.Add(10 * time.Millisecond)
		r.look()
		r.settle()
	}
}

// session returns the session in which the host at from sends to the host at to; nil if there is none.
func (r *room) session(from, to netip.Addr) *session {
	g := r.hosts[from].guard
	if p := g.remotes[key{local: r.from[from].number, remote: to.As16(), hops: defaultHops}]; p != nil {
		return p.send.Load()
	}
	return nil
}

// works reports whether both ends have a session and understand each other.
func (r *room) works(a, b netip.Addr) bool {
	for _, end := range [][2]netip.Addr{{a, b}, {b, a}} {
		s := r.session(end[0], end[1])
		if s == nil {
			return false
		}
		if why := r.take(mail{end[0], end[1], sealVerdict(s.Session, s.guardSealer, auth.Accepted)}); why != good {
			r.t.Logf("what %v sends is dropped: %v", end[0], why)
			return false
		}
	}
	return true
}

// two returns a room with two hosts that accept each other.
func two(t testing.TB) (r *room, a, b *host, at []netip.Addr) {
	at = freeport.Loopback(t, 3)
	x, xFile := keys(t)
	y, yFile := keys(t)
	accept(t, x, xFile, at[1], y)
	accept(t, y, yFile, at[0], x)
	r = newRoom(t)
	return r, r.add(at[0], x), r.add(at[1], y), at
}

// A path that is requested leads to a handshake, also if both ends begin at once.
func TestGuardHandshake(t *testing.T) {
	for _, both := range []bool{false, true} {
		r, a, b, at := two(t)
		a.to(at[0], at[1])
		if both {
			b.to(at[1], at[0])
		}
		r.look()
		r.settle()
		require.True(t, r.works(at[0], at[1]))
		require.Empty(t, r.mail)
		for range 3 { // idle, then a packet each way
			r.pass(2 * oldSession)
			require.True(t, r.works(at[0], at[1]))
		}
		require.Equal(t, r.session(at[0], at[1]).Own, r.session(at[1], at[0]).Number, "both send in the same session")
		require.Empty(t, a.guard.h.attempts)
		require.Empty(t, b.guard.h.attempts)
		require.Zero(t, b.guard.h.pending)
		require.Empty(t, b.guard.h.pendingFrom)
		for _, h := range []*host{a, b} {
			numbers := 0
			for i := range h.guard.slots {
				if h.guard.slots[i].number.Load() != 0 {
					numbers++
				}
			}
			require.Equal(t, 1, numbers, "what is over has no number")
		}
	}
}

// Handshakes over networks that lose, repeat and reorder most datagrams come to an end.
func TestGuardOverABadNetwork(t *testing.T) {
	for seed := range uint64(30) {
		r, a, b, at := two(t)
		rng := rand.New(rand.NewPCG(seed, 7))
		r.lose = func(m *mail) bool {
			switch rng.IntN(5) {
			case 0, 1:
				return true
			case 2: // once more, later
				r.mail = append(r.mail, *m)
			}
			rng.Shuffle(len(r.mail), func(i, k int) { r.mail[i], r.mail[k] = r.mail[k], r.mail[i] })
			return false
		}
		for n := 0; r.session(at[0], at[1]) == nil || r.session(at[1], at[0]) == nil; n++ {
			require.Less(t, n, 200, "seed %d", seed)
			a.to(at[0], at[1]) // a requester sends again
			b.to(at[1], at[0])
			r.pass(100 * time.Millisecond)
		}
		r.lose = nil
		r.pass(5 * time.Second)
		require.True(t, r.works(at[0], at[1]), "seed %d", seed)
	}
}

// Message 1 without a good cookie costs only a cookie, which goes to the port of RoCE and is not
// longer. A cookie of another address, of another engine or of long ago is not good.
func TestGuardCookies(t *testing.T) {
	r, a, b, at := two(t)
	b.guard.party, _ = keys(t, "trust=first")
	a.to(at[0], at[1])
	a.guard.h.look(r.now)
	require.Len(t, r.mail, 1)
	first := r.mail[0]
	require.Len(t, first.b, firstSize)
	answer := func(m mail) mail {
		t.Helper()
		r.mail = nil
		require.Equal(t, good, r.take(m))
		require.Len(t, r.mail, 1)
		require.LessOrEqual(t, len(r.mail[0].b), len(m.b))
		require.Equal(t, m.from, r.mail[0].to)
		return r.mail[0]
	}
	cookie := answer(first)
	require.Equal(t, byte(kindCookie), cookie.b[1])
	require.Zero(t, b.Stats().Auth.Answered)
	r.mail = nil
	r.take(cookie)
	require.Len(t, r.mail, 1)
	second := r.mail[0]
	require.Equal(t, byte(kindSecond), answer(second).b[1])
	require.EqualValues(t, 1, b.Stats().Auth.Answered)
	require.Equal(t, byte(kindSecond), answer(second).b[1], "once more: the same answer")
	require.EqualValues(t, 1, b.Stats().Auth.Answered, "without another handshake")
	for i := range auth.CookieSize {
		bad := mail{second.from, second.to, append([]byte(nil), second.b...)}
		bad.b[authHead+i] ^= 1
		require.Equal(t, byte(kindCookie), answer(bad).b[1])
	}
	require.Equal(t, byte(kindCookie), answer(mail{at[2], at[1], second.b}).b[1], "it is of another address")
	r.now = r.now.Add(auth.CookieLife + 2*time.Second)
	require.Equal(t, byte(kindCookie), answer(second).b[1], "it is too old")
	require.EqualValues(t, 1, b.Stats().Auth.Answered)
}

// Floods of message 1, with good cookies too, cost a bounded number of handshakes, and do not keep a known
// address from its own. So with forged cookies, cut messages, and messages for handshakes that do not exist.
func TestGuardFlood(t *testing.T) {
	r, a, _, at := two(t)
	trusting, _ := keys(t, "trust=first")
	b := r.add(at[2], trusting)
	aParty, file := keys(t)
	accept(t, aParty, file, at[2], trusting)
	a.guard.party = aParty
	stranger, _ := keys(t, "trust=first")

	// Many addresses, with good cookies.
	for i := range 2000 {
		from := netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})
		hs, err := stranger.Handshake(authCarrier, true, at[2], 5, nil)
		require.NoError(t, err)
		m, err := hs.Write()
		require.NoError(t, err)
		datagram := make([]byte, firstSize)
		putAuthHead(datagram, kindFirst, 0, uint64(i+1)<<32)
		cookie := b.guard.h.cookies.Make(r.from[at[2]].number, from, r.now)
		copy(datagram[authHead:], cookie[:])
		copy(datagram[authHead+auth.CookieSize:], m)
		r.take(mail{from, at[2], datagram})
	}
	require.EqualValues(t, pendingStrangers, b.Stats().Auth.Answered)
	require.EqualValues(t, 2000-pendingStrangers, b.Stats().Auth.OverBudget)
	require.Zero(t, b.Stats().Paths, "nothing is kept of them")
	require.Empty(t, b.guard.remotes)

	// Without cookies, of one source.
	r.mail = nil
	for i := range 3 * cookiesStrangers {
		datagram := make([]byte, firstSize)
		putAuthHead(datagram, kindFirst, 0, uint64(i+1)<<32)
		r.take(mail{at[1], at[2], datagram})
	}
	require.Len(t, r.mail, cookiesStrangers)

	// Meanwhile b requests a path to a, and a one to b: b knows a.
	r.mail = nil
	b.to(at[2], at[0])
	r.look()
	r.settle()
	require.True(t, r.works(at[0], at[2]))

	// Messages of handshakes that do not exist reach no queue.
	for kind := range byte(10) {
		datagram := make([]byte, firstSize)
		putAuthHead(datagram, kind, rand.Uint32(), 0)
		if kind != kindFirst {
			require.NotEqual(t, good, r.take(mail{at[1], at[2], datagram}))
		}
		require.Equal(t, BadLength, r.take(mail{at[1], at[2], datagram[:authHead-1]}))
	}
	r.pass(answerLife + time.Second)
	require.Zero(t, b.guard.h.pending)
	require.Empty(t, b.guard.h.attempts)
}

// The queues are bounded: what does not fit is dropped and counted. Strangers have a queue of their own.
func TestGuardQueues(t *testing.T) {
	r, _, b, at := two(t)
	trusting, _ := keys(t, "trust=first")
	b.guard.party = trusting
	rec := b.receiver
	rec.from = r.from[at[1]]
	flood := make([]byte, firstSize)
	putAuthHead(flood, kindFirst, 0, 1<<32)
	rec.d = datagram{remote: at[2]}
	for range queueStrangers {
		require.Equal(t, good, rec.checkDatagram(flood))
	}
	require.Equal(t, HandshakeFlood, rec.checkDatagram(flood))
	b.to(at[1], at[0])
	rec.d = datagram{remote: at[0]}
	rec.d.path = b.paths.known(rec.key())
	require.Equal(t, good, rec.checkDatagram(flood))

	other, _ := keys(t)
	b.guard.party = other // which trusts no key
	rec.d = datagram{remote: at[2]}
	require.Equal(t, UnknownPeer, rec.checkDatagram(flood))
}

// A key that is not accepted, at either end, ends the handshake; reports say why, and it is not tried all
// the time. When the file of peers changes, it is tried again.
func TestGuardRefuses(t *testing.T) {
	for _, refuses := range []int{0, 1} {
		at := freeport.Loopback(t, 2)
		x, xFile := keys(t)
		y, yFile := keys(t)
		other, _ := keys(t)
		parties, files := []*auth.Party{x, y}, []string{xFile, yFile}
		accept(t, x, xFile, at[1], y)
		accept(t, y, yFile, at[0], x)
		accept(t, parties[refuses], files[refuses], at[1-refuses], other)
		r := newRoom(t)
		a, b := r.add(at[0], x), r.add(at[1], y)
		a.to(at[0], at[1])
		r.look()
		r.settle()
		require.Nil(t, r.session(at[0], at[1]))
		require.Nil(t, r.session(at[1], at[0]))
		peer := a.Peers()[0]
		require.False(t, peer.Up)
		if refuses == 0 {
			require.Contains(t, peer.Why, "has another key")
			require.Contains(t, peer.Why, y.Identity.Public().String())
			require.Empty(t, b.guard.remotes)
		} else {
			require.Contains(t, peer.Why, "refuses this engine")
			require.EqualValues(t, 1, b.Stats().Auth.Refused)
		}
		begun := a.Stats().Auth.Begun
		for range 100 {
			a.to(at[0], at[1]) // a program tries all the time
			r.pass(10 * time.Millisecond)
		}
		require.Equal(t, begun, a.Stats().Auth.Begun)
		accept(t, parties[refuses], files[refuses], at[1-refuses], parties[1-refuses])
		for range 300 {
			a.to(at[0], at[1])
			r.pass(10 * time.Millisecond)
		}
		require.True(t, r.works(at[0], at[1]))
	}
}

// One end encrypts, the other does not: both say so.
func TestGuardEncryptMismatch(t *testing.T) {
	r, a, b, at := two(t)
	b.guard.party.Encrypt = true
	a.to(at[0], at[1])
	b.to(at[1], at[0])
	r.look()
	r.settle()
	for _, h := range []*host{a, b} {
		require.Contains(t, h.Peers()[0].Why, "encrypt")
	}
}

// A session is renewed before it is too old or its keys are
// used up, without a gap; one that is not used ends.
func TestGuardRenews(t *testing.T) {
	for _, full := range []bool{false, true} {
		r, a, _, at := two(t)
		a.to(at[0], at[1])
		r.look()
		r.settle()
		old := r.session(at[0], at[1])
		p := old.remote
		if full {
			old.Session.Skip(auth.MostSealed / 2)
		} else {
			r.now = r.now.Add(renewAgeInitiating)
		}
		for range 20 {
			p.sent.Add(1)
			r.pass(100 * time.Millisecond)
			require.True(t, r.works(at[0], at[1]))
		}
		require.NotEqual(t, old, r.session(at[0], at[1]))
		require.Equal(t, old, p.p.previous)
		require.NotNil(t, a.guard.find(old.Own), "the old one is valid until its last packets have come")
		r.pass(2 * oldSession)
		require.Nil(t, a.guard.find(old.Own))

		r.now = r.now.Add(mostAge)
		r.pass(time.Second)
		require.Nil(t, r.session(at[0], at[1]), "nobody uses it")
		a.to(at[0], at[1])
		r.pass(100 * time.Millisecond)
		require.True(t, r.works(at[0], at[1]))
	}
}

// Packets in one direction keep a session: the end that only receives sends a word now and then. If nothing
// comes back, a new handshake begins after a second.
func TestGuardOneWay(t *testing.T) {
	r, a, b, at := two(t)
	a.to(at[0], at[1])
	r.look()
	r.settle()
	s := r.session(at[0], at[1])
	words := s.got.Load()
	h := head(udSend, 1)
	send := func() {
		require.Equal(t, good, r.take(mail{at[0], at[1], sealedBy(r.session(at[0], at[1]), h, nil)}))
		r.session(at[0], at[1]).remote.sent.Add(1)
		b.took()
	}
	for range 100 {
		send()
		r.pass(100 * time.Millisecond)
	}
	require.InDelta(t, 10*time.Second/keepalive, s.got.Load()-words, 10)
	require.Equal(t, s, r.session(at[0], at[1]))
	require.EqualValues(t, 1, a.Stats().Auth.Begun)

	// The other end has begun anew: it does not understand, and sends no answer.
	party := b.guard.party
	require.NoError(t, b.Close())
	b = r.add(at[1], party)
	began := r.now
	for r.session(at[0], at[1]) == s {
		s.remote.sent.Add(1)
		require.Equal(t, NoSession, r.take(mail{at[0], at[1], sealedBy(s, h, nil)}))
		r.pass(50 * time.Millisecond)
	}
	require.InDelta(t, mostSilence, r.now.Sub(began), float64(200*time.Millisecond))
	send()

	// No packet is sent: no handshake is tried.
	begun := a.Stats().Auth.Begun
	delete(r.hosts, at[1])
	r.pass(time.Minute)
	require.Equal(t, begun, a.Stats().Auth.Begun)
}

// A peer that is not there gets a few requests, then others when packets are to be sent.
func TestGuardAlone(t *testing.T) {
	r, a, _, at := two(t)
	delete(r.hosts, at[1])
	a.to(at[0], at[1])
	sent := 0
	r.lose = func(*mail) bool { sent++; return true }
	r.pass(time.Minute)
	require.Equal(t, 1+mostResends, sent)
	require.Contains(t, a.Peers()[0].Why, "does not answer")
	require.EqualValues(t, 1, a.Stats().Auth.Begun)
}

// Remotes without paths and packets are removed, those with a path are not.
func TestGuardSweeps(t *testing.T) {
	r, a, b, at := two(t)
	a.to(at[0], at[1])
	r.look()
	r.settle()
	require.Len(t, b.guard.remotes, 1)
	r.pass(sweepAfter + 2*sweepEvery)
	require.True(t, r.works(at[0], at[1]), "a session is kept, so that the next packet need not wait")
	r.now = r.now.Add(mostAge)
	r.pass(2 * sweepEvery)
	require.Empty(t, b.guard.remotes)
	require.Len(t, a.guard.remotes, 1)
	a.endEverything()
	r.pass(2 * sweepEvery)
	require.Empty(t, a.guard.remotes)
}

// endEverything ends all paths.
func (h *host) endEverything() { h.paths.endAll((*h.locals.Load())[0]) }

// A guard goes on whatever comes in place of its messages: handshakes end, and good ones succeed.
func FuzzGuard(f *testing.F) {
	r, a, _, at := two(f)
	r.lose = func(m *mail) bool { f.Add(m.b, false); return false }
	a.to(at[0], at[1])
	r.look()
	r.settle()
	s := r.session(at[0], at[1])
	f.Add(sealedBy(s, head(writeOnly, 1), content(16, 1)), true)
	f.Fuzz(func(t *testing.T, b []byte, answer bool) {
		if len(b) == 0 || len(b) > 5000 {
			return
		}
		r, a, _, at := two(t)
		a.to(at[0], at[1])
		r.look()
		done := false
		r.lose = func(m *mail) bool {
			if answer && !done && len(b) >= 8 { // with the number of the handshake
				done = true
				n := binary.BigEndian.Uint64(m.b[8:]) >> 32
				forged := append([]byte(nil), b...)
				binary.BigEndian.PutUint32(forged[4:], uint32(n))
				r.take(mail{m.to, m.from, forged})
			}
			r.take(mail{m.from, m.to, b})
			return false
		}
		r.settle()
		r.pass(5 * time.Second)
		r.lose = nil
		a.to(at[0], at[1])
		r.pass(5 * time.Second)
		require.True(t, r.works(at[0], at[1]))
	})
}
