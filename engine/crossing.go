package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
)

// Several shards share the device. Who holds the ticket lock of a shard may touch what
// belongs to its clients; a shard holds its own while it works. For a work request
// whose peer belongs to another shard it needs that one's too: the queue is put off
// to the end of the step, and then visited with both held.
//
// The tables of the device are read by all shards, and changed by requests only,
// which are served while all ticket locks are held. What a work request changes of a
// key, it changes with that of the client whose key it is.
//
// No thread waits for a shard of a lower number while it holds one, so no circle of
// waiting shards can form.

// A crossing is what a shard has to do with others.
type crossing struct {
	mine        ticketLock
	inside      bool   // this shard's thread holds mine
	peerShard   *shard // whose ticket lock it holds as well, or nil
	gotWork     bool   // another shard has brought work
	postponed   []*qp  // put off to the end of this step
	crossed     int    // how many of them were, for their work
	visiting    []*qp  // put off in the step before, being visited
	owed        []owedReceive
	deniedSince uint64      // device clock when the other shard was found at work; 0: it was not
	refuse      func() bool // tests: the other shard is at work
}

// An owedReceive is a shared receive that was taken for nothing from a client of another
// shard.
type owedReceive struct {
	srq   *srq
	index uint16
}

// crossPatience is how long a shard goes on with its own work because the other one
// is at work whenever it looks; then it waits. crossPause is between two looks at
// a queue that waits for a peer in another shard, each of which costs that shard.
// crossVisits is how many queues are visited before the other shard may go on.
const (
	crossPatience = 5 * time.Microsecond
	crossPause    = 2 * time.Microsecond
	crossVisits   = 4
)

// checkCores says what is wrong with the cores that the shards are to run on.
func (c *Config) checkCores() error {
	if c.CPUs != nil && c.Cores != nil {
		return fmt.Errorf("%w: CPUs %v and Cores %v; CPUs is for an engine of one thread", ErrCPUs, c.CPUs, c.Cores)
	}
	if c.DMACores != nil && len(c.Cores) > 1 {
		return fmt.Errorf("%w: Cores %v and DMACores %v; DMA cores help one thread only", ErrCPUs, c.Cores, c.DMACores)
	}
	for i, core := range c.Cores {
		if slices.Contains(c.Cores[:i], core) {
			return fmt.Errorf("%w: core %d is named twice in %v; each gets one thread", ErrCPUs, core, c.Cores)
		}
	}
	if c.Cores != nil && len(c.Cores) == 0 {
		return fmt.Errorf("%w: Cores is empty; at least one is needed", ErrCPUs)
	}
	return nil
}

// begin and end bracket the work of a shard.
func (sh *shard) begin() {
	if sh.several {
		if !sh.mine.tryLock() {
			now := clock.Now()
			sh.busy.Publish(0)
			sh.mine.lock()
			sh.passedAt(now)
			sh.restart() // how long that took is no matter of this shard's
		}
		sh.inside, sh.crossed = true, 0
	}
}

func (sh *shard) end() {
	if sh.several {
		sh.inside = false
		sh.mine.unlock()
	}
}

// holds reports whether this shard may touch what belongs to clients of m.
func (sh *shard) holds(m *shard) bool { return m == sh || m == sh.peerShard || sh.stopped }

// shardOfPeer returns the shard of the peer that q is about to reach, if this one does
// not hold it. Where a datagram goes is found out when it is judged.
func (sh *shard) shardOfPeer(q *qp) *shard {
	p := q.conn.peer
	switch {
	case q.transport == control.QPTypeUD:
		if q.job == nil {
			return nil
		}
		p = q.job.peer
	case p == nil || p.dead:
		p = sh.boundPeer(q)
	}
	if p == nil || sh.holds(p.client.shard) {
		return nil
	}
	return p.client.shard
}

// burstCrossing is burst where there are other shards. What is put off is charged in
// advance.
func (sh *shard) burstCrossing(q *qp, n uint16) (done int) {
	if m := sh.shardOfPeer(q); m != nil {
		sh.postpone(q, m)
	} else {
		done = sh.burst(q, n)
	}
	if q.sched.postponed && done == 0 {
		sh.crossed++
		done = 1
	}
	if q.sched.postponed {
		sh.sched.spent = sh.cfg.Slice
	}
	return done
}

// postpone has q visited at the end of the step, together with shard m.
func (sh *shard) postpone(q *qp, m *shard) {
	q.sched.with = m
	if !q.sched.postponed {
		q.sched.postponed = true
		sh.postponed = append(sh.postponed, q)
	}
}

// visitPostponed visits the queues that were put off, and returns how much there was to do.
// Those whose other shard is at work stay for the next step, but not for ever; with
// urgent set, because there is nothing else to do, they wait here.
func (sh *shard) visitPostponed(urgent bool) (done int) {
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
			continue // its client has moved to another shard
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
			continue // likewise, while this shard waited
		}
		sh.visiting[i], q.sched.postponed = nil, false
		visits++
		done += sh.visitCrossing(q)
	}
	sh.visiting = sh.visiting[:0]
	sh.unlockPeerShard()
	return done
}

// visitCrossing visits a queue whose peer may be touched now.
func (sh *shard) visitCrossing(q *qp) (done int) {
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

// lockPeerShard takes the ticket lock of m as well, and reports whether it has it. It waits
// only if urgent, or out of patience.
func (sh *shard) lockPeerShard(m *shard, urgent bool) bool {
	switch {
	case sh.holds(m):
		return true
	case sh.refuse != nil && sh.refuse():
	case m.mine.tryLock():
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
		sh.inside = false
		sh.mine.unlock() // nobody waits for a lower one with one in hand
		m.mine.lock()
		sh.mine.lock()
		sh.inside = true
	} else {
		m.mine.lock()
	}
	sh.restart()
	sh.peerShard, sh.deniedSince = m, 0
	return true
}

// unlockPeerShard lets the other shard go on, and wakes it if there is work for it now, or
// may be: a WAIT of one of its queues for what has been completed there.
func (sh *shard) unlockPeerShard() {
	m := sh.peerShard
	if m == nil {
		return
	}
	sh.peerShard = nil
	if m.gotWork || len(m.stalled) > 0 {
		m.gotWork = false
		m.wake()
	}
	m.mine.unlock()
}

// wake wakes a shard that sleeps.
func (sh *shard) wake() {
	if sh.asleep.Load() && sh.sleeper != nil {
		sh.sleeper.wake()
	}
}

// returnReceives returns shared receives to clients of other shards.
func (sh *shard) returnReceives(urgent bool) (done int) {
	owed := sh.owed
	sh.owed = nil
	for _, d := range owed {
		if !sh.lockPeerShard(d.srq.client.shard, urgent) {
			sh.owed = append(sh.owed, d)
			continue
		}
		d.srq.giveBack(d.index)
		sh.unlockPeerShard()
		done++
	}
	return done
}

// releaseAfterFault ends a step that a fault of memory has cut off.
func (sh *shard) releaseAfterFault() {
	if !sh.inside {
		return
	}
	for _, q := range sh.visiting {
		if q != nil {
			sh.postponed = append(sh.postponed, q)
		}
	}
	sh.visiting = sh.visiting[:0]
	sh.unlockPeerShard()
	sh.end()
}

// pause has all shards rest while a request is served.
func (e *Engine) pause() {
	if len(e.shards) > 1 {
		for _, l := range e.shards {
			l.mine.lock()
		}
	}
	e.stopped = true
	e.served++
}

// unpause ends it.
func (e *Engine) unpause() {
	e.stopped = false
	if len(e.shards) > 1 {
		for _, l := range e.shards {
			l.mine.unlock()
			l.wake() // what it waits for may have been in the request
		}
	}
}

// crossesShards reports whether a queue of this shard waits for a peer in another,
// whose clients do not wake this one.
func (sh *shard) crossesShards() bool {
	for _, q := range sh.stalled {
		if q.stall.kind != behindCQ && sh.shardOfPeer(q) != nil {
			return true
		}
	}
	return false
}
