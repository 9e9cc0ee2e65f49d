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
	peers := h.g.party.Peers
	if now.Sub(h.peersReadAt) >= lookPeers {
		h.peersReadAt = now
		peers.Refresh()
	}
	version := peers.Changes()
	peersChanged := version != h.peersVersion
	h.peersVersion = version
	lookAtAll := peersChanged || now.Sub(h.allLookedAt) >= lookRemotes
	missed := max(now.Sub(h.allLookedAt)-2*lookRemotes, 0) // this end did not run
	if lookAtAll {
		h.allLookedAt = now
	}
	h.g.mu.Lock()
	due := make([]*remote, 0, len(h.g.remotes)) // all remotes, or those for which a session was requested
	for _, r := range h.g.remotes {
		if lookAtAll || r.sessionRequested.Load() {
			due = append(due, r)
		}
	}
	h.g.mu.Unlock()
	for _, r := range due {
		if peersChanged {
			h.applyPeers(r, now)
		}
		if lookAtAll {
			if !r.p.silentSince.IsZero() {
				r.p.silentSince = r.p.silentSince.Add(missed)
			}
			h.lookSession(r, now)
		}
		h.lookRequest(r, now)
	}
	every := sweepEvery
	if len(due) > mostRemotes {
		every = lookRemotes
	}
	if now.Sub(h.sweptAt) >= every {
		h.sweptAt = now
		h.sweep(now)
	}
}

// lookAttempt does what is due in an attempt.
//
// The initiating end opens a session when it sends message 3. When a datagram comes in this session, the
// attempt is over: it has failed if the datagram is a refusal. Otherwise the session becomes the current
// session of the remote.
func (h *handshakes) lookAttempt(a *attempt, now time.Time) {
	if s := a.session; s != nil && s.gotAny.Load() {
		if v := auth.Verdict(s.verdict.Load()); v != auth.Accepted {
			h.refused(a, &auth.Refusal{Verdict: v, ByPeer: true, Key: s.Remote}, now)
			return
		}
		a.remote.p.attempt = nil
		delete(h.attempts, a.number)
		h.use(a.remote, s, now)
		return
	}
	if now.Before(a.due) {
		return
	}
	if !a.initiator {
		h.end(a)
		return
	}
	// If packets are exchanged without keys after a failure, the handshake fails early.
	failsEarly := a.resends == resendsPlain && h.g.plainIfFailed(a.addr)
	if a.resends == mostResends || failsEarly {
		h.fail(a, "the peer does not answer handshakes: it has no key, or does not know this engine's address, or is not there", now)
		h.g.counts.failed.Add(1)
		return
	}
	a.resends++
	a.due = now.Add(firstResend << a.resends)
	h.send(a.from, a.addr, a.last)
}

// lookRequest begins a handshake with a remote if a session was requested, and there is neither a session nor
// a handshake.
func (h *handshakes) lookRequest(r *remote, now time.Time) {
	underWay := r.p.attempt != nil || r.send.Load() != nil
	if !r.sessionRequested.Load() || underWay || now.Before(r.p.nextAttempt) {
		return
	}
	if !h.g.mayHaveKey(r.addr) {
		r.sessionRequested.Store(false)
		r.p.nextAttempt = now.Add(againAfter)
		r.setReason("no line of the file of peers covers this address", now)
		return
	}
	h.begin(r, now)
}

// lookSession does what is due in the current session of a remote: it sends a keepalive, ends the session, or
// begins a handshake for the next session.
func (h *handshakes) lookSession(r *remote, now time.Time) {
	p := &r.p
	h.lookPrevious(r, now)
	s := p.current
	if s == nil {
		return
	}
	packetsSent, packetsGot, datagramsGot := r.sent.Load(), r.got.Load(), s.got.Load()
	if p.previous != nil {
		datagramsGot += p.previous.got.Load()
	}
	// Whether the counts have changed since the last look. Datagrams are packets and verdicts.
	sentPackets := packetsSent != p.lastPacketsSent
	gotPackets := packetsGot != p.lastPacketsGot
	gotDatagrams := datagramsGot != p.lastDatagramsGot
	p.lastPacketsSent, p.lastPacketsGot, p.lastDatagramsGot = packetsSent, packetsGot, datagramsGot
	if sentPackets {
		p.sentAt = now
	}
	if sentPackets || gotPackets {
		p.activeAt = now
	}
	switch {
	case gotDatagrams:
		p.silentSince = time.Time{}
	case sentPackets && p.silentSince.IsZero():
		p.silentSince = now
	}
	onlyReceives := gotPackets && now.Sub(p.sentAt) >= keepalive
	if onlyReceives && now.Sub(p.keepaliveAt) >= keepalive {
		p.keepaliveAt = now
		if b := sealVerdict(s.Session, s.guardSealer, auth.Accepted); b != nil {
			h.send(r.from, r.addr, b)
		}
	}
	age := now.Sub(s.since)
	if age > mostAge || s.Sealed() >= mostSealed {
		h.endSession(r, "the session was too old, and there was no new one", now)
		return
	}
	renewAge := renewAgeAnswering
	if s.Initiator {
		renewAge = renewAgeInitiating
	}
	isOld := age > renewAge || s.Sealed() > auth.MostSealed/2
	peerIsSilent := !p.silentSince.IsZero() && now.Sub(p.silentSince) >= mostSilence
	lost := peerIsSilent && now.Sub(p.sentAt) < mostSilence
	needsNext := lost || (isOld && (sentPackets || gotPackets))
	if needsNext && p.attempt == nil && !now.Before(p.nextAttempt) {
		if lost {
			p.silentSince = now
		}
		h.begin(r, now)
	}
}

// lookPrevious ends the previous session of a remote when the other end does not use it any more.
//
// If both ends begin a handshake at once, there are two sessions, and the ends may disagree about which is
// the current one. For example, two engines A and B make sessions 1 and 2 at once. A uses session 1 first and
// then session 2, so its current session is 2; at B it is the other way round, and its current session is 1.
// Then the end whose public key is greater makes its previous session the current one again, because the
// other end sends in it.
func (h *handshakes) lookPrevious(r *remote, now time.Time) {
	p := &r.p
	if p.previous == nil {
		return
	}
	previousGot, currentGot := p.previous.got.Load(), p.current.got.Load()
	peerSentInPrevious := previousGot != p.previousGot // since the last look
	peerSentInCurrent := currentGot != p.currentGot
	p.previousGot, p.currentGot = previousGot, currentGot
	if peerSentInPrevious {
		p.previousUsedAt = now
	}
	// The end that has begun the current session gets a verdict in it first. The other end may still send
	// packets in the previous session then.
	verdicts := uint64(0)
	if p.current.Initiator {
		verdicts = 1
	}
	peerUsesCurrent := currentGot > verdicts
	tooOld := now.Sub(p.previous.since) > mostAge+time.Minute
	unused := peerUsesCurrent && now.Sub(p.previousUsedAt) > oldSession
	bothBegan := p.previous.Initiator != p.current.Initiator // each end has begun one of the two sessions
	own, other := h.g.party.Identity.Public(), p.current.Remote
	ownIsGreater := bytes.Compare(own[:], other[:]) > 0
	switch {
	case tooOld || unused:
		h.close(p.previous)
		p.previous = nil
	case bothBegan && ownIsGreater && peerSentInPrevious && !peerSentInCurrent:
		p.current, p.previous = p.previous, p.current
		p.currentGot, p.previousGot = previousGot, currentGot
		r.send.Store(p.current)
	}
}

// endSession ends the current and the previous session of a remote. why is the reason, for reports.
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

// applyPeers applies a change of the file of peers to a remote: it ends the sessions if the key of the
// remote is not accepted any more. If a line covers the address now, packets without keys are not exchanged
// any more.
func (h *handshakes) applyPeers(r *remote, now time.Time) {
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
// that a program names, makes a remote. So if there are too many remotes, look sweeps more often than
// every sweepEvery.
func (h *handshakes) sweep(now time.Time) {
	g := h.g
	g.mu.Lock()
	g.sweeps++
	sweep := g.sweeps
	g.mu.Unlock()
	live := make(map[*remote]bool)
	g.c.paths.each(func(p *path) { live[p.peer] = true })
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, r := range g.remotes {
		isNew := r.usedAfterSweep >= sweep // its path may have been made after the loop over paths above
		if live[r] || isNew || r.p.attempt != nil || now.Sub(r.p.activeAt) < sweepAfter {
			continue
		}
		hasSession := r.p.current != nil
		if hasSession && len(g.remotes) < mostRemotes {
			continue
		}
		h.endSession(r, "", now)
		delete(g.remotes, k)
	}
}
