//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// Fire sends the event that the client has asked for, and disarms q. An event of q waits no longer.
func (sh *Completer) Fire(q *object.CQ) {
	q.Armed = false
	q.Notified = q.Next
	sh.Unhold(q)
	sh.Send(q, q.Handle)
}

// Send sends a record that holds value to the channel of q. If the socket of the client is full,
// the client loses the event, and the device explains the loss to the client. A client that has
// closed its end of the socket wants no events, so nothing is explained to this client.
func (sh *Completer) Send(q *object.CQ, value uint64) {
	out := q.Channel.Out
	err := out.Send(object.Notice{Record: value, CQ: q})
	switch {
	case err == nil:
		q.Client.Count[control.CounterEvents]++
	case !object.HungUp(err):
		sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: completion event not delivered: %v", q.Num, err)
	}
	if out.Lost.Load() != 0 {
		sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: %d completion events of its channel were not delivered: the socket was full", q.Num, out.Lost.Swap(0))
	}
}

// Hold puts q on its client's list Held of CQs with an event that waits.
func (sh *Completer) Hold(q *object.CQ) {
	a := &q.Client.Arms
	a.Held = append(a.Held, q)
	q.Moderation.HeldIndex = len(a.Held)
	q.Client.Shard.Arm.Held++
}

// Unhold notes that no event of q waits, and takes q off the list Held. The last CQ of the list is
// moved to the place of q.
func (sh *Completer) Unhold(q *object.CQ) {
	if q.Moderation == nil || q.Moderation.Since == 0 {
		return
	}
	a, at := &q.Client.Arms, q.Moderation.HeldIndex-1
	last := len(a.Held) - 1
	a.Held[at] = a.Held[last]
	a.Held[at].Moderation.HeldIndex = at + 1
	a.Held[last], a.Held = nil, a.Held[:last]
	q.Moderation.HeldIndex, q.Moderation.Since = 0, 0
	q.Client.Shard.Arm.Held--
}
