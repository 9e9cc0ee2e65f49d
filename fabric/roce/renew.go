//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"time"

	"github.com/nicless/nicless/fabric/auth"
)

// Timers of handshakes and sessions: messages are sent again, keys are renewed, and unused sessions end.
// Messages that come are in handshake.go.

// look does what is due: messages that are sent again, attempts that end, sessions that are renewed.
func (h *handshakes) look(now time.Time) {
	defer func() { h.nextLook = now.Add(h.pause()) }()
	h.newSecond(now)
	for _, a := range h.numbers {
		h.lookAttempt(a, now)
	}
	if now.Sub(h.peersAt) >= lookPeers {
		h.peersAt = now
		h.g.party.Peers.Refresh()
	}
	changes := h.g.party.Peers.Changes()
	changed := changes != h.changes
	h.changes = changes
	all := now.Sub(h.lookedAt) >= lookRemotes || changed
	if all {
		h.lookedAt = now
	}
	h.g.mu.Lock()
	list := make([]*remote, 0, len(h.g.remotes))
	for _, r := range h.g.remotes {
		if all || r.demand.Load() {
			list = append(list, r)
		}
	}
	h.g.mu.Unlock()
	for _, r := range list {
		if changed {
			h.peersChanged(r, now)
		}
		if all {
			h.lookSession(r, now)
		}
		h.lookDemand(r, now)
	}
	tooMany, since := len(list) > mostRemotes, now.Sub(h.sweptAt)
	if since >= sweepEvery || (tooMany && since >= lookRemotes) {
		h.sweptAt = now
		h.sweep(now)
	}
}

// lookAttempt does what is due in an attempt.
func (h *handshakes) lookAttempt(a *attempt, now time.Time) {
	if s := a.session; s != nil && s.used.Load() {
		if v := auth.Verdict(s.verdict.Load()); v != auth.Accepted {
			h.refused(a, &auth.Refusal{Verdict: v, ByPeer: true, Key: s.Remote}, now)
			return
		}
		a.remote.p.attempt = nil
		delete(h.numbers, a.number)
		h.use(a.remote, s, now)
		return
	}
	switch {
	case now.Before(a.next):
	case !a.initiator:
		h.end(a)
	case a.resends == mostResends ||
		(a.resends == resendsPlain && !h.g.party.Required && !h.g.party.Peers.Covers(a.addr)):
		h.fail(a, "the peer does not answer handshakes: it has no key, or does not know this engine's address, or is not there", now)
		h.g.counts.failed.Add(1)
	default:
		a.resends++
		a.next = now.Add(firstResend << a.resends)
		h.send(a.from, a.addr, a.last)
	}
}

// lookDemand begins a handshake if packets are to be sent.
func (h *handshakes) lookDemand(r *remote, now time.Time) {
	if !r.demand.Load() || r.p.attempt != nil || r.send.Load() != nil || now.Before(r.p.again) {
		return
	}
	if peers := h.g.party.Peers; !peers.Trusts() && !peers.Covers(r.addr) {
		r.demand.Store(false)
		r.p.again = now.Add(againAfter)
		r.setReason("no line of the file of peers covers this address", now)
		return
	}
	h.begin(r, now)
}

// lookSession does what is due in the session of a remote.
func (h *handshakes) lookSession(r *remote, now time.Time) {
	p := &r.p
	h.lookPrevious(r, now)
	s := p.current
	if s == nil {
		return
	}
	sent, got := r.sent.Load(), r.got.Load()
	some := s.got.Load()
	if p.previous != nil {
		some += p.previous.got.Load()
	}
	sends, takes, hears := sent != p.sent, got != p.got, some != p.any
	p.sent, p.got, p.any = sent, got, some
	if sends {
		p.sentAt = now
	}
	if sends || takes {
		p.activeAt = now
	}
	switch {
	case hears:
		p.silent = time.Time{}
	case sends && p.silent.IsZero():
		p.silent = now
	}
	if takes && !sends && now.Sub(p.keepaliveAt) >= keepalive && now.Sub(p.sentAt) >= keepalive {
		p.keepaliveAt = now
		if b := word(s.Session, s.quiet, auth.Accepted); b != nil {
			h.send(r.from, r.addr, b)
		}
	}
	age := now.Sub(s.since)
	if age > mostAge || s.Sealed() >= auth.MostSealed-2*sendBatch {
		h.endSession(r, "the session was too old, and there was no new one", now)
		return
	}
	renew := (s.Initiator && age > renewAge) || age > renewAge2 || s.Sealed() > auth.MostSealed/2
	silent := !p.silent.IsZero() && now.Sub(p.silent) >= silence && now.Sub(p.sentAt) < silence
	due := silent || (renew && (sends || takes))
	if due && p.attempt == nil && !now.Before(p.again) {
		if silent {
			p.silent = now
		}
		h.begin(r, now)
	}
}

// lookPrevious ends the session before the present one when the other end does not use it any more.
//
// If both ends have begun at once, there are two sessions, and each end may have another present one. Then
// the end with the greater public key takes that in which the other end sends.
func (h *handshakes) lookPrevious(r *remote, now time.Time) {
	p := &r.p
	old := p.previous
	if old == nil {
		return
	}
	here, there := old.got.Load(), p.current.got.Load()
	came, comes := here != p.previousGot, there != p.currentGot
	p.previousGot, p.currentGot = here, there
	if came {
		p.previousAt = now
	}
	heard := uint64(0) // what has come in the present session before the other end sent in it
	if p.current.Initiator {
		heard = 1 // the verdict
	}
	own, other := h.g.party.Identity.Public(), p.current.Remote
	switch {
	case now.Sub(old.since) > mostAge+time.Minute || (now.Sub(p.previousAt) > oldSession && there > heard):
		h.close(old)
		p.previous = nil
	case came && !comes && old.Initiator != p.current.Initiator && bytes.Compare(own[:], other[:]) > 0:
		p.current, p.previous = old, p.current
		p.currentGot, p.previousGot = here, there
		r.send.Store(old)
	}
}

// endSession ends the sessions of a remote.
func (h *handshakes) endSession(r *remote, why string, now time.Time) {
	r.send.Store(nil)
	for _, s := range []*session{r.p.current, r.p.previous} {
		if s != nil {
			h.close(s)
		}
	}
	r.p.current, r.p.previous = nil, nil
	r.setReason(why, now)
}

// peersChanged ends a session whose key is not accepted any more, and finds out anew whether a remote may do
// without keys.
func (h *handshakes) peersChanged(r *remote, now time.Time) {
	r.p.again = time.Time{}
	peers := h.g.party.Peers
	if peers.Covers(r.addr) {
		r.plain.Store(false)
	}
	s := r.p.current
	if s == nil {
		return
	}
	if err := peers.Known(r.addr, s.Remote); err != nil {
		h.log.Warn("a session ends, because the file of peers has changed", "address", r.addr.String(), "reason", err.Error())
		h.endSession(r, err.Error(), now)
	}
}

// sweep removes remotes that have no paths and no packets any more. Each address that is forged, or
// that a program names, makes one, so it is done at once if there are too many.
func (h *handshakes) sweep(now time.Time) {
	g := h.g
	g.mu.Lock()
	g.sweeps++
	this := g.sweeps
	g.mu.Unlock()
	live := make(map[*remote]bool)
	g.c.paths.each(func(p *path) { live[p.peer] = true })
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, r := range g.remotes {
		if live[r] || r.seen >= this || r.p.attempt != nil || now.Sub(r.p.activeAt) < sweepAfter {
			continue
		}
		if r.p.current != nil && len(g.remotes) < mostRemotes {
			continue
		}
		h.endSession(r, "", now)
		delete(g.remotes, k)
	}
}
