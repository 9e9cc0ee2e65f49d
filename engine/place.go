package engine

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
)

// Which shard a client belongs to. Traffic within a shard goes on beside that of the
// others; traffic between two holds both. So clients that talk to each other belong
// together, and all others apart. A new client goes where there is least to do; when
// one is connected to another and nothing else ties it to its shard, it moves.

// load is how much a shard has to do, as far as it can be told beforehand.
func (sh *shard) load() int { return len(sh.running) + len(sh.clients) }

// idlest returns the shard with the least load, the first of several.
func (e *Engine) idlest() *shard {
	return slices.MinFunc(e.shards, func(a, b *shard) int { return a.load() - b.load() })
}

// join makes c one of the shard's clients.
func (sh *shard) join(c *Client) {
	c.shard = sh
	sh.clients[c] = struct{}{}
}

// bring brings the clients of two queue pairs that are being connected into one
// shard, if one of them is free to move: into that with less to do, if both are.
func (e *Engine) bring(q, p *qp) {
	a, b := q.client, p.client
	from, to := a.shard, b.shard
	if from == to || e.cfg.Stay {
		return
	}
	aMoves, bMoves := !a.tied(to), !b.tied(from)
	switch {
	case bMoves && (!aMoves || from.load() < to.load()):
		b.move(from)
	case aMoves:
		a.move(to)
	}
}

// tied reports whether a client is connected to others that are not in shard to.
func (c *Client) tied(to *shard) bool {
	for _, q := range c.qps {
		if q.transport == control.QPTypeUD || !q.listens() {
			continue
		}
		p := c.e.boundPeer(q)
		if p != nil && p.client != c && p.client.shard != to {
			return true
		}
	}
	return false
}

// move takes a client with all its queues to another shard.
func (c *Client) move(to *shard) {
	from := c.shard
	if from == to {
		return
	}
	var running []*qp
	var waits []stall
	for _, q := range c.qps {
		if from.isRunning(q) {
			running, waits = append(running, q), append(waits, q.stall)
			from.unstall(q)
			from.removeRunning(q)
		}
	}
	var armable []*cq
	for _, q := range c.cqs {
		if q.at < len(from.arm.cqs) && from.arm.cqs[q.at] == q {
			armable = append(armable, q)
			from.disarm(q)
		}
	}
	from.quit(c)
	to.join(c)
	for i, q := range running {
		to.addRunning(q)
		if waits[i].kind != noStall {
			to.stallFor(q, waits[i])
		}
		to.markWarm(q)
	}
	for _, q := range armable {
		to.canArm(q)
	}
	if c.wake.fd == nil {
		return
	}
	// Its posters look at one word, whatever shard they wake; this one is awake, or
	// is woken behind the request.
	c.page.asleep.Publish(0)
	if from.sleeper != nil {
		from.sleeper.remove(c.wake.fd)
	}
	if to.sleeper != nil && to.sleeper.add(c.wake.fd) != nil {
		c.wake.always = false // so that the shard does not rely on it
	}
}

// quit takes a client, none of whose queues is on a list any more, off the shard.
func (sh *shard) quit(c *Client) {
	delete(sh.clients, c)
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
				list[i], q.sched.postponed = nil, false
			}
		}
	}
}
