//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/object"
)

// visitPostponed visits the postponed queues, and returns how much there was to do. If the
// lock of the peer's shard is taken, the queue is left for the next step, until
// CrossPatience has passed; then visitPostponed waits for the lock. If urgent is true, this
// shard has nothing else to do, and visitPostponed waits at once.
func (sh *Loop) visitPostponed(urgent bool) (done int) {
	if len(sh.DueReceives) > 0 {
		done += sh.returnReceives(urgent)
	}
	if len(sh.Postponed) == 0 {
		return done
	}
	sh.Postponed, sh.Visiting = sh.Visiting[:0], sh.Postponed
	visits := 0
	for i, q := range sh.Visiting {
		if q == nil {
			continue // the queue's client has moved to another shard
		}
		if visits == object.CrossVisits || sh.PeerShard != q.Sched.With {
			sh.UnlockPeerShard()
			visits = 0
		}
		if !sh.LockPeerShard(q.Sched.With, urgent) {
			sh.Postponed, sh.Visiting[i] = append(sh.Postponed, q), nil
			continue
		}
		if q = sh.Visiting[i]; q == nil {
			continue // the queue's client has moved while this shard waited for the lock
		}
		sh.Visiting[i], q.Postponed = nil, false
		visits++
		done += sh.visitCrossing(q)
	}
	sh.Visiting = sh.Visiting[:0]
	sh.UnlockPeerShard()
	return done
}

// visitCrossing visits a queue under the lock of its peer's shard.
func (sh *Loop) visitCrossing(q *object.QP) (done int) {
	switch {
	case !sh.IsRunning(q):
	case q.Stall.Kind == object.NoStall:
		if done = sh.Visit(q); done > 0 {
			sh.Visited(q)
		}
	case sh.Try(q):
		done = 1
	}
	sh.Fault.QP = nil
	return done
}

// returnReceives puts back shared receives of clients of other shards.
func (sh *Loop) returnReceives(urgent bool) (done int) {
	owed := sh.DueReceives
	sh.DueReceives = nil
	for _, d := range owed {
		if !sh.LockPeerShard(d.SRQ.Client.Shard, urgent) {
			sh.DueReceives = append(sh.DueReceives, d)
			continue
		}
		d.SRQ.Return(d.Index)
		sh.UnlockPeerShard()
		done++
	}
	return done
}

// releaseAfterFault releases the locks of a step that a fault of memory has ended. The
// postponed queues that the step has not visited are visited in the next step.
func (sh *Loop) releaseAfterFault() {
	if !sh.Acquired {
		return
	}
	for _, q := range sh.Visiting {
		if q != nil {
			sh.Postponed = append(sh.Postponed, q)
		}
	}
	sh.Visiting = sh.Visiting[:0]
	sh.UnlockPeerShard()
	sh.Release()
}

// crossesShards reports whether a queue of this shard waits for a peer in another shard.
// Then this shard must not rely on being woken, because the peer's client wakes the other
// shard only.
func (sh *Loop) crossesShards() bool {
	if sh.Stalled > object.CrossLook {
		return true // perhaps
	}
	for _, c := range sh.Stallers.Clients {
		for _, q := range c.Sched.Stalled {
			if q.Stall.Kind != object.BehindCQ && sh.ShardOfPeer(q) != nil {
				return true
			}
		}
	}
	return false
}
