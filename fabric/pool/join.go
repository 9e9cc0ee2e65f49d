package pool

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// start formats the pool, or waits until another node has done so, takes a number, and joins it.
func (p *Pool) start(ctx context.Context) error {
	h, err := p.prepare(ctx)
	if err != nil {
		return err
	}
	if h.incoherent && !canFlush && p.view.cache == nil {
		return errors.New("it has coherence=none, and this processor cannot flush lines of 64 bytes")
	}
	if p.cfg.Node == AnyNode {
		err = p.elect(ctx, &h)
	} else {
		p.number = p.cfg.Node
		err = p.claim(ctx, &h)
	}
	if err != nil {
		return err
	}
	p.join(h)
	if err := p.time.Sleep(ctx, claimTime); err != nil {
		return err
	}
	p.own.Lock()
	defer p.own.Unlock()
	if why := p.restoreLife(); why != "" {
		p.joined = false
		return errors.New(why)
	}
	return nil
}

// claim returns an error if another engine with this node's number lives.
func (p *Pool) claim(ctx context.Context, h *header) error {
	at := h.partAt(p.number)
	before := p.view.life(at)
	if before.state != statePresent || before.identity != h.identity {
		return nil
	}
	p.cfg.Log.Warn("this node was left without a farewell, or lives in another engine; its heartbeat is watched",
		"link", p.Name(), "node", p.number, "most", p.cfg.Dead)
	for c := (clock{}); c.look(p.time.Now()) < p.cfg.watchTime(); {
		if err := p.time.Sleep(ctx, tick); err != nil {
			return err
		}
		if now := p.view.life(at); now.state == statePresent && now.heartbeat != before.heartbeat {
			p.part = at
			return fmt.Errorf("node %d lives already%s; each engine needs a number of its own: another node=, or none", p.number, p.who())
		}
	}
	return nil
}

// who describes the other engine that is this node, as far as it is known.
func (p *Pool) who() string {
	d, _, err := p.view.described(p.part)
	if err != nil {
		return ""
	}
	name := ""
	if d.name != "" {
		name = fmt.Sprintf(" %q", d.name)
	}
	return fmt.Sprintf(": it is engine %016x%s", d.guid, name)
}

// join makes this engine a node of the pool. All links are down at first. The table of pairs is blank before
// the epoch is published, so that the others find no pair of an earlier life in it.
//
// Publish: state, which covers the description, the board and the table. Observed by view.life of other
// nodes.
func (p *Pool) join(h header) {
	p.own.Lock()
	defer p.own.Unlock()
	p.header, p.lost, p.changed, p.damaged = h, "", true, false
	p.part, p.share, p.fences, p.sessions = h.partAt(p.number), newShare(&h), nil, 0
	p.links, p.unseen, p.turn = make([]*link, h.nodes), make([]time.Duration, h.nodes), 0
	p.stale = nil
	p.state.Store(newState(p.number, h.nodes))
	p.ousted.Store(false)
	if !h.incoherent {
		p.view.cache = nil
	}
	p.inherit()
	p.blankTable()
	epoch := p.draw()&^(1<<32-1) | 1<<32
	p.description = description{
		dead: p.cfg.Dead,
		guid: p.dev.GUID(), host: p.host, mtu: p.mtu(), wakes: p.wakes, names: true, epoch: epoch,
		name: p.cfg.Name, addresses: p.addressList(),
	}
	p.life = life{
		heartbeat: p.life.heartbeat, epoch: epoch, identity: h.identity, state: statePresent,
		looks: p.life.looks, changes: p.draw(), room: p.share.room(pagesOf(h.ring)),
		posted: p.view.post(p.part, p.board), described: p.view.describe(p.part, &p.description),
	}
	p.view.postAt(p.part+summaryAt, nil) // that of an earlier life
	p.view.put(p.part+heartbeatAt, p.life.heartbeat)
	p.view.putLife(p.part, &p.life)
	p.epoch.Store(epoch)
	p.joined = true
	if h.incoherent && !h.sums && p.cfg.Sums != SumsOff {
		p.cfg.Log.Warn("packets in this pool have no check sums, although its caches are not coherent: it was formatted by an older release, or with sums=off; remove the file when no engine uses it, or begin with sums=on on node 0", "link", p.Name())
	}
}

// blankTable takes all pairs out of this node's table.
func (p *Pool) blankTable() {
	for i := range p.header.pairs() {
		p.blankPair(p.header.pairAt(p.number, i))
	}
	p.named = nameSet{}
	p.view.write(p.part+namesAt, make([]byte, namesSize))
}

// addressList returns the addresses that are to be published: those of the Config at first.
func (p *Pool) addressList() []Address {
	if p.description.guid != 0 {
		return p.description.addresses
	}
	return p.cfg.Addresses
}

// mtu returns the most bytes of payload that this node accepts.
func (p *Pool) mtu() int {
	if p.cfg.MTU == 0 {
		return p.header.mtu
	}
	return min(p.cfg.MTU, p.header.mtu)
}
