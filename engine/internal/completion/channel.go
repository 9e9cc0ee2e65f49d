//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// Fire sends the event that the client has asked for, and disarms q. An event of q waits no longer. If the
// socket of the channel is full, q stays armed, and its event waits for room. Fire reports whether the event
// was sent.
func (sh *Completer) Fire(q *object.CQ) bool {
	if !sh.Send(q, object.LateCompletion) {
		return false
	}
	q.Armed = false
	q.Notified = q.Next
	if q.Moderation != nil {
		q.Moderation.Since = 0
	}
	if q.Late == 0 {
		sh.Unhold(q)
	}
	return true
}

// Send sends an event of q to its channel. It returns false if the event waits for room in the client's
// socket. Events of other queues that wait already come first. A client that has closed its end of the
// socket wants no events. If an event is lost for any other reason, the device explains the loss.
func (sh *Completer) Send(q *object.CQ, which object.Late) bool {
	out, ch, first := q.Channel.Out, q.Channel, q.Late != 0
	if now := sh.Now(); out.Room.Rests(now) || ch.Late > 0 && !first {
		sh.HoldLate(q, which)
		return false
	}
	value := q.Handle
	if which == object.LateOverrun {
		value |= control.ChannelOverrun
	}
	err := out.Send(object.Notice{Record: value, CQ: q})
	if full, unread := out.Room.After(err, sh.Now()); full {
		if unread {
			sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: its event waits: the socket of its channel is full, with events that nobody reads", q.Num)
		}
		sh.HoldLate(q, which)
		return false
	}
	q.Late &^= which
	if first && q.Late == 0 {
		ch.Late--
	}
	switch {
	case err == nil:
		q.Client.Count[control.CounterEvents]++
	case !eventsocket.HungUp(err):
		sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: event not delivered: %v", q.Num, err)
	}
	if out.Lost.Load() != 0 {
		sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: %d events of its channel were not delivered", q.Num, out.Lost.Swap(0))
	}
	return true
}

// HoldLate notes that an event of q waits for room. A queue whose arm word is gone raises no more events.
func (sh *Completer) HoldLate(q *object.CQ, which object.Late) {
	if !q.Client.Arms.Has(q) {
		return
	}
	if q.Late == 0 {
		q.Channel.Late++
	}
	q.Late |= which
	sh.Hold(q)
}

// Hold puts q on its client's list Held of CQs with an event that waits, unless it is on it. CanArm has made
// room on the list.
func (sh *Completer) Hold(q *object.CQ) {
	a := &q.Client.Arms
	if q.HeldIndex != 0 {
		return
	}
	a.Held = append(a.Held, q)
	q.HeldIndex = len(a.Held)
	q.Client.Shard.Arm.Held++
}

// Unhold notes that no event of q waits, and takes q off the list Held. The last CQ of the list is
// moved to the place of q.
func (sh *Completer) Unhold(q *object.CQ) {
	if q.Moderation != nil {
		q.Moderation.Since = 0
	}
	if q.Late != 0 {
		q.Channel.Late--
		q.Late = 0
	}
	if q.HeldIndex == 0 {
		return
	}
	a, at := &q.Client.Arms, q.HeldIndex-1
	last := len(a.Held) - 1
	a.Held[at] = a.Held[last]
	a.Held[at].HeldIndex = at + 1
	a.Held[last], a.Held = nil, a.Held[:last]
	q.HeldIndex = 0
	q.Client.Shard.Arm.Held--
}
