//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

const (
	authCarrier = "nicless roce 1" // the prologue of handshakes

	// firstSize is the size of message 1. No answer to it is longer, so that no program uses this engine
	// to send more bytes to an address than the message has.
	firstSize = authHead + max(auth.CookieSize+auth.Message1Size, auth.Message2Size)

	lookRemotes  = 100 * time.Millisecond // how often sessions are looked at
	lookAttempts = 10 * time.Millisecond  // the same while there are handshakes
	lookPeers    = time.Second            // how often the file of peers is looked at
	sweepEvery   = 10 * time.Second       // how often remotes without paths are looked for
	sweepAfter   = time.Minute            // how long one is kept after its last packet, if it has no session
	mostRemotes  = 2 * tableSize          // or if there are more than these

	firstResend  = 30 * time.Millisecond // longer than most round trips; doubles each time
	mostResends  = 5                     // so that a handshake fails after 1.9 s
	resendsPlain = 2                     // the same if packets without keys follow: after 0.2 s
	answerLife   = 3 * time.Second       // how long an answer to message 1 waits for message 3
	againAfter   = 250 * time.Millisecond
	refusedFor   = 2 * time.Second // a file or an option has to change

	silence    = time.Second            // packets are sent and no packet comes: the peer may have begun anew
	keepalive  = 300 * time.Millisecond // packets come and no packet is sent: a word shows that it is up
	mostAge    = time.Hour              // of a session
	renewAge   = 55 * time.Minute       // the end that has begun a session begins the next one
	renewAge2  = 58 * time.Minute       // if not, the other end does
	oldSession = 10 * time.Second       // how long the previous session is kept after its last packet

	// Budgets. A handshake costs an answering engine 0.15 ms, a cookie 5 us.
	answersKnown     = 1000 // handshakes begun by addresses that have paths or lines, in a second
	answersStrangers = 100  // by others
	answersEach      = 20   // by one address; for IPv6, by one /64
	cookiesKnown     = 10000
	cookiesStrangers = 1000
	pendingKnown     = 1024 // answers that wait for message 3
	pendingStrangers = 64
	pendingEach      = 4
	mostCookies      = 4 // cookies that an initiator uses in one handshake
)

// handshakes is the state of the guard's goroutine, which makes and renews sessions. Its methods take
// the time, and send by a function, so that tests can do without both.
type handshakes struct {
	g    *guard
	log  *slog.Logger
	send func(from *local, to netip.Addr, b []byte)

	cookies *auth.Cookies
	numbers map[uint32]*attempt // by this end's number
	pending [2]int              // answers that wait: of strangers, of known addresses
	each    map[netip.Prefix]int

	second  time.Time // start of the current second
	budget  map[netip.Prefix]int
	answers [2]int // begun in it
	given   [2]int // cookies

	peersAt, sweptAt, lookedAt time.Time
	nextLook                   time.Time
	changes                    uint64 // of the file of peers, at the last look
}

// An attempt is a handshake.
type attempt struct {
	from      *local
	addr      netip.Addr
	remote    *remote // nil: a stranger's, until its key is accepted
	h         *auth.Handshake
	number    uint32 // of this end
	initiator bool
	known     bool   // the address has a path or a line
	first     []byte // the message of Noise with which it began
	last      []byte // the datagram that is sent again
	resends   int
	cookies   int // that came
	began     time.Time
	next      time.Time // when last is sent again, or the attempt ends
	session   *session  // the initiator's, until the other end has used it
	answered  bool      // message 3 has come
}

// A peerState is what the goroutine knows of a remote.
type peerState struct {
	attempt             *attempt // that this end has begun
	current, previous   *session
	previousGot         uint64 // what had come in it at the last look
	currentGot          uint64
	previousAt          time.Time // when something came in the previous session
	again               time.Time // no attempt before
	cookie              [auth.CookieSize]byte
	cookieAt            time.Time
	sent, got, any      uint64    // at the last look
	sentAt, keepaliveAt time.Time // when packets and words were sent last
	activeAt            time.Time
	silent              time.Time // since when no packet comes although packets are sent; zero: packets come
}

func (h *handshakes) init(g *guard, now time.Time, send func(*local, netip.Addr, []byte)) {
	*h = handshakes{
		g: g, log: fabric.LimitLog(g.c.log), send: send, cookies: auth.NewCookies(now), second: now,
		numbers: make(map[uint32]*attempt), each: make(map[netip.Prefix]int),
		budget: make(map[netip.Prefix]int),
	}
}

// run is the guard's goroutine.
func (g *guard) run() {
	defer g.c.done.Done()
	h := &g.h
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if now := time.Now(); !now.Before(h.nextLook) { // however many letters come
			h.look(now)
		}
		// Answers first, then known addresses, then strangers.
		select {
		case l := <-g.answers:
			h.take(&l, time.Now())
			continue
		default:
		}
		select {
		case l := <-g.known:
			h.take(&l, time.Now())
			continue
		default:
		}
		timer.Reset(time.Until(h.nextLook))
		select {
		case <-g.c.stop:
			return
		case l := <-g.answers:
			h.take(&l, time.Now())
		case l := <-g.known:
			h.take(&l, time.Now())
		case l := <-g.strangers:
			h.take(&l, time.Now())
		case <-g.wake:
			h.look(time.Now())
		case <-timer.C:
		}
	}
}

// pause returns how long to wait before the next look.
func (h *handshakes) pause() time.Duration {
	if len(h.numbers) > 0 {
		return lookAttempts
	}
	return lookRemotes
}

// take takes a letter.
func (h *handshakes) take(l *letter, now time.Time) {
	b := l.b[:l.n]
	number := binary.BigEndian.Uint32(b[4:])
	if b[1] == kindFirst {
		h.takeFirst(l, b, now)
		return
	}
	a := h.numbers[number]
	if a == nil || a.from != l.from || a.addr != l.addr {
		return
	}
	switch b[1] {
	case kindCookie:
		h.takeCookie(a, b, now)
	case kindSecond:
		h.takeSecond(a, b, now)
	case kindThird:
		h.takeThird(a, b, now)
	}
}

// begin begins a handshake.
func (h *handshakes) begin(r *remote, now time.Time) {
	number := h.g.takeNumber()
	if number == 0 {
		return
	}
	hs, err := h.g.party.Handshake(authCarrier, true, r.addr, number, nil)
	a := &attempt{
		from: r.from, addr: r.addr, remote: r, h: hs, number: number,
		initiator: true, known: true, began: now,
	}
	if err == nil {
		a.first, err = hs.Write()
	}
	if err != nil {
		h.g.freeNumber(number)
		h.log.Error("handshake", "to", r.addr.String(), "error", err.Error())
		return
	}
	h.numbers[number] = a
	r.p.attempt = a
	h.g.counts.begun.Add(1)
	h.sendFirst(a, now)
}

// sendFirst sends message 1 with the cookie that the other end has given last.
func (h *handshakes) sendFirst(a *attempt, now time.Time) {
	b := make([]byte, firstSize)
	putAuthHead(b, kindFirst, 0, uint64(a.number)<<32)
	if p := &a.remote.p; now.Sub(p.cookieAt) < auth.CookieLife {
		copy(b[authHead:], p.cookie[:])
	}
	copy(b[authHead+auth.CookieSize:], a.first)
	h.post(a, b, now)
}

// post sends a datagram that is sent again until there is an answer.
func (h *handshakes) post(a *attempt, b []byte, now time.Time) {
	a.last, a.resends, a.next = b, 0, now.Add(firstResend)
	h.send(a.from, a.addr, b)
}

// takeFirst answers message 1: with a cookie, or, if it has one, with message 2. The answers go to the
// port of RoCE, not to the port from which the message came: on the host of a peer, only the peer's
// engine reads there.
func (h *handshakes) takeFirst(l *letter, b []byte, now time.Time) {
	g := h.g
	g.counts.requests.Add(1)
	number := uint32(binary.BigEndian.Uint64(b[8:]) >> 32)
	known := g.party.Peers.Covers(l.addr) || g.isWanted(l)
	which := 0
	if known {
		which = 1
	}
	h.newSecond(now)
	if !h.cookies.Good(l.from.number, l.addr, b[authHead:][:auth.CookieSize], now) {
		if h.given[which] >= [2]int{cookiesStrangers, cookiesKnown}[which] {
			g.counts.overBudget.Add(1)
			return
		}
		h.given[which]++
		g.counts.cookies.Add(1)
		answer := make([]byte, authHead+auth.CookieSize)
		putAuthHead(answer, kindCookie, number, 0)
		cookie := h.cookies.Make(l.from.number, l.addr, now)
		copy(answer[authHead:], cookie[:])
		h.send(l.from, l.addr, answer)
		return
	}
	first := b[authHead+auth.CookieSize:][:auth.Message1Size]
	source := sourcePrefix(l.addr)
	for _, a := range h.numbers { // at most some hundred wait
		if h.each[source] > 0 && !a.initiator && a.addr == l.addr && a.from == l.from &&
			string(a.first) == string(first) {
			if !a.answered {
				h.send(a.from, a.addr, a.last)
			}
			return
		}
	}
	if h.answers[which] >= [2]int{answersStrangers, answersKnown}[which] || h.budget[source] >= answersEach ||
		h.pending[which] >= [2]int{pendingStrangers, pendingKnown}[which] || h.each[source] >= pendingEach {
		g.counts.overBudget.Add(1)
		return
	}
	h.answers[which]++
	h.budget[source]++
	h.answer(l, number, first, known, now)
}

// newSecond renews the budgets each second.
func (h *handshakes) newSecond(now time.Time) {
	if now.Sub(h.second) >= time.Second {
		h.second, h.answers, h.given = now, [2]int{}, [2]int{}
		clear(h.budget)
	}
}

// sourcePrefix returns what counts as one source: an IPv4 address, or the /64 that an IPv6 host usually has.
func sourcePrefix(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(min(a.BitLen(), 64))
	return p
}

// isWanted reports whether a path to the sender of a letter was requested.
func (g *guard) isWanted(l *letter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := g.remotes[key{local: l.from.number, remote: l.addr.As16(), hops: defaultHops}]
	return r != nil && (r.demand.Load() || r.send.Load() != nil)
}

// answer answers message 1, which has a good cookie.
func (h *handshakes) answer(l *letter, theirs uint32, first []byte, known bool, now time.Time) {
	number := h.g.takeNumber()
	if number == 0 {
		return
	}
	hs, err := h.g.party.Handshake(authCarrier, false, l.addr, number, nil)
	var second []byte
	if err == nil {
		if err = hs.Read(first); err == nil {
			second, err = hs.Write()
		}
	}
	if err != nil { // a public key of low order
		h.g.counts.failed.Add(1)
		h.g.freeNumber(number)
		return
	}
	a := &attempt{
		from: l.from, addr: l.addr, h: hs, number: number, known: known, first: slices.Clone(first),
		began: now, next: now.Add(answerLife),
	}
	a.last = make([]byte, authHead, authHead+len(second))
	putAuthHead(a.last, kindSecond, theirs, uint64(number)<<32)
	a.last = append(a.last, second...)
	h.numbers[number] = a
	h.pend(a, 1)
	h.g.counts.answered.Add(1)
	h.send(a.from, a.addr, a.last)
}

// pend counts an answer that waits, or one less.
func (h *handshakes) pend(a *attempt, n int) {
	which := 0
	if a.known {
		which = 1
	}
	h.pending[which] += n
	source := sourcePrefix(a.addr)
	h.each[source] += n
	if h.each[source] == 0 {
		delete(h.each, source)
	}
}

// takeCookie sends message 1 again, with the cookie. The number in it shows that the sender of the cookie
// has got message 1.
func (h *handshakes) takeCookie(a *attempt, b []byte, now time.Time) {
	if len(b) != authHead+auth.CookieSize || !a.initiator || a.session != nil || a.cookies == mostCookies {
		return
	}
	a.cookies++
	a.remote.p.cookie, a.remote.p.cookieAt = [auth.CookieSize]byte(b[authHead:]), now
	h.sendFirst(a, now)
}

// takeSecond answers message 2 with message 3.
func (h *handshakes) takeSecond(a *attempt, b []byte, now time.Time) {
	if !a.initiator || a.session != nil {
		return // message 3 is sent again by itself
	}
	refused := a.h.Read(b[authHead:])
	if refused != nil && !errors.Is(refused, auth.ErrRefused) {
		h.g.counts.failed.Add(1)
		return
	}
	if refused != nil && a.h.Verdict() == auth.UnknownKey {
		h.refused(a, refused, now)
		return
	}
	third, err := a.h.Write()
	if err != nil {
		h.fail(a, err.Error(), now)
		return
	}
	s := a.h.Session()
	m := make([]byte, authHead, authHead+len(third))
	putAuthHead(m, kindThird, s.Number, uint64(a.number)<<32)
	m = append(m, third...)
	if refused != nil { // the peer gets the refusal too
		h.send(a.from, a.addr, m)
		h.refused(a, refused, now)
		return
	}
	a.session = h.g.open(s, a.remote, now)
	h.post(a, m, now)
}

// takeThird answers message 3 with a verdict, and uses the session.
func (h *handshakes) takeThird(a *attempt, b []byte, now time.Time) {
	if a.initiator {
		return
	}
	if a.answered {
		s := a.h.Session()
		if a.resends < 2*mostResends { // the verdict was lost
			a.resends++
			h.send(a.from, a.addr, word(s, s.Sealer(), a.h.Verdict()))
		}
		return
	}
	err := a.h.Read(b[authHead:])
	if err != nil && !errors.Is(err, auth.ErrRefused) {
		h.g.counts.failed.Add(1)
		h.end(a) // the initiator begins anew
		return
	}
	a.answered = true
	s := a.h.Session()
	if err == nil { // the session must be known before the other end gets message 3
		r := h.g.lookup(a.from, a.addr)
		h.use(r, h.g.open(s, r, now), now)
	}
	h.send(a.from, a.addr, word(s, s.Sealer(), a.h.Verdict()))
	if err != nil {
		h.g.counts.refused.Add(1)
		h.log.Warn("a peer is refused", "address", a.addr.String(), "reason", err.Error())
		if r := h.g.existing(a); r != nil {
			r.setReason(err.Error(), now)
		}
	}
}

// word returns a sealed word.
func word(s *auth.Session, with *auth.Sealer, v auth.Verdict) []byte {
	counter, ok := with.Next()
	if !ok {
		return nil
	}
	b := make([]byte, wordSize)
	putAuthHead(b, kindWord, s.Number, counter)
	b[authHead] = byte(v)
	with.Seal(b, authHead, counter)
	return b
}

// existing returns the remote of an attempt; nil if there is none.
func (g *guard) existing(a *attempt) *remote {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.remotes[key{local: a.from.number, remote: a.addr.As16(), hops: defaultHops}]
}

// lookup returns the remote of an address whose key was accepted.
func (g *guard) lookup(from *local, a netip.Addr) *remote {
	return g.remote(key{local: from.number, remote: a.As16()}, from)
}

// use makes a session the present one of its remote.
func (h *handshakes) use(r *remote, s *session, now time.Time) {
	p := &r.p
	if p.previous != nil {
		h.close(p.previous)
	}
	p.previous, p.previousAt, p.current = p.current, now, s
	if p.previous != nil {
		p.previousGot, p.currentGot = p.previous.got.Load(), s.got.Load()
	}
	p.silent, p.activeAt, p.sentAt = time.Time{}, now, time.Time{}
	r.plain.Store(false)
	r.send.Store(s)
	r.demand.Store(false)
	r.state.Store(nil)
	h.g.counts.done.Add(1)
	h.sendHeld(r, s, now)
	h.log.Info("peer authenticated", "address", r.addr.String(), "fingerprint", s.Remote.Fingerprint(),
		"cipher", s.Cipher, "encrypted", s.Encrypted)
}

// close ends a session.
func (h *handshakes) close(s *session) { h.g.freeNumber(s.Own) }

// refused ends an attempt that this end has begun and one of the ends has refused.
func (h *handshakes) refused(a *attempt, why error, now time.Time) {
	h.g.counts.refused.Add(1)
	h.log.Warn("handshake refused", "address", a.addr.String(), "reason", why.Error())
	h.fail(a, why.Error(), now)
	a.remote.p.again = now.Add(refusedFor)
}

// fail ends an attempt that this end has begun.
func (h *handshakes) fail(a *attempt, why string, now time.Time) {
	r := a.remote
	h.end(a)
	r.p.again = now.Add(againAfter)
	r.demand.Store(false) // the next packet requests a session again
	if r.p.current != nil {
		return
	}
	r.setReason(why, now)
	if !h.g.party.Required && !h.g.party.Peers.Covers(r.addr) {
		r.plain.Store(true)
	}
}

// setReason changes the reason in the reports about a remote.
func (r *remote) setReason(why string, now time.Time) {
	if old := r.state.Load(); old == nil || old.why != why {
		r.state.Store(&authState{why, now})
	}
}

// end ends an attempt. Its number stays if it is that of a session that is used.
func (h *handshakes) end(a *attempt) {
	delete(h.numbers, a.number)
	if !a.initiator {
		h.pend(a, -1)
	} else if a.remote.p.attempt == a {
		a.remote.p.attempt = nil
	}
	if s := h.g.find(a.number); s == nil || s.remote.p.current != s && s.remote.p.previous != s {
		h.g.freeNumber(a.number)
	}
}

// transmit sends a datagram to the port of RoCE at an address.
// A datagram that cannot be sent is lost, as on the way.
func (g *guard) transmit(from *local, to netip.Addr, b []byte) {
	var name unix.Sockaddr
	if to.Is4() {
		name = &unix.SockaddrInet4{Port: packet.Port, Addr: to.As4()}
	} else {
		name = &unix.SockaddrInet6{Port: packet.Port, Addr: to.As16(), ZoneId: from.scope}
	}
	from.use.RLock()
	defer from.use.RUnlock()
	if !from.closed {
		_ = unix.Sendto(from.senders[from.socketFor(to.As16())].fd, b, unix.MSG_DONTWAIT, name)
	}
}
