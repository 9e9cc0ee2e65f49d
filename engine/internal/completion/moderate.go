//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/object"
)

// announce is called when an event of the armed queue q has become due. It sends the event, or lets
// the event wait if q has moderation.
func (sh *Completer) announce(q *object.CQ) {
	if q.Late != 0 {
		return // ObserveHeld tries it again, so that a completion costs no system call
	}
	if p := q.Moderation; p != nil && p.Since == 0 {
		p.Since = max(sh.Now(), 1)
		sh.Hold(q)
	}
	sh.fireDue(q)
}

// fireDue sends the event of q, and reports whether it has sent the event. With moderation, it sends
// an event that waits only when enough completions have come or the event has waited long enough.
// Without moderation, it sends the event at once.
func (sh *Completer) fireDue(q *object.CQ) bool {
	p := q.Moderation
	if p != nil && p.Since == 0 {
		return false // no event waits
	}
	if p != nil && q.Next-p.First < p.Count && sh.Now()-p.Since < p.Period {
		return false
	}
	return sh.Fire(q)
}

// ObserveHeld sends what waits of q, if moderation holds it back no longer and the socket has room. It
// returns how many events it has sent.
func (sh *Completer) ObserveHeld(q *object.CQ) (done int) {
	switch {
	case q.Late != 0:
		if q.Channel.Out.Room.Rests(sh.Now()) {
			return 0
		}
		if q.Late&object.LateCompletion != 0 && sh.Fire(q) {
			done++
		}
		if q.Late&object.LateOverrun != 0 && sh.Send(q, object.LateOverrun) {
			done++
			if q.Late == 0 {
				sh.Unhold(q)
			}
		}
	case q.Moderation != nil && q.Armed && q.Moderation.Since != 0 && sh.fireDue(q):
		done++
	}
	return done
}
