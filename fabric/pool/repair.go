package pool

import (
	"fmt"
	"time"
)

// Others can write this node's block, by mistake or to harm: an engine with the same number, a program that
// writes where it should not, a hostile node. If an engine with the same number has become this node, this
// engine leaves the block to it (rival.go). Everything else is written again, because this node is the only
// writer of its block.

// ownPeriod is how often a node looks at its description and its board. It looks at the line that says
// that it lives before each tick. A link is down for this long if others wrote wrong bytes there.
const ownPeriod = 500 * time.Millisecond

// restoreLife writes the line that says that this node lives again if it was overwritten. If another
// engine has become this node, it returns what is wrong. The caller holds p.own.
func (p *Pool) restoreLife() string {
	seen := p.view.life(p.part)
	mine := p.life
	mine.heartbeat = seen.heartbeat
	if seen == mine {
		return ""
	}
	if seen.epoch != mine.epoch {
		if d, _, err := p.view.described(p.part); err == nil && d.epoch != mine.epoch {
			return fmt.Sprintf("another engine has become node %d%s; each engine needs a number of its own (node=)", p.number, p.who())
		}
	}
	p.view.putLife(p.part, &mine)
	p.countRepair("life")
	return ""
}

// describe publishes what this node says of itself. The caller holds p.own.
func (p *Pool) describe() {
	sequence := p.view.describe(p.part, &p.description)
	p.reportHeld(func(l *life) { l.described = sequence })
}

// post publishes what clients of this node's engine announce. The caller holds p.own.
func (p *Pool) post() {
	sequence := p.view.post(p.part, p.board)
	p.reportHeld(func(l *life) { l.posted = sequence })
}

// mend writes the description and the board again if they are not what this node wrote. The caller
// holds p.own.
func (p *Pool) mend() {
	var want [describeSize]byte
	n := p.description.put(&want)
	if p.overwritten(p.part+describeAt, want[:n]) {
		p.describe()
		p.countRepair("description")
	}
	if b := boardOf(p.board); p.overwritten(p.part+boardAt, b) {
		p.post()
		p.countRepair("board")
	}
}

// overwritten reports whether the memory is not what this node wrote there, but for the first word,
// which is a sequence. It looks at that too: others know what they have read by it.
func (p *Pool) overwritten(at uint64, want []byte) bool {
	p.view.invalidate(at, len(want))
	for i := 8; i < len(want); i += 8 {
		if p.view.word(at+uint64(i)) != be.Uint64(want[i:]) {
			return true
		}
	}
	return false
}

// countRepair counts and logs a repair. A hostile node can cause one in each tick; the log has a budget.
func (p *Pool) countRepair(what string) {
	p.repairs++
	p.cfg.Log.Warn("somebody has overwritten the part of this node; it is written again", "link", p.Name(), "part", what, "times", p.repairs)
}
