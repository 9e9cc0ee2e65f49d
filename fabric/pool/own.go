package pool

import "github.com/nicless/nicless/internal/packetring"

// This file has how a node writes the first line of its part.

// mute reports whether this node must not write into its part: it is another engine's now, or gone.
func (p *Pool) mute() bool { return p.gone.Load() || p.ousted.Load() }

// report changes the first line of this node's part. The caller does not hold p.own.
//
// Publish: changes, posted and described. Observed by view.life of other nodes.
func (p *Pool) report(change func(*life)) {
	p.own.Lock()
	defer p.own.Unlock()
	p.reportHeld(change)
}

// reportHeld is report for callers that hold p.own.
func (p *Pool) reportHeld(change func(*life)) {
	change(&p.life)
	if p.joined && !p.mute() {
		p.view.putLife(p.part, &p.life)
	}
}

// reportChange says that this node's table of pairs has changed.
func (p *Pool) reportChange() { p.report(func(l *life) { l.changes++ }) }

// reportRoom says how many new rings this node has room for.
func (p *Pool) reportRoom() {
	room := p.share.room(pagesOf(p.header.ring))
	p.report(func(l *life) { l.room = room })
}

// ringBytes returns the memory of one of this node's rings.
func (p *Pool) ringBytes(page uint32, g packetring.Geometry) []byte {
	return p.view.mem[p.part+p.header.ringsAt()+uint64(page)<<12:][:g.RingSize()]
}
