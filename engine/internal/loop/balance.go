//go:build linux && (amd64 || arm64)

package loop

import (
	"slices"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
)

// AddClient makes c one of the shard's clients.
func (sh *Loop) AddClient(c *object.Client) {
	c.Shard = &sh.Shard
	sh.Clients[c] = struct{}{}
	c.Pass = object.ClientPass{}
	sh.Everyone.Add(c)
	if c.Late.Len() > 0 {
		sh.Arm.Late.Add(c)
	}
	sh.Stallers.Grow(len(sh.Clients)) // because a step adds to this roster
}

// RemoveClient removes a client that has no queues from the shard.
func (sh *Loop) RemoveClient(c *object.Client) {
	delete(sh.Clients, c)
	sh.Pass.Leave(c)
	sh.Everyone.Remove(c)
	sh.Arm.Late.Remove(c)
}

// Traffic within a shard runs in parallel with the traffic of other shards. Traffic between two shards holds
// the locks of both. So clients that talk to each other should be in one shard, and all others in different
// shards. A new client is assigned to the shard with the least load. When the client is then connected to a
// client of another shard, it moves to that shard, unless it is also connected to another client outside that
// shard.

// BringTogether brings the clients of two queue pairs that are being connected into one
// shard, if one of the clients is free to move. If both are free to move, the client in
// the shard with more load moves to the shard with less load.
func (e *Runner) BringTogether(q, p *object.QP) {
	a, b := q.Client, p.Client
	from, to := a.Shard, b.Shard
	if from == to || e.Settings.Stay {
		return
	}
	aMoves, bMoves := !e.tied(a, to), !e.tied(b, from)
	switch {
	case bMoves && (!aMoves || from.Load() < to.Load()):
		e.Move(b, from)
	case aMoves:
		e.Move(a, to)
	}
}

// tied reports whether c may not move to a shard: c is connected to another client outside that shard, or has
// to stay in one shard with another client, or in the shard that serves the ports.
func (e *Runner) tied(c *object.Client, to *object.Shard) bool {
	if c.Shares() || c.Linked > 0 {
		return true
	}
	for _, q := range c.QPs {
		if q.Transport == control.QPTypeUD || !q.Listens() {
			continue
		}
		p := e.BoundPeer(q)
		if p != nil && p.Client != c && p.Client.Shard != to {
			return true
		}
	}
	return false
}

// Move moves a client with all its queues to another shard.
func (e *Runner) Move(c *object.Client, shard *object.Shard) {
	if c.Shard == shard {
		return
	}
	from, to := e.Loops[c.Shard.Number], e.Loops[shard.Number]
	var running []*object.QP
	var waits []object.Stall // waits[i] is the stall of running[i]
	for _, q := range c.QPs {
		if q.Client == c && from.IsRunning(q) {
			from.DropHeld(q)
			running, waits = append(running, q), append(waits, q.Stall)
			from.Unstall(q)
			from.RemoveRunning(q)
		}
	}
	var armable []*object.CQ
	var held []uint64      // held[i] is since when an event of armable[i] has been held back; 0: none is
	var late []object.Late // late[i] are events of armable[i] that wait for room
	for _, q := range c.CQs {
		if c.Arms.Has(q) {
			since := uint64(0)
			if q.Moderation != nil {
				since = q.Moderation.Since
			}
			armable, held, late = append(armable, q), append(held, since), append(late, q.Late)
			from.Disarm(q)
		}
	}
	from.detachClient(c)
	to.AddClient(c)
	for i, q := range running {
		to.AddRunning(q)
		if waits[i].Kind != object.NoStall {
			to.StallFor(q, waits[i])
		}
		to.MarkWarm(q)
	}
	for i, q := range armable {
		to.CanArm(q)
		if held[i] != 0 {
			q.Moderation.Since = held[i]
			to.Hold(q)
		}
		if late[i] != 0 {
			to.HoldLate(q, late[i])
		}
	}
	if c.Wake.FD == nil {
		return
	}
	// The client's posters read the one asleep word of the client's status page, whichever
	// shard they wake. The new shard is awake, or is woken after this request.
	c.Page.Asleep.Publish(0)
	if from.Sleeper.Load() != nil {
		from.Sleeper.Load().Remove(c.Wake.FD)
	}
	if to.Sleeper.Load() != nil && to.Sleeper.Load().Add(c.Wake.FD) != nil {
		c.Wake.Always = false // so that the shard does not rely on being woken
	}
}

// detachClient removes a client from the shard, after its queues have been taken off the
// running, stalled and armable lists.
func (sh *Loop) detachClient(c *object.Client) {
	sh.RemoveClient(c)
	if sh.Sched.LastWorker == c {
		sh.Sched.LastWorker = nil
	}
	if i := slices.Index(sh.Sched.Active, c); i >= 0 {
		sh.Sched.Active = slices.Delete(sh.Sched.Active, i, i+1)
		c.Sched.Active = false
		if i < sh.Sched.From {
			sh.Sched.From--
		}
	}
	for _, list := range [][]*object.QP{sh.Postponed, sh.Visiting} {
		for i, q := range list {
			if q != nil && q.Client == c {
				list[i], q.Postponed = nil, false
			}
		}
	}
}

// Follow moves c to a shard, and with it all clients that it shares a domain with.
func (e *Runner) Follow(c *object.Client, to *object.Shard) {
	if c.Shard == to {
		return
	}
	e.Move(c, to)
	for _, d := range c.XRCDs {
		for other := range d.Members {
			e.Follow(other, to)
		}
	}
}
