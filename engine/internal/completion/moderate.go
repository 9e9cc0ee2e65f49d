//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/object"
)

// announce is called when an event of the armed queue q has become due. It sends the event, or lets
// the event wait if q has moderation.
func (sh *Completer) announce(q *object.CQ) {
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
	sh.Fire(q)
	return true
}

// ObserveHeld sends the event of q if one waits and moderation holds it back no longer. It returns 1
// if it has sent the event, otherwise 0.
func (sh *Completer) ObserveHeld(q *object.CQ) int {
	if q.Moderation == nil || !q.Armed || q.Moderation.Since == 0 || !sh.fireDue(q) {
		return 0
	}
	return 1
}
