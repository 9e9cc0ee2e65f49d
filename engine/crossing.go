//go:build linux && (amd64 || arm64)

package engine

import (
	"time"

	"github.com/nicless/nicless/engine/internal/ticketlock"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
)

// Several shards share the device. The objects of a client may be touched only under the
// ticket lock of its shard. The shard's thread holds this lock during each step. A work
// request whose peer belongs to another shard is a crossing: it also needs the other
// shard's ticket lock. The queue of a crossing is postponed to the end of the step, and is
// then visited with both locks held.
//
// The tables of the device are read by all shards. Only control requests change them, and
// control requests are served while all ticket locks are held. A work request that changes
// a key is executed under the lock of the shard to which the key's client belongs.
//
// A thread that holds a ticket lock does not wait for the lock of a shard with a lower
// number. So threads cannot deadlock.

// The type crossing holds those fields of a shard that serve crossings.
type crossing struct {
	ticket      ticketlock.Lock
	acquired    bool   // this shard's thread holds ticket
	peerShard   *shard // the other shard whose ticket lock this thread holds as well, or nil
	gotWork     bool   // another shard has made a queue of this shard warm
	postponed   []*qp  // queues to be visited at the end of this step
	crossed     int    // how many queues were postponed in this step because they have work
	visiting    []*qp  // postponed queues that are being visited now; nil entries are done or removed
	owed        []owedReceive
	deniedSince uint64      // device clock when this shard first found the other lock taken; 0: it was free
	refuse      func() bool // for tests: true if the other shard's lock is to seem taken
}

// An owedReceive is a receive of a shared receive queue whose client belongs to another
// shard. A transfer has taken the receive and not used it, and this shard still has to put
// it back.
type owedReceive struct {
	srq   *srq
	index uint16
}

// crossPatience is how long a shard continues with its own work while it finds the other
// shard's lock taken. After that time the shard waits for the lock. crossPause is the time
// between two tries of a queue that waits for a peer in another shard; each try delays the
// other shard. crossVisits is how many queues are visited before the other shard's lock is
// released for a moment.
const (
	crossPatience = 5 * time.Microsecond
	crossPause    = 2 * time.Microsecond
	crossVisits   = 4
)

// tryLock takes the ticket lock of the shard if it is free.
func (sh *shard) tryLock() bool { return sh.ticket.TryLock() }

// acquire takes this shard's ticket lock before the shard works, and release gives the lock
// back. In an engine with one shard both do nothing.
func (sh *reporter) acquire() {
	if sh.several {
		if !sh.tryLock() {
			now := clock.Now()
			sh.busy.Publish(0)
			sh.ticket.Lock()
			sh.passedAt(now)
			sh.restart() // the thread waited for the lock, not for memory of its clients
		}
		sh.acquired, sh.crossed = true, 0
	}
}

func (sh *shard) release() {
	if sh.several {
		sh.acquired = false
		sh.ticket.Unlock()
	}
}

// holds reports whether this shard may touch the objects of m's clients.
func (sh *shard) holds(m *shard) bool { return m == sh || m == sh.peerShard || sh.stopped }

// shardOfPeer returns the shard whose lock is needed for the peer of q and not held yet. It
// returns nil if no further lock is needed, or if no peer is known. The peer of a datagram,
// or of a WQE of a DCI, is not known before the WQE has been judged.
func (sh *queues) shardOfPeer(q *qp) *shard {
	p := q.conn.peer
	switch {
	case q.transport == control.QPTypeUD:
		if q.job == nil {
			return nil
		}
		p = q.job.peer
	case q.transport == control.QPTypeDCI:
		p = sh.targetOf(q)
	case p == nil || p.dead:
		p = sh.boundPeer(q)
	}
	if p == nil || sh.holds(p.client.shard) {
		return nil
	}
	return p.client.shard
}

// burstCrossing is burst for an engine of several shards. It postpones the queue if the
// queue needs the lock of another shard. A postponed queue is charged its whole budget in
// advance.
func (sh *threadLoop) burstCrossing(q *qp, n uint16) (done int) {
	if m := sh.shardOfPeer(q); m != nil {
		sh.postpone(q, m)
	} else {
		done = sh.burst(q, n)
	}
	if q.postponed && done == 0 {
		sh.crossed++
		done = 1
	}
	if q.postponed {
		sh.sched.spent = sh.cfg.slice
	}
	return done
}

// postpone postpones the visit of q to the end of the step. The visit is then made under
// the lock of m too.
func (sh *shard) postpone(q *qp, m *shard) {
	q.sched.with = m
	if !q.postponed {
		q.postponed = true
		sh.postponed = append(sh.postponed, q)
	}
}

// visitPostponed visits the postponed queues, and returns how much there was to do. If the
// lock of the peer's shard is taken, the queue is left for the next step, until
// crossPatience has passed; then visitPostponed waits for the lock. If urgent is true, this
// shard has nothing else to do, and visitPostponed waits at once.
func (sh *threadLoop) visitPostponed(urgent bool) (done int) {
	if len(sh.owed) > 0 {
		done += sh.returnReceives(urgent)
	}
	if len(sh.postponed) == 0 {
		return done
	}
	sh.postponed, sh.visiting = sh.visiting[:0], sh.postponed
	visits := 0
	for i, q := range sh.visiting {
		if q == nil {
			continue // the queue's client has moved to another shard
		}
		if visits == crossVisits || sh.peerShard != q.sched.with {
			sh.unlockPeerShard()
			visits = 0
		}
		if !sh.lockPeerShard(q.sched.with, urgent) {
			sh.postponed, sh.visiting[i] = append(sh.postponed, q), nil
			continue
		}
		if q = sh.visiting[i]; q == nil {
			continue // the queue's client has moved while this shard waited for the lock
		}
		sh.visiting[i], q.postponed = nil, false
		visits++
		done += sh.visitCrossing(q)
	}
	sh.visiting = sh.visiting[:0]
	sh.unlockPeerShard()
	return done
}

// visitCrossing visits a queue under the lock of its peer's shard.
func (sh *threadLoop) visitCrossing(q *qp) (done int) {
	switch {
	case !sh.isRunning(q):
	case q.stall.kind == noStall:
		if done = sh.visit(q); done > 0 {
			sh.visited(q)
		}
	case sh.try(q):
		done = 1
	}
	sh.fault.qp = nil
	return done
}

// lockPeerShard takes the ticket lock of m in addition to that of sh, and reports whether
// this shard holds the lock of m now. lockPeerShard waits for the lock only if urgent is true
// or crossPatience has passed.
func (sh *reporter) lockPeerShard(m *shard, urgent bool) bool {
	switch {
	case sh.holds(m):
		return true
	case sh.refuse != nil && sh.refuse():
	case m.tryLock():
		sh.peerShard, sh.deniedSince = m, 0
		return true
	}
	if !urgent {
		if sh.deniedSince == 0 {
			sh.deniedSince = sh.clock()
		}
		if sh.clock()-sh.deniedSince < clock.Cycles(crossPatience) {
			return false
		}
	}
	sh.passed()
	if m.number < sh.number {
		sh.acquired = false
		sh.ticket.Unlock() // locks are waited for in ascending order only
		m.ticket.Lock()
		sh.ticket.Lock()
		sh.acquired = true
	} else {
		m.ticket.Lock()
	}
	sh.restart()
	sh.peerShard, sh.deniedSince = m, 0
	return true
}

// unlockPeerShard unlocks the other shard, if this shard holds its lock. It wakes the other
// shard if that shard has or may have new work. A shard with stalled queues may have new
// work because a WAIT of one of them may wait for a completion that was written under the
// lock.
func (sh *reporter) unlockPeerShard() {
	m := sh.peerShard
	if m == nil {
		return
	}
	sh.peerShard = nil
	if m.gotWork || m.stalled > 0 {
		m.gotWork = false
		m.wake()
	}
	m.ticket.Unlock()
}

// wake wakes the shard's thread if it sleeps.
func (sh *shard) wake() {
	if sh.asleep.Load() {
		if s := sh.sleeper.Load(); s != nil {
			s.Wake()
		}
	}
}

// returnReceives puts back shared receives of clients of other shards.
func (sh *threadLoop) returnReceives(urgent bool) (done int) {
	owed := sh.owed
	sh.owed = nil
	for _, d := range owed {
		if !sh.lockPeerShard(d.srq.client.shard, urgent) {
			sh.owed = append(sh.owed, d)
			continue
		}
		d.srq.putBack(d.index)
		sh.unlockPeerShard()
		done++
	}
	return done
}

// releaseAfterFault releases the locks of a step that a fault of memory has ended. The
// postponed queues that the step has not visited are visited in the next step.
func (sh *threadLoop) releaseAfterFault() {
	if !sh.acquired {
		return
	}
	for _, q := range sh.visiting {
		if q != nil {
			sh.postponed = append(sh.postponed, q)
		}
	}
	sh.visiting = sh.visiting[:0]
	sh.unlockPeerShard()
	sh.release()
}

// pause takes the ticket locks of all shards, so that no shard works while a control
// request is served.
func (e *device) pause() {
	if len(e.shards) > 1 {
		for _, sh := range e.shards {
			sh.ticket.Lock()
		}
	}
	e.stopped = true
	e.served++
}

// unpause gives the ticket locks back.
func (e *device) unpause() {
	e.stopped = false
	if len(e.shards) > 1 {
		for _, sh := range e.shards {
			sh.ticket.Unlock()
			sh.wake() // the request may have made work for it
		}
	}
}

// crossLook is among how many stalled queues crossesShards searches. With more, it returns true.
const crossLook = 256

// crossesShards reports whether a queue of this shard waits for a peer in another shard.
// Then this shard must not rely on being woken, because the peer's client wakes the other
// shard only.
func (sh *threadLoop) crossesShards() bool {
	if sh.stalled > crossLook {
		return true // perhaps
	}
	for _, c := range sh.stallers.clients {
		for _, q := range c.sched.stalled {
			if q.stall.kind != behindCQ && sh.shardOfPeer(q) != nil {
				return true
			}
		}
	}
	return false
}
