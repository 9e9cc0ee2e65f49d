package pool

// A node that was killed leaves rings behind that others may still read: one of them stands still in the
// middle of a look. So the next life of the node fences the memory of the earlier one, as fence.go does
// with that of pairs that have ended. The table says which memory that is: its words stay when a pair ends,
// until another one begins.

// putHeld says in the table which memory the other node may read. writeBack follows.
func (r *pair) putHeld() {
	g, v := &r.growth, &r.l.p.view
	second := g.next
	if len(g.old) > 0 {
		second = g.old[0] // there is no next one as long as there is an old one
	}
	v.put(r.at+heldAt, g.now.word())
	v.put(r.at+heldAt+8, second.word())
	v.put(r.at+heldByAt, uint64(r.l.peer+1))
}

// inherit fences the memory of this node's earlier life. The share is new.
func (p *Pool) inherit() {
	h, v := &p.header, &p.view
	for i := range h.pairs() {
		at := h.pairAt(p.number, i)
		_ = v.pair(at) // invalidates the line
		by := v.word(at + heldByAt)
		held := [2]extent{extentOf(v.word(at + heldAt)), extentOf(v.word(at + heldAt + 8))}
		if by-1 >= uint64(h.nodes) || by-1 == uint64(p.number) {
			continue
		}
		f := fence{peer: int(by - 1), index: i, inherited: true, until: p.clock.ran + fenceTime}
		if !f.inheritFrom(p) {
			continue
		}
		for _, e := range held {
			f.memory = append(f.memory, p.share.cut(e)...)
		}
		p.share.pairs[i] = true
		p.fences = append(p.fences, f)
	}
}

// inheritFrom finds the other node's pair, and reports whether the node may still read the memory. If the
// other node's own pages are lost, it may.
func (f *fence) inheritFrom(p *Pool) bool {
	f.theirs = -1
	reads := false
	err := p.guard(func() error {
		f.theirs = p.view.find(&p.header, f.peer, p.number)
		reads = f.theirs >= 0 && p.view.pair(p.header.pairAt(f.peer, f.theirs)).accepted != 0
		return nil
	})
	return reads || err != nil
}

// stillRead reports whether the other node still accepts a session of this node's earlier life.
func (f *fence) stillRead(p *Pool) bool {
	if f.theirs < 0 {
		return true // its table was lost
	}
	e := p.view.pair(p.header.pairAt(f.peer, f.theirs))
	return e.peer == p.number && e.accepted != 0 && e.accepted>>32 != p.epoch.Load()>>32
}

// word returns an extent as it is in the table.
func (e extent) word() uint64 { return uint64(e.at)<<32 | uint64(e.n) }

func extentOf(word uint64) extent { return extent{uint32(word >> 32), uint32(word)} }

// cut takes those pages of an extent that are free, and returns them.
func (s *share) cut(e extent) (taken []extent) {
	var kept []extent
	from, to := uint64(e.at), uint64(e.at)+uint64(e.n)
	for _, f := range s.free {
		begin, end := uint64(f.at), uint64(f.at)+uint64(f.n)
		a, b := max(from, begin), min(to, end)
		if a >= b {
			kept = append(kept, f)
			continue
		}
		taken = append(taken, extent{uint32(a), uint32(b - a)})
		if begin < a {
			kept = append(kept, extent{f.at, uint32(a - begin)})
		}
		if b < end {
			kept = append(kept, extent{uint32(b), uint32(end - b)})
		}
	}
	s.free = kept
	return taken
}
