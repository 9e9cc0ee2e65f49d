//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/nicless/nicless/fabric"
	"github.com/nicless/nicless/fabric/auth"
	"github.com/nicless/nicless/packet"
	"golang.org/x/sys/unix"
)

// This file has the goroutine that makes sessions, and the initiating end of a handshake.
// handshake_answer.go has the answering end.

// handshakes is the state of the guard's goroutine, which makes and renews sessions. Methods get the time as
// an argument, and send by the function in the field send, so tests need no clock and no sockets.
type handshakes struct {
	g    *guard
	log  *slog.Logger
	send func(from *local, to netip.Addr, b []byte)

	cookies  *auth.Cookies
	attempts map[uint32]*attempt // handshakes that are not over, by attempt.number

	// How many answers of this end wait for message 3.
	pending     [2]int               // by ofStrangers and ofKnown
	pendingFrom map[netip.Prefix]int // by source

	// Counts since the current second began, for the budgets.
	second       time.Time            // when the current second began
	answers      [2]int               // handshakes that were answered, by ofStrangers and ofKnown
	answersFrom  map[netip.Prefix]int // handshakes that were answered, by source
	cookiesGiven [2]int               // cookies that were given, by ofStrangers and ofKnown

	// For the looks of handshake_timers.go.
	nextLook     time.Time // when the next look is due
	allLookedAt  time.Time // when all sessions were looked at last
	sweptAt      time.Time // when remotes were swept last
	peersReadAt  time.Time // when the file of peers was looked at last
	peersVersion uint64    // what auth.Peers.Changes returned at the last look
}

// An attempt is a handshake that is not over.
type attempt struct {
	from      *local
	addr      netip.Addr
	remote    *remote         // nil at the answering end
	noise     *auth.Handshake // the state of the Noise protocol
	number    uint32          // the number by which this end names the handshake
	initiator bool            // this end has begun the handshake
	known     bool            // the address has a path, or a line in the file of peers
	first     []byte          // message 1, without the cookie
	last      []byte          // the datagram that was sent last; it is sent again if no answer comes
	resends   int             // how often the last datagram was sent again
	cookies   int             // how many cookies have come
	began     time.Time
	due       time.Time // when the last datagram is sent again, or the attempt ends
	session   *session  // at the initiating end, from message 3 on; it is not in use before the verdict
	answered  bool      // at the answering end: message 3 has come
}

// A peerState is what the guard's goroutine knows of a remote.
type peerState struct {
	attempt     *attempt  // the attempt that this end has begun; nil: none
	nextAttempt time.Time // no attempt begins before this time

	cookie      [auth.CookieSize]byte // the cookie that the other end has given last
	cookieGotAt time.Time             // when that cookie came

	current, previous       *session
	currentGot, previousGot uint64    // got of the two sessions at the last look
	previousUsedAt          time.Time // when a datagram came in the previous session last

	// Counts at the last look.
	lastPacketsSent, lastPacketsGot uint64 // sent and got of the remote
	lastDatagramsGot                uint64 // got of the two sessions, together

	sentAt      time.Time // when packets were sent last
	activeAt    time.Time // when packets were sent or received last
	keepaliveAt time.Time // when a keepalive was sent last
	silentSince time.Time // since when packets were sent and nothing has come; zero: something has come since
}

func (h *handshakes) init(g *guard, now time.Time, send func(*local, netip.Addr, []byte)) {
	*h = handshakes{
		g: g, log: fabric.LimitLog(g.c.log), send: send, cookies: auth.NewCookies(now), second: now,
		attempts: make(map[uint32]*attempt), pendingFrom: make(map[netip.Prefix]int),
		answersFrom: make(map[netip.Prefix]int),
	}
}

// run is the guard's goroutine.
func (g *guard) run() {
	defer g.c.done.Done()
	h := &g.h
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if now := time.Now(); !now.Before(h.nextLook) { // looks are on time even if letters never stop
			h.look(now)
		}
		// Answers come first, then letters of known addresses, then those of strangers.
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

// pause returns the time from one look to the next.
func (h *handshakes) pause() time.Duration {
	if len(h.attempts) > 0 {
		return lookAttempts
	}
	return lookRemotes
}

// take handles a letter. A letter other than message 1 is dropped unless it is of a handshake that is under
// way with its sender.
func (h *handshakes) take(l *letter, now time.Time) {
	b := l.b[:l.n]
	kind, number := b[1], binary.BigEndian.Uint32(b[4:])
	if kind == kindFirst {
		h.takeFirst(l, b, now)
		return
	}
	a := h.attempts[number]
	if a == nil || a.from != l.from || a.addr != l.addr {
		return
	}
	switch kind {
	case kindCookie:
		h.takeCookie(a, b, now)
	case kindSecond:
		h.takeSecond(a, b, now)
	case kindThird:
		h.takeThird(a, b, now)
	}
}

// begin begins a handshake with a remote.
func (h *handshakes) begin(r *remote, now time.Time) {
	number := h.g.takeNumber()
	if number == 0 {
		return
	}
	noise, err := h.g.party.Handshake(authCarrier, true, r.addr, number, nil)
	a := &attempt{
		from: r.from, addr: r.addr, remote: r, noise: noise, number: number,
		initiator: true, known: true, began: now,
	}
	if err == nil {
		a.first, err = noise.Write()
	}
	if err != nil {
		h.g.freeNumber(number)
		h.log.Error("handshake", "to", r.addr.String(), "error", err.Error())
		return
	}
	h.attempts[number] = a
	r.p.attempt = a
	h.g.counts.begun.Add(1)
	h.sendFirst(a, now)
}

// sendFirst sends message 1, with the cookie that the other end has given last if that is still valid.
func (h *handshakes) sendFirst(a *attempt, now time.Time) {
	b := make([]byte, firstSize)
	putAuthHead(b, kindFirst, 0, uint64(a.number)<<32)
	if p := &a.remote.p; now.Sub(p.cookieGotAt) < auth.CookieLife {
		copy(b[authHead:], p.cookie[:])
	}
	copy(b[authHead+auth.CookieSize:], a.first)
	h.post(a, b, now)
}

// post sends a datagram of an attempt. lookAttempt sends it again until there is an answer.
func (h *handshakes) post(a *attempt, b []byte, now time.Time) {
	a.last, a.resends, a.due = b, 0, now.Add(firstResend)
	h.send(a.from, a.addr, b)
}

// takeCookie sends message 1 again, with the cookie that has come. Only an end that has received message 1
// knows the number of this attempt, so the cookie is from the other end.
func (h *handshakes) takeCookie(a *attempt, b []byte, now time.Time) {
	if len(b) != authHead+auth.CookieSize || !a.initiator || a.session != nil || a.cookies == mostCookies {
		return
	}
	a.cookies++
	a.remote.p.cookie, a.remote.p.cookieGotAt = [auth.CookieSize]byte(b[authHead:]), now
	h.sendFirst(a, now)
}

// takeSecond answers message 2 with message 3. It does nothing if message 2 comes once more, because
// lookAttempt sends message 3 again.
func (h *handshakes) takeSecond(a *attempt, b []byte, now time.Time) {
	if !a.initiator || a.session != nil {
		return
	}
	refused := a.noise.Read(b[authHead:])
	if refused != nil && !errors.Is(refused, auth.ErrRefused) {
		h.g.counts.failed.Add(1)
		return
	}
	if refused != nil && a.noise.Verdict() == auth.UnknownKey { // the peer gets no message 3
		h.refused(a, refused, now)
		return
	}
	third, err := a.noise.Write()
	if err != nil {
		h.fail(a, err.Error(), now)
		return
	}
	s := a.noise.Session()
	m := make([]byte, authHead, authHead+len(third))
	putAuthHead(m, kindThird, s.Number, uint64(a.number)<<32)
	m = append(m, third...)
	if refused != nil { // message 3 tells the peer that this end refuses it
		h.send(a.from, a.addr, m)
		h.refused(a, refused, now)
		return
	}
	a.session = h.g.open(s, a.remote, now)
	h.post(a, m, now)
}

// sealVerdict returns a sealed verdict; nil if the session has no counter left. with is a sealer of s.
func sealVerdict(s *auth.Session, with *auth.Sealer, v auth.Verdict) []byte {
	counter, ok := with.Next()
	if !ok {
		return nil
	}
	b := make([]byte, verdictSize)
	putAuthHead(b, kindVerdict, s.Number, counter)
	b[authHead] = byte(v)
	with.Seal(b, authHead, counter)
	return b
}

// use makes a session the current session of its remote. Packets are sent in it from now on. The session that
// was current becomes the previous session: packets on their way are still received in it.
func (h *handshakes) use(r *remote, s *session, now time.Time) {
	p := &r.p
	if p.previous != nil {
		h.close(p.previous)
	}
	p.previous, p.previousUsedAt, p.current = p.current, now, s
	if p.previous != nil {
		p.previousGot, p.currentGot = p.previous.got.Load(), s.got.Load()
	}
	p.silentSince, p.activeAt, p.sentAt = time.Time{}, now, time.Time{}
	r.plain.Store(false)
	r.send.Store(s)
	r.sessionRequested.Store(false)
	r.state.Store(nil)
	h.g.counts.done.Add(1)
	h.sendHeld(r, s, now)
	h.log.Info("peer authenticated", "address", r.addr.String(), "fingerprint", s.Remote.Fingerprint(),
		"cipher", s.Cipher, "encrypted", s.Encrypted)
}

// close ends a session: its number is free, and the receiver does not find it any more.
func (h *handshakes) close(s *session) { h.g.freeNumber(s.Own) }

// refused ends an attempt that this end has begun, after one of the two ends has refused the other.
func (h *handshakes) refused(a *attempt, why error, now time.Time) {
	h.g.counts.refused.Add(1)
	h.log.Warn("handshake refused", "address", a.addr.String(), "reason", why.Error())
	h.fail(a, why.Error(), now)
	a.remote.p.nextAttempt = now.Add(refusedFor)
}

// fail ends an attempt that this end has begun.
func (h *handshakes) fail(a *attempt, why string, now time.Time) {
	r := a.remote
	h.end(a)
	r.p.nextAttempt = now.Add(againAfter)
	r.sessionRequested.Store(false) // the next packet requests a session again
	if r.p.current != nil {
		return
	}
	r.setReason(why, now)
	if h.g.plainIfFailed(r.addr) {
		r.plain.Store(true)
	}
}

// plainIfFailed reports whether packets are exchanged without keys with an address if a handshake fails.
func (g *guard) plainIfFailed(a netip.Addr) bool {
	return !g.party.Required && !g.party.Peers.Covers(a)
}

// setReason changes the reason in the reports about a remote.
func (r *remote) setReason(why string, now time.Time) {
	if old := r.state.Load(); old == nil || old.why != why {
		r.state.Store(&authState{why, now})
	}
}

// end ends an attempt. It frees the number of the attempt, unless a session of the remote has this number.
func (h *handshakes) end(a *attempt) {
	delete(h.attempts, a.number)
	if !a.initiator {
		h.addPending(a, -1)
	} else if a.remote.p.attempt == a {
		a.remote.p.attempt = nil
	}
	s := h.g.find(a.number)
	inUse := s != nil && (s == s.remote.p.current || s == s.remote.p.previous)
	if !inUse {
		h.g.freeNumber(a.number)
	}
}

// transmit sends a datagram to the port of RoCE at an address. If the datagram cannot be sent, it is lost, as
// if the network had lost it.
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
		socket := from.senders[from.socketFor(to.As16())]
		_ = unix.Sendto(socket.fd, b, unix.MSG_DONTWAIT, name)
	}
}
