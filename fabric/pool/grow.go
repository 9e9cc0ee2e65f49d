package pool

import "github.com/nicless/nicless/internal/packetring"

// A growth is how the ring that this node sends into becomes larger: by four each time that it was full,
// as long as the share keeps room for new rings (reserve).
type growth struct {
	now   extent              // memory of the ring that this node sends into
	ring  packetring.Geometry // of that ring
	next  extent              // memory of the ring that the producer is to move to
	size  packetring.Geometry // of that ring
	old   []extent            // memory of rings that the producer has left, and the consumer perhaps not
	full  uint64              // how often the ring was full, as last seen
	moved uint64              // Producer.Moved as last seen
}

// all returns all memory of a pair.
func (g *growth) all() []extent {
	all := append([]extent{g.now}, g.old...)
	if g.next.n > 0 {
		all = append(all, g.next)
	}
	return all
}

// grow takes the next step. The link is up.
func (r *pair) grow() {
	g, p := &r.growth, r.l.p
	r.follow()
	if len(g.old) > 0 && r.send.Consumed()-g.moved < 1<<63 {
		r.giveOld()
	}
	full := r.send.Full()
	if full == g.full {
		return
	}
	g.full = full
	to := packetring.Geometry{
		Slots: max(g.ring.Slots, min(4*g.ring.Slots, mostSlots)),
		Data:  max(g.ring.Data, min(4*g.ring.Data, mostData)),
	}
	if to == g.ring || g.next.n > 0 || len(g.old) > 0 {
		return
	}
	m, ok := p.takeSound(pagesOf(to), p.share.reserve(&p.header))
	if !ok {
		return
	}
	g.next, g.size = m, to
	r.publishHeld()
	if r.send.Grow(p.ringBytes(m.at, to), to, m.at) != nil {
		p.share.give(m)
		g.next = extent{}
		return
	}
	p.pace.stirred = true
	p.reportRoom()
}

// pairsOfAll is with how many others each node must be able to talk, however large the rings to some are.
const pairsOfAll = 16

// reserve returns how many pages of a share must stay free when a ring grows.
func (s *share) reserve(h *header) uint64 {
	open := 0
	for _, taken := range s.pairs {
		if taken {
			open++
		}
	}
	return uint64(max(min(pairsOfAll, h.nodes-1)-open, 1)) * pagesOf(h.ring)
}

// follow notes that the producer has moved to the larger ring.
func (r *pair) follow() {
	g := &r.growth
	moved := r.send.Moved()
	if moved == 0 || moved == g.moved {
		return
	}
	g.moved = moved
	g.old, g.now, g.next, g.ring = append(g.old, g.now), g.next, extent{}, g.size
	r.flow.follow(r.bytes(), g.ring.Slots, moved)
	r.publishHeld()
}

// publishHeld says at once which memory the other node may read.
func (r *pair) publishHeld() {
	r.putHeld()
	r.l.p.view.writeBack(r.at, line)
}

// giveOld gives the memory of rings back that nobody reads any more.
func (r *pair) giveOld() {
	for _, m := range r.growth.old {
		r.l.p.share.give(m)
	}
	r.growth.old = nil
	r.l.p.reportRoom()
}

// rebase ends a growth between two sessions: the next session begins in the ring that the producer has now.
// The device does not use the ring.
func (r *pair) rebase() {
	g := &r.growth
	cancelled := r.send.Cancel()
	r.follow()
	if cancelled {
		r.l.p.share.give(g.next)
		g.next = extent{}
	}
	g.moved, r.page, r.ring = 0, g.now.at, g.ring
}
