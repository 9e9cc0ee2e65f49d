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
//
// Publish: epoch, identity and state. Observed by view.life of other nodes.
func (p *Pool) restoreLife() string {
	seen := p.view.life(p.cfg.Node)
	mine := life{
		epoch: p.epoch.Load(), identity: p.header.identity, state: statePresent, heartbeat: seen.heartbeat,
	}
	if seen == mine {
		return ""
	}
	if seen.epoch != mine.epoch {
		if d, _, err := p.view.described(p.cfg.Node); err == nil && d.epoch != mine.epoch {
			return fmt.Sprintf("another engine has become node %d%s; each engine needs a number of its own (node=)", p.cfg.Node, p.who())
		}
	}
	at := nodeAt(p.cfg.Node)
	p.view.put(at+epochAt, mine.epoch)
	p.view.put(at+identityAt, mine.identity)
	p.view.put(at+stateAt, mine.state)
	p.view.writeBack(at, line)
	p.countRepair("life")
	return ""
}

// mend writes the description and the board again if they are not what this node wrote. The caller
// holds p.own.
func (p *Pool) mend() {
	var want [describeSize]byte
	n := p.description.put(&want)
	if p.overwritten(nodeAt(p.cfg.Node)+describeAt, want[:n]) {
		p.view.describe(p.cfg.Node, &p.description)
		p.countRepair("description")
	}
	if b := boardOf(p.board); p.overwritten(boardAt(p.cfg.Node), b) {
		p.view.post(p.cfg.Node, p.board)
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
	p.cfg.Log.Warn("somebody has overwritten the block of this node; it is written again", "link", p.Name(), "part", what, "times", p.repairs)
}
