package pool

import "time"

// The memory of a pair that has ended may still be read by the other node: it stands still perhaps, in the
// middle of a look at the ring, and goes on later. So the memory is fenced, not free, until the other node
// cannot look at it any more: it has withdrawn its acceptance of the session, which it does after its
// engine has let the ring go; or it has begun another life; or fenceTime has passed. A node that stood
// still for longer than that, and goes on in the middle of a look, sees packets with other numbers: each
// session counts from a number of its own (session.go).

// fenceTime is longer than any stop but that of a debugger or of a host that sleeps.
const fenceTime = 30 * time.Second

// A fence is the memory of a pair that has ended.
type fence struct {
	l       *link // nil if it is inherited
	peer    int
	index   int      // in this node's table
	theirs  int      // index of the peer's pair; -1: it has none any more
	memory  []extent // of the ring
	session uint64   // that this node has offered last, 0: none, so nobody reads the ring
	epoch   uint64   // of the peer's life
	until   time.Duration

	inherited bool // of an earlier life of this node (inherit.go)
}

// mostFences is how many ended pairs with one node may keep memory. A node that lets rings go has none
// after two ticks; one that does not could take all memory of the others, pair by pair.
const mostFences = 2

// fenced reports whether a node keeps the memory of so many pairs that it gets no further one.
func fenced(fences []fence, node int) bool {
	n := 0
	for i := range fences {
		if fences[i].peer == node && !fences[i].inherited {
			n++
		}
	}
	return n >= mostFences
}

// openNow is open, for a table of the peer that may be lost: then the fence opens when its time is over.
func (f *fence) openNow(p *Pool, ran time.Duration) (open bool) {
	err := p.guard(func() error { open = f.open(p, ran); return nil })
	return open && err == nil
}

// open reports whether the memory is free again. ran is the time in which this node ran.
func (f *fence) open(p *Pool, ran time.Duration) bool {
	if f.inherited {
		return ran > f.until || !f.stillRead(p)
	}
	if f.session == 0 || f.theirs < 0 || f.l.epoch != f.epoch || ran > f.until {
		return true
	}
	e := p.view.pair(p.header.pairAt(f.l.peer, f.theirs))
	return e.peer != p.number || e.accepted != f.session
}

// openFences gives the memory behind the fences back that are open now.
func (p *Pool) openFences(ran time.Duration) {
	kept := p.fences[:0]
	for _, f := range p.fences {
		if !f.openNow(p, ran) {
			kept = append(kept, f)
			continue
		}
		p.share.pairs[f.index] = false
		for _, e := range f.memory {
			p.share.give(e)
		}
		p.reportRoom()
	}
	clear(p.fences[len(kept):])
	p.fences = kept
}
