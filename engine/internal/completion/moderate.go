//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/object"
)

// announce sends the event of an armed queue that has become due, or lets it wait.
func (sh *Completer) announce(q *object.CQ) {
	if p := q.Moderation; p != nil && p.Since == 0 {
		p.Since = max(sh.Now(), 1)
		sh.Hold(q)
	}
	sh.fireDue(q)
}

// fireDue sends the event of q that waits, if it has waited long enough, and reports whether it
// sent one. If q has no moderation, it sends the event at once.
func (sh *Completer) fireDue(q *object.CQ) bool {
	if p := q.Moderation; p != nil &&
		(p.Since == 0 || q.Next-p.First < p.Count && sh.Now()-p.Since < p.Period) {
		return false
	}
	sh.Fire(q)
	return true
}

// ObserveHeld sends the event of q that waits, if there is one and it has waited long enough. It
// returns 1 if it sent one, otherwise 0.
func (sh *Completer) ObserveHeld(q *object.CQ) int {
	if q.Moderation == nil || !q.Armed || q.Moderation.Since == 0 || !sh.fireDue(q) {
		return 0
	}
	return 1
}
