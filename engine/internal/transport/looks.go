//go:build linux && (amd64 || arm64)

package transport

import "github.com/nicless/nicless/engine/internal/object"

// Silence of a peer counts only while this end has run: see recovery.Absence.

// excuses reports whether the answer may have come although it was not taken: then q's timer runs again. It
// is called when q's timer has run out, because the peer is to be probed or the time of q's attribute timeout
// has passed. Where hosts shared too few processors, a quarter of all packets were probes for nothing, which
// take the processor from those that would answer.
func (sh *wires) excuses(q *object.QP) bool {
	w, now := q.Wire, sh.Now()
	s, p, a := w.Recovery, w.Port, &w.Absence
	if !p.Up {
		return false
	}
	probes := s != nil && now < s.Due
	var since, again uint64
	if probes {
		since, again = a.AwaitProbe(now, w.Losses.RoundTrip.Silence())
		again = min(again, s.Due)
	} else {
		since, again = a.Await(now, w.Patience)
	}
	if again != 0 && (!sh.looked(p, since) || w.Resuming) {
		sh.Timers.Arm(&w.Timer, now, again)
		return true
	}
	if probes {
		a.Probed()
		return false
	}
	if back := a.Back(w.Patience); s != nil && back != 0 {
		s.Due = now + back // until then the peer is probed
	}
	return false
}

// looked reports whether a look of p is complete that began at the time since or later. If not, it begins
// one, or goes on with the one that is under way.
func (sh *wires) looked(p *object.Port, since uint64) bool {
	k, ring := &p.Looks, p.Settings.Receive
	for k.Complete < since {
		k.Begin(sh.Now())
		if p.Settings.Look == nil || p.Settings.Look(k.Number) {
			k.Emptied(ring.Received(), ring.Slots())
		}
		if !k.Sees(ring.Received(), !ring.Ready()) {
			return false
		}
	}
	return true
}
