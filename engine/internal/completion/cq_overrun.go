//go:build linux && (amd64 || arm64)

package completion

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/report"
	"github.com/nicless/nicless/internal/control"
)

// Overrun ends a completion queue that has no room for a completion, and tells the client. Every QP
// that uses the queue goes to error with its next completion, or when Sweep
// (execution/overrun_sweep.go) checks that QP.
func (sh *Completer) Overrun(q *object.CQ) {
	if q.Dead {
		return
	}
	q.Dead = true
	why, advice := report.WhyNoRoom(q), ""
	if why.Code == codes.CQOverrun {
		advice = "; poll before posting more, or make the CQ larger"
	}
	sh.ExplainCQ(q, why.Code, "CQ %#06x: no room for a completion in %d entries; %s. Its queue pairs go to error, with %d completions outstanding%s",
		q.Num, 1<<q.Log, why, q.Unread(), advice)
	q.Client.Event(control.EventCQError, q.Num)
	if q.Channel != nil && !q.Client.Hosted.PlainChannels {
		sh.Send(q, object.LateOverrun)
	}
	// From here on, Sweep checks each QP that is running now. A QP that is added later cannot use q.
	s := &q.Client.Shard.Sched
	s.Unswept, s.Swept = len(q.Client.Shard.Running), 0
}

// SweepPortion is how many queue pairs one step checks after a completion queue has
// overrun. The number is bounded because a client can have thousands of queue pairs on one
// completion queue.
const SweepPortion = 64
