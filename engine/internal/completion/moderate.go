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

// Hold puts q on the list of CQs with an event that waits.
func (sh *Completer) Hold(q *object.CQ) {
	a := &q.Client.Arms
	a.Held = append(a.Held, q)
	q.Moderation.At = len(a.Held)
	q.Client.Shard.Arm.Held++
}

// Unhold notes that no event of q waits, and takes q off the list.
func (sh *Completer) Unhold(q *object.CQ) {
	if q.Moderation == nil || q.Moderation.Since == 0 {
		return
	}
	a, at := &q.Client.Arms, q.Moderation.At-1
	last := len(a.Held) - 1
	a.Held[at] = a.Held[last]
	a.Held[at].Moderation.At = at + 1
	a.Held[last], a.Held = nil, a.Held[:last]
	q.Moderation.At, q.Moderation.Since = 0, 0
	q.Client.Shard.Arm.Held--
}

// fireDue sends the event of q that waits, if it has waited long enough, and reports whether it
// sent one. If q has no moderation, it sends the event at once.
func (sh *Completer) fireDue(q *object.CQ) bool {
	if p := q.Moderation; p != nil && (p.Since == 0 || q.Next-p.First < p.Count && sh.Now()-p.Since < p.Period) {
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
