//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// Visit executes the new WQEs of one queue pair, within its budget, and returns how many
// WQEs it completed or advanced.
func (sh *Loop) Visit(q *object.QP) int {
	if sh.TimedUntil != 0 {
		sh.TimePoll()
	}
	sh.Enter(q)
	if q.Aside {
		if q.OnlyWire {
			return sh.VisitWire(q)
		}
		return sh.visitAside(q)
	}
	switch q.Attr.State {
	case control.StateRTS:
		if q.Stall.Kind != object.NoStall {
			return 0
		}
		if q.SQ.BlueFlame != nil && q.SkipRecord() {
			if n := sh.PollBlueFlameHalf(q, q.SQ.BlueFlame.Next); n > 0 || q.SQ.BlueFlame.Hot > 0 {
				return n
			}
		}
		n := sh.Pending(q)
		if q.Job != nil {
			// The WQE of the job was announced when the job began. So the WQE may be finished
			// even if the record now says that nothing is announced.
			n = max(n, uint16(q.Job.Blocks))
		} else if n == 0 {
			if q.SQ.BlueFlame != nil {
				return sh.PollBlueFlame(q)
			}
			return 0
		}
		sh.Started(q) // reads the clock while the cache line of the WQE is on its way
		if sh.Several {
			return sh.burstCrossing(q, n)
		}
		return sh.Burst(q, n)
	case control.StateSQD:
		if q.Job != nil { // in SQD, a WQE that was started is finished
			if sh.Several {
				return sh.burstCrossing(q, uint16(q.Job.Blocks))
			}
			return sh.Burst(q, uint16(q.Job.Blocks))
		}
	case control.StateERR, control.StateSQE:
		return sh.Flush(q, sh.Pending(q))
	}
	return 0
}

// burstCrossing is Burst for an engine of several shards. It postpones the queue if the queue needs
// the lock of another shard. A postponed queue uses up the budget of its client's turn.
func (sh *Loop) burstCrossing(q *object.QP, n uint16) (done int) {
	m := sh.ShardOfPeer(q)
	switch {
	case m != nil:
		sh.Postpone(q, m)
	case q.Aside:
		done = sh.burstWatched(q, n)
	default:
		done = sh.Burst(q, n)
	}
	if q.Postponed && done == 0 {
		sh.Crossed++
		done = 1
	}
	if q.Postponed {
		sh.Sched.Spent = sh.Settings.Slice
	}
	return done
}
