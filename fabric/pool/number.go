package pool

import (
	"context"
	"fmt"
)

// A node that is given no number takes a free one. Without atomic operations two nodes cannot agree on that
// in one step. So a node writes a random word, its bid, into the part of a number that is free, waits, and
// looks: the node that wrote last has the number, and the others look for another one. That word is the
// only one in a pool that several nodes may write. A node that stands still between its look and its first
// heartbeat, for longer than all of this takes another, can come back as a rival of the node that has the
// number by then; rival.go ends that, and elect takes another number.

// AnyNode is the number of a node that takes a free one.
const AnyNode = -1

// bidAt is where bids are written, in a part.
const bidAt = line

// spread is how many numbers a node chooses from beside twice as many as there are nodes: many nodes that
// start at one time seldom bid for the same one, and the numbers stay small.
const spread = 8

// mostBids is how often a node bids. If all 1,024 start at one time, those that have a number are three
// times as many after each round, so seven rounds are enough; more are lost only to somebody who overwrites
// bids.
const mostBids = 64

// formerTime is how long the heartbeat of a node with this engine's GUID must stand still until this engine
// takes the number: several slow beats (pace.go).
const formerTime = 5 * idleTick

// elect takes the number that this engine had in a former life, or else a free one. The other nodes see at
// once that a former life is over, and have its rings back, if the number is the same.
func (p *Pool) elect(ctx context.Context, h *header) error {
	former, err := p.former(ctx, h)
	if err != nil {
		return err
	}
	if former >= 0 {
		won, err := p.bid(ctx, h, former)
		if err != nil {
			return err
		}
		if won {
			p.number = former
			return nil
		}
	}
	for range mostBids {
		free, err := p.free(ctx, h)
		if err != nil {
			return err
		}
		number := free[p.draw()%uint64(len(free))]
		won, err := p.bid(ctx, h, number)
		if err != nil {
			return err
		}
		if won {
			p.number = number
			return nil
		}
	}
	return fmt.Errorf("%d bids for a free number were lost to others; give this engine one (node=)", mostBids)
}

// changeNumber takes another number for a node that was given none, and whose number another engine has
// now. It reports whether it has.
func (p *Pool) changeNumber() bool {
	if p.cfg.Node != AnyNode || p.elect(p.run, &p.header) != nil {
		return false
	}
	p.rival.why = ""
	return true
}

// former returns the number of a node with this engine's GUID, which is not alive any more; -1 if there is
// none.
func (p *Pool) former(ctx context.Context, h *header) (int, error) {
	before := make(map[int]life)
	for i := range h.nodes {
		seen, ok := p.peek(h, i)
		if !ok || seen.state != statePresent || seen.identity != h.identity {
			continue
		}
		d, err := p.peekDescription(h, i)
		if err == nil && d.guid == p.dev.GUID() {
			before[i] = seen
		}
	}
	if len(before) == 0 {
		return AnyNode, nil
	}
	if err := pass(ctx, p.time, formerTime); err != nil {
		return AnyNode, err
	}
	for i := range h.nodes {
		seen, ok := before[i]
		if now, still := p.peek(h, i); ok && still && now == seen {
			return i, nil
		}
	}
	return AnyNode, nil
}

// free returns the numbers that the node chooses from. If all are taken, it looks for those whose nodes are
// dead.
func (p *Pool) free(ctx context.Context, h *header) ([]int, error) {
	var free []int
	before := make([]life, h.nodes)
	for i := range before {
		var ok bool
		before[i], ok = p.peek(h, i)
		if ok && (before[i].state != statePresent || before[i].identity != h.identity) {
			free = append(free, i)
		}
	}
	if len(free) > 0 {
		taken := h.nodes - len(free)
		return free[:min(len(free), spread+2*taken)], nil
	}
	if err := pass(ctx, p.time, p.cfg.watchTime()); err != nil {
		return nil, err
	}
	for i := range before {
		if now, ok := p.peek(h, i); ok && now.heartbeat == before[i].heartbeat {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return nil, fmt.Errorf("all %d numbers are taken by nodes that live; end some of these engines, or format a pool for more (nodes=, at most %d)", h.nodes, MaxNodes)
	}
	return free, nil
}

// bid bids for a number, and reports whether this node has it.
//
// Publish: bid. Observe: bid, of another node.
func (p *Pool) bid(ctx context.Context, h *header, number int) (won bool, err error) {
	at := h.partAt(number)
	before, mine := p.view.life(at), max(1, p.draw())
	p.view.store(at+bidAt, mine)
	if err := p.time.Sleep(ctx, claimTime); err != nil {
		return false, err
	}
	now := p.view.life(at)
	same := now.state == before.state && now.heartbeat == before.heartbeat && now.epoch == before.epoch
	return same && p.view.load(at+bidAt) == mine, nil
}
