package engine

import (
	"slices"

	"github.com/nicless/nicless/internal/control"
)

// Which lane a client belongs to. Traffic within a lane goes on beside that of the
// others; traffic between two holds both. So clients that talk to each other belong
// together, and all others apart. A new client goes where there is least to do; when
// one is connected to another and nothing else ties it to its lane, it moves.

// load is how much a lane has to do, as far as it can be told beforehand.
func (e *lane) load() int { return len(e.running) + len(e.clients) }

// idlest returns the lane with the least load, the first of several.
func (e *Engine) idlest() *lane {
	return slices.MinFunc(e.lanes, func(a, b *lane) int { return a.load() - b.load() })
}

// join makes c one of the lane's clients.
func (e *lane) join(c *Client) {
	c.lane = e
	e.clients[c] = struct{}{}
}

// bring brings the clients of two queue pairs that are being connected into one
// lane, if one of them is free to move: into that with less to do, if both are.
func (e *Engine) bring(q, p *qp) {
	a, b := q.client, p.client
	from, to := a.lane, b.lane
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

// tied reports whether a client is connected to others that are not in lane to.
func (c *Client) tied(to *lane) bool {
	for _, q := range c.qps {
		if q.transport == control.QPTypeUD || !q.listens() {
			continue
		}
		p := c.e.boundPeer(q)
		if p != nil && p.client != c && p.client.lane != to {
			return true
		}
	}
	return false
}

// move takes a client with all its queues to another lane.
func (c *Client) move(to *lane) {
	from := c.lane
	if from == to {
		return
	}
	var running []*qp
	var waits []stall
	for _, q := range c.qps {
		if from.enlisted(q) {
			running, waits = append(running, q), append(waits, q.stall)
			from.unstall(q)
			from.dismiss(q)
		}
	}
	var armable []*cq
	for _, q := range c.cqs {
		if q.at < len(from.armable) && from.armable[q.at] == q {
			armable = append(armable, q)
			from.disarm(q)
		}
	}
	from.quit(c)
	to.join(c)
	for i, q := range running {
		to.enlist(q)
		if waits[i].kind != noStall {
			to.stallFor(q, waits[i])
		}
		to.warm(q)
	}
	for _, q := range armable {
		to.canArm(q)
	}
	if c.bell == nil {
		return
	}
	// Its posters look at one word, whatever lane they wake; this one is awake, or
	// is woken behind the request.
	c.page.asleep.Publish(0)
	if from.bed != nil {
		from.bed.remove(c.bell)
	}
	if to.bed != nil && to.bed.add(c.bell) != nil {
		c.wakes = false // so that the lane does not rely on it
	}
}

// quit takes a client, none of whose queues is on a list any more, off the lane.
func (e *lane) quit(c *Client) {
	delete(e.clients, c)
	if e.worker == c {
		e.worker = nil
	}
	if i := slices.Index(e.active, c); i >= 0 {
		e.active = slices.Delete(e.active, i, i+1)
		if c.active = false; i < e.from {
			e.from--
		}
	}
	for _, list := range [][]*qp{e.later, e.dealing} {
		for i, q := range list {
			if q != nil && q.client == c {
				list[i], q.later = nil, false
			}
		}
	}
}
