//go:build linux && (amd64 || arm64)

package roce

import (
	"bytes"
	"time"

	"github.com/nicless/nicless/fabric/auth"
)

// This file has the work that time brings: messages are sent again, keys are renewed, and unused sessions
// end. handshake.go and handshake_answer.go have the work that messages bring.

// look does what is due: it sends messages again, ends attempts, and renews and ends sessions.
func (h *handshakes) look(now time.Time) {
	defer func() { h.nextLook = now.Add(h.pause()) }()
	h.newSecond(now)
	for _, a := range h.attempts {
		h.lookAttempt(a, now)
	}
	if now.Sub(h.peersReadAt) >= lookPeers {
		h.peersReadAt = now
		h.g.party.Peers.Refresh()
	}
	changes := h.g.party.Peers.Changes()
	changed := changes != h.peersChanges
	h.peersChanges = changes
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

// lookAttempt does what is due in an attempt. At the initiating end, the attempt is over when something has
// come in its session: then the session is used, unless what has come is a refusal.
func (h *handshakes) lookAttempt(a *attempt, now time.Time) {
	if s := a.session; s != nil && s.used.Load() {
		if v := auth.Verdict(s.verdict.Load()); v != auth.Accepted {
			h.refused(a, &auth.Refusal{Verdict: v, ByPeer: true, Key: s.Remote}, now)
			return
		}
		a.remote.p.attempt = nil
		delete(h.attempts, a.number)
		h.use(a.remote, s, now)
		return
	}
	switch {
	case now.Before(a.due):
	case !a.initiator:
		h.end(a)
	case a.resends == mostResends || (a.resends == resendsPlain && h.g.plainFollows(a.addr)):
		h.fail(a, "the peer does not answer handshakes: it has no key, or does not know this engine's address, or is not there", now)
		h.g.counts.failed.Add(1)
	default:
		a.resends++
		a.due = now.Add(firstResend << a.resends)
		h.send(a.from, a.addr, a.last)
	}
}

// lookDemand begins a handshake if packets are to be sent.
func (h *handshakes) lookDemand(r *remote, now time.Time) {
	if !r.demand.Load() || r.p.attempt != nil || r.send.Load() != nil || now.Before(r.p.nextAttempt) {
		return
	}
	if peers := h.g.party.Peers; !peers.Trusts() && !peers.Covers(r.addr) {
		r.demand.Store(false)
		r.p.nextAttempt = now.Add(againAfter)
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
	sent, got, arrived := r.sent.Load(), r.got.Load(), s.got.Load()
	if p.previous != nil {
		arrived += p.previous.got.Load()
	}
	// Since the last look: packets were sent, packets were received, any datagrams of the sessions have come.
	sends, takes, arrives := sent != p.lastSent, got != p.lastGot, arrived != p.lastArrived
	p.lastSent, p.lastGot, p.lastArrived = sent, got, arrived
	if sends {
		p.sentAt = now
	}
	if sends || takes {
		p.activeAt = now
	}
	switch {
	case arrives:
		p.silentSince = time.Time{}
	case sends && p.silentSince.IsZero():
		p.silentSince = now
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
	silent := !p.silentSince.IsZero() && now.Sub(p.silentSince) >= silence && now.Sub(p.sentAt) < silence
	due := silent || (renew && (sends || takes))
	if due && p.attempt == nil && !now.Before(p.nextAttempt) {
		if silent {
			p.silentSince = now
		}
		h.begin(r, now)
	}
}

// lookPrevious ends the previous session of a remote when the other end does not use it any more.
//
// If both ends have begun a handshake at once, there are two sessions, and the current session of one end may
// be the previous session of the other. Then the end with the greater public key changes its current session:
// it takes the one in which the other end sends.
func (h *handshakes) lookPrevious(r *remote, now time.Time) {
	p := &r.p
	old := p.previous
	if old == nil {
		return
	}
	previousGot, currentGot := old.got.Load(), p.current.got.Load()
	inPrevious, inCurrent := previousGot != p.previousGot, currentGot != p.currentGot // since the last look
	p.previousGot, p.currentGot = previousGot, currentGot
	if inPrevious {
		p.previousUsedAt = now
	}
	verdicts := uint64(0) // datagrams of the current session that do not show that the other end uses it
	if p.current.Initiator {
		verdicts = 1
	}
	own, other := h.g.party.Identity.Public(), p.current.Remote
	tooOld := now.Sub(old.since) > mostAge+time.Minute
	unused := now.Sub(p.previousUsedAt) > oldSession && currentGot > verdicts
	bothBegan := old.Initiator != p.current.Initiator
	switch {
	case tooOld || unused:
		h.close(old)
		p.previous = nil
	case inPrevious && !inCurrent && bothBegan && bytes.Compare(own[:], other[:]) > 0:
		p.current, p.previous = old, p.current
		p.currentGot, p.previousGot = previousGot, currentGot
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

// peersChanged applies a change of the file of peers to a remote: it ends a session whose key is not accepted
// any more. If a line covers the address now, the remote needs keys.
func (h *handshakes) peersChanged(r *remote, now time.Time) {
	r.p.nextAttempt = time.Time{}
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

// sweep removes remotes that have no paths and no packets any more. Each forged address, and each address
// that a program names, makes a remote, so a sweep does not wait for sweepEvery if there are too many
// remotes.
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
