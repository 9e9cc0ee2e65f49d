//go:build linux && (amd64 || arm64)

package engine

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
)

// This file assigns clients to shards. Traffic within a shard runs in parallel with the
// traffic of other shards. Traffic between two shards holds the locks of both. So clients
// that talk to each other should be in one shard, and all others in different shards. A new
// client is assigned to the shard with the least load. When the client is then connected to
// a client of another shard, it moves to that shard, unless it is also connected to another
// client outside that shard.

// load estimates how much a shard has to do.
func (sh *shard) load() int { return len(sh.running) + len(sh.clients) }

// leastLoaded returns the shard with the least load. If several have the least load, it
// returns the first of them.
func (e *device) leastLoaded() *shard {
	return slices.MinFunc(e.shards, func(a, b *shard) int { return a.load() - b.load() })
}

// addClient makes c one of the shard's clients.
func (sh *threadLoop) addClient(c *client) {
	c.shard = &sh.shard
	sh.clients[c] = struct{}{}
	c.pass = clientPass{}
	sh.everyone.add(c)
	sh.stallers.grow(len(sh.clients)) // because a step adds to this roster
}

// forgetClient removes a client that has no queues from the shard.
func (sh *threadLoop) forgetClient(c *client) {
	delete(sh.clients, c)
	sh.pass.leave(c)
	sh.everyone.remove(c)
}

// bringTogether brings the clients of two queue pairs that are being connected into one
// shard, if one of the clients is free to move. If both are free to move, the client in
// the shard with more load moves to the shard with less load.
func (e *runner) bringTogether(q, p *qp) {
	a, b := q.client, p.client
	from, to := a.shard, b.shard
	if from == to || e.cfg.stay {
		return
	}
	aMoves, bMoves := !e.tied(a, to), !e.tied(b, from)
	switch {
	case bMoves && (!aMoves || from.load() < to.load()):
		e.move(b, from)
	case aMoves:
		e.move(a, to)
	}
}

// tied reports whether c is connected to another client that is outside the given shard, or
// has to be in one shard with another client, or in the shard that serves the ports.
func (e *runner) tied(c *client, to *shard) bool {
	if c.shares() || c.linked > 0 {
		return true
	}
	for _, q := range c.qps {
		if q.transport == control.QPTypeUD || !q.listens() {
			continue
		}
		p := e.boundPeer(q)
		if p != nil && p.client != c && p.client.shard != to {
			return true
		}
	}
	return false
}

// move moves a client with all its queues to another shard.
func (e *runner) move(c *client, shard *shard) {
	if c.shard == shard {
		return
	}
	from, to := e.loops[c.shard.number], e.loops[shard.number]
	var running []*qp
	var waits []stall
	for _, q := range c.qps {
		if q.client == c && from.isRunning(q) {
			running, waits = append(running, q), append(waits, q.stall)
			from.unstall(q)
			from.removeRunning(q)
		}
	}
	var armable []*cq
	var held []uint64
	for _, q := range c.cqs {
		if c.arms.has(q) {
			since := uint64(0)
			if q.moderation != nil {
				since = q.moderation.since
			}
			armable, held = append(armable, q), append(held, since)
			from.disarm(q)
		}
	}
	from.removeClient(c)
	to.addClient(c)
	for i, q := range running {
		to.addRunning(q)
		if waits[i].kind != noStall {
			to.stallFor(q, waits[i])
		}
		to.markWarm(q)
	}
	for i, q := range armable {
		to.canArm(q)
		if held[i] != 0 {
			q.moderation.since = held[i]
			to.hold(q)
		}
	}
	if c.wake.fd == nil {
		return
	}
	// The client's posters read the one asleep word of the client's status page, whichever
	// shard they wake. The new shard is awake, or is woken after this request.
	c.page.asleep.Publish(0)
	if from.sleeper.Load() != nil {
		from.sleeper.Load().Remove(c.wake.fd)
	}
	if to.sleeper.Load() != nil && to.sleeper.Load().Add(c.wake.fd) != nil {
		c.wake.always = false // so that the shard does not rely on being woken
	}
}

// removeClient removes a client from the shard, after its queues have been taken off the
// running, stalled and armable lists.
func (sh *threadLoop) removeClient(c *client) {
	sh.forgetClient(c)
	if sh.sched.lastWorker == c {
		sh.sched.lastWorker = nil
	}
	if i := slices.Index(sh.sched.active, c); i >= 0 {
		sh.sched.active = slices.Delete(sh.sched.active, i, i+1)
		if c.sched.active = false; i < sh.sched.from {
			sh.sched.from--
		}
	}
	for _, list := range [][]*qp{sh.postponed, sh.visiting} {
		for i, q := range list {
			if q != nil && q.client == c {
				list[i], q.postponed = nil, false
			}
		}
	}
}
