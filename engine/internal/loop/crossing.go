//go:build linux && (amd64 || arm64)

package loop

import (
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/object"
)

// visitPostponed visits the postponed queues, and returns how much there was to do. If another thread holds
// the lock of the peer's shard, the queue is left for the next step. After CrossPatience, visitPostponed
// waits for the lock. If urgent is true, this shard has nothing else to do, and visitPostponed waits for
// locks at once.
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

// visitCrossing visits a queue under the lock of its peer's shard, or tries a stalled queue. It returns how
// much there was to do.
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

// returnReceives gives receives back to the shared receive queues of other shards, from which this shard took
// them and did not use them. It returns how many it has given back.
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

// crossesShards reports whether a queue of this shard may be waiting for a peer in another shard. If so, this
// shard must not rely on being woken, because the peer's client wakes only the other shard.
func (sh *Loop) crossesShards() bool {
	if sh.Stalled > object.CrossLook {
		return true // there are too many stalled queues to look at each
	}
	for _, c := range sh.Stallers.Clients {
		for _, q := range c.Sched.Stalled {
			if execution.WaitsForPeer(q) && sh.ShardOfPeer(q) != nil {
				return true
			}
		}
	}
	return false
}
