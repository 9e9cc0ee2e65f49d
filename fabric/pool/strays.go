package pool

import "time"

// Pairs of a node's table that lead to no rings are blank. Others can write there, too: by mistake, or to
// harm. If what they write names a node, that node takes it for the pair with this one: it waits for a
// session there while the real pair offers one, or takes the end of the real pair for the beginning of
// another, so that both nodes open and close their rings in turn without end. So this node blanks them.

// strays says when this node's table is searched for them: that is a line for each pair, so it is done no
// more often than each ownPeriod, and only if they can do harm. Links that are up do not look at them.
type strays struct {
	due  bool // a link is not up although its rings are open, or a pair has ended
	next time.Duration
}

// clearStrays blanks pairs that name a node although there are no rings to it, if that is due.
func (p *Pool) clearStrays(ran time.Duration) {
	if !p.strays.due || ran < p.strays.next || p.mute() {
		return
	}
	p.strays = strays{next: ran + ownPeriod}
	open := make([]bool, p.header.pairs())
	for _, l := range p.links {
		if l != nil && l.pair != nil {
			open[l.pair.index] = true
		}
	}
	found := false
	for i := range open {
		at := p.header.pairAt(p.number, i)
		if !open[i] && p.view.pair(at).peer >= 0 {
			p.blankPair(at)
			found = true
		}
	}
	if found {
		p.reportChange()
	}
}

// blankPair takes a pair out of this node's table. Which memory others may read stays (inherit.go).
func (p *Pool) blankPair(at uint64) {
	p.view.put(at+mineAt, 0)
	p.view.put(at+yoursAt, 0)
	p.view.store(at+peerAt, 0)
}
