//go:build linux && (amd64 || arm64)

package engine

import (
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/internal/control"
)

// overrun ends a completion queue that has no room for a completion. Every QP that uses the
// queue goes to error with its next completion, or when sweep checks that QP.
func (sh *completer) overrun(q *cq) {
	if q.dead {
		return
	}
	q.dead = true
	why, advice := whyNoRoom(q), ""
	if why.code == codes.CQOverrun {
		advice = "; poll before posting more, or make the CQ larger"
	}
	sh.explainCQ(q, why.code, "CQ %#06x: no room for a completion in %d entries; %s. Its queue pairs go to error, with %d completions outstanding%s",
		q.num, 1<<q.log, why, q.unread(), advice)
	q.client.event(control.EventCQError, q.num)
	if q.channel != nil && !q.client.hosted.PlainChannels {
		sh.send(q, q.handle|control.ChannelOverrun)
	}
	own := q.client.shard
	own.sched.unswept, own.sched.swept = len(own.running), 0 // sweep checks each running QP once, which is enough: a QP that is added later cannot use q
}

// sweepPortion is how many queue pairs one step checks after a completion queue has
// overrun. The number is bounded because a client can have thousands of queue pairs on one
// completion queue.
const sweepPortion = 64

// sweep puts queue pairs whose completion queue has overrun into error, and returns how
// many queue pairs it has put there.
func (sh *queues) sweep() (done int) {
	for range min(sweepPortion, sh.sched.unswept) {
		if sh.sched.unswept--; sh.sched.swept == 0 || sh.sched.swept > len(sh.running) {
			sh.sched.swept = len(sh.running)
		}
		sh.sched.swept--
		if q := sh.running[sh.sched.swept]; q.attr.State != control.StateERR && (q.sq.cq.dead || q.rq.cq.dead) {
			sh.setError(q)
			done++
		}
	}
	return done
}
