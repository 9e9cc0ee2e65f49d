//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// Fire sends the event that the client has asked for, and disarms q.
func (sh *Completer) Fire(q *object.CQ) {
	q.Armed = false
	q.Told = q.Next
	sh.Unhold(q)
	sh.Send(q, q.Handle)
}

// Send sends a record that holds value to the channel of q. If the client lets its socket
// fill up, it loses the event, and the loss is explained to it. A client that has closed its
// end of the socket wants no events.
func (sh *Completer) Send(q *object.CQ, value uint64) {
	out := q.Channel.Out
	switch err := out.Send(object.Notice{Record: value, CQ: q}); {
	case err == nil:
		q.Client.Count[control.CounterEvents]++
	case !object.HungUp(err):
		sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: completion event not delivered: %v", q.Num, err)
	}
	if out.Lost.Load() != 0 {
		sh.ExplainCQ(q, codes.EventLost, "CQ %#06x: %d completion events of its channel were not delivered: the socket was full", q.Num, out.Lost.Swap(0))
	}
}
