//go:build linux && (amd64 || arm64)

package roce

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/nicless/nicless/fabric/auth"
)

// This file has the answering end of a handshake.

// takeFirst answers message 1: with message 2 if message 1 has a good cookie, otherwise with a cookie.
// Answers go to the port of RoCE, not to the port from which message 1 came: on the host of a peer, only the
// peer's engine reads at the port of RoCE.
func (h *handshakes) takeFirst(l *letter, b []byte, now time.Time) {
	g := h.g
	g.counts.requests.Add(1)
	number := binary.BigEndian.Uint32(b[8:]) // by which the initiator names the handshake
	known := g.party.Peers.Covers(l.addr) || g.isWanted(l.from, l.addr)
	budget := budgetOf(known)
	h.newSecond(now)
	if !h.cookies.Good(l.from.number, l.addr, b[authHead:][:auth.CookieSize], now) {
		if h.cookiesGiven[budget] >= mostCookiesGiven[budget] {
			g.counts.overBudget.Add(1)
			return
		}
		h.cookiesGiven[budget]++
		g.counts.cookies.Add(1)
		answer := make([]byte, authHead+auth.CookieSize)
		putAuthHead(answer, kindCookie, number, 0)
		cookie := h.cookies.Make(l.from.number, l.addr, now)
		copy(answer[authHead:], cookie[:])
		h.send(l.from, l.addr, answer)
		return
	}
	first := b[authHead+auth.CookieSize:][:auth.Message1Size] // message 1 without the cookie
	source := sourcePrefix(l.addr)
	if a := h.attemptOf(l, source, first); a != nil { // message 1 has come once more
		if !a.answered {
			h.send(a.from, a.addr, a.last)
		}
		return
	}
	tooManyAnswers := h.answers[budget] >= mostAnswers[budget] || h.answersFrom[source] >= answersEach
	tooManyPending := h.pending[budget] >= mostPending[budget] || h.pendingFrom[source] >= pendingEach
	if tooManyAnswers || tooManyPending {
		g.counts.overBudget.Add(1)
		return
	}
	h.answers[budget]++
	h.answersFrom[source]++
	h.answer(l, number, first, known, now)
}

// attemptOf returns the attempt that was made when message 1 of a letter came before; nil if there is none.
// first is message 1 without the cookie.
func (h *handshakes) attemptOf(l *letter, source netip.Prefix, first []byte) *attempt {
	if h.pendingFrom[source] == 0 {
		return nil
	}
	for _, a := range h.attempts { // there are some hundred at most
		sameEnds := a.addr == l.addr && a.from == l.from
		if !a.initiator && sameEnds && string(a.first) == string(first) {
			return a
		}
	}
	return nil
}

// newSecond renews the budgets if a second is over.
func (h *handshakes) newSecond(now time.Time) {
	if now.Sub(h.second) >= time.Second {
		h.second, h.answers, h.cookiesGiven = now, [2]int{}, [2]int{}
		clear(h.answersFrom)
	}
}

// sourcePrefix returns what counts as one source: an IPv4 address, or the /64 that an IPv6 host usually has.
func sourcePrefix(a netip.Addr) netip.Prefix {
	p, _ := a.Prefix(min(a.BitLen(), 64))
	return p
}

// isWanted reports whether this engine has a session with a remote address, or has requested one.
func (g *guard) isWanted(from *local, a netip.Addr) bool {
	r := g.existing(from, a)
	return r != nil && (r.sessionRequested.Load() || r.send.Load() != nil)
}

// answer answers message 1, which has a good cookie, with message 2. theirNumber is the number by which the
// initiator names the handshake, first is message 1 without the cookie. known says whether the initiator's
// address is known.
func (h *handshakes) answer(l *letter, theirNumber uint32, first []byte, known bool, now time.Time) {
	number := h.g.takeNumber()
	if number == 0 {
		return
	}
	noise, err := h.g.party.Handshake(authCarrier, false, l.addr, number, nil)
	if err == nil {
		err = noise.Read(first)
	}
	var second []byte
	if err == nil {
		second, err = noise.Write()
	}
	if err != nil { // such as a public key of low order
		h.g.counts.failed.Add(1)
		h.g.freeNumber(number)
		return
	}
	a := &attempt{
		from: l.from, addr: l.addr, noise: noise, number: number, known: known, first: slices.Clone(first),
		began: now, due: now.Add(answerLife),
	}
	a.last = make([]byte, authHead, authHead+len(second))
	putAuthHead(a.last, kindSecond, theirNumber, uint64(number)<<32)
	a.last = append(a.last, second...)
	h.attempts[number] = a
	h.addPending(a, 1)
	h.g.counts.answered.Add(1)
	h.send(a.from, a.addr, a.last)
}

// addPending changes the number of answers that wait for message 3 by n, for the end that has begun a.
func (h *handshakes) addPending(a *attempt, n int) {
	h.pending[budgetOf(a.known)] += n
	source := sourcePrefix(a.addr)
	h.pendingFrom[source] += n
	if h.pendingFrom[source] == 0 {
		delete(h.pendingFrom, source)
	}
}

// takeThird answers message 3 with a verdict, and uses the session if the key of the other end is accepted.
// If message 3 comes once more, the verdict may be lost, so takeThird sends it again.
func (h *handshakes) takeThird(a *attempt, b []byte, now time.Time) {
	if a.initiator {
		return
	}
	if a.answered {
		s := a.noise.Session()
		if a.resends < mostVerdicts {
			a.resends++
			h.send(a.from, a.addr, sealVerdict(s, s.Sealer(), a.noise.Verdict()))
		}
		return
	}
	err := a.noise.Read(b[authHead:])
	if err != nil && !errors.Is(err, auth.ErrRefused) {
		h.g.counts.failed.Add(1)
		h.end(a) // the initiator begins anew
		return
	}
	a.answered = true
	s := a.noise.Session()
	if err == nil { // before the verdict is sent: the other end sends packets as soon as it has the verdict
		r := h.g.remoteOf(a.from, a.addr)
		h.use(r, h.g.open(s, r, now), now)
	}
	h.send(a.from, a.addr, sealVerdict(s, s.Sealer(), a.noise.Verdict()))
	if err != nil {
		h.g.counts.refused.Add(1)
		h.log.Warn("a peer is refused", "address", a.addr.String(), "reason", err.Error())
		if r := h.g.existing(a.from, a.addr); r != nil {
			r.setReason(err.Error(), now)
		}
	}
}

// existing returns the remote of an address; nil if there is none.
func (g *guard) existing(from *local, a netip.Addr) *remote {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.remotes[key{local: from.number, remote: a.As16(), hops: defaultHops}]
}

// remoteOf returns the remote of an address. It makes the remote if there is none.
func (g *guard) remoteOf(from *local, a netip.Addr) *remote {
	return g.remote(key{local: from.number, remote: a.As16()}, from)
}
