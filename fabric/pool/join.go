package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// start formats the pool, or waits until node 0 has done so, and joins it.
func (p *Pool) start(ctx context.Context) error {
	h, err := p.prepare(ctx)
	if err != nil {
		return err
	}
	if h.incoherent && !canFlush && p.view.cache == nil {
		return errors.New("it has coherence=none, and this processor cannot flush lines of 64 bytes")
	}
	if err := p.claim(ctx, &h); err != nil {
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

// prepare returns the header. Node 0 formats the pool if it is not formatted as it should be.
func (p *Pool) prepare(ctx context.Context) (header, error) {
	if p.cfg.Node != 0 {
		return p.await(ctx)
	}
	h, err := p.readHeader()
	if err == nil {
		if err = h.suits(&p.cfg); err == nil {
			return h, nil
		}
	}
	if !errors.Is(err, errBlank) {
		// It is a pool. Its nodes may live.
		others, live := p.living(ctx)
		if live != nil {
			return h, live
		}
		if len(others) > 0 {
			return h, fmt.Errorf("%w, and it is in use by %s; end these engines, or ask for what it is", err, strings.Join(others, " and "))
		}
	}
	h, err = plan(&p.cfg, uint64(len(p.view.mem)))
	if err != nil {
		return h, err
	}
	h.identity = max(1, p.draw())
	p.format(&h)
	return h, nil
}

// format writes the header. Everything else in the pool is written by its nodes when they join.
//
// Publish: magic. Observed by Pool.readHeader.
func (p *Pool) format(h *header) {
	var b [headerSize]byte
	h.put(&b)
	p.view.put(0, 0)
	for i := uint64(8); i < headerSize; i += 8 {
		p.view.put(i, be.Uint64(b[i:]))
	}
	p.view.put(0, magic)
	p.view.writeBack(0, headerSize)
}

// await waits until node 0 has formatted the pool.
func (p *Pool) await(ctx context.Context) (header, error) {
	for {
		h, err := p.readHeader()
		if err == nil {
			err = h.suits(&p.cfg)
		}
		if err == nil {
			return h, nil
		}
		if err := p.waiting.tick(ctx, &p.cfg, p.time, err); err != nil {
			return h, err
		}
	}
}

// readHeader returns the header. If it is being written, the check sum is wrong.
//
// Observe: magic, published by Pool.format.
func (p *Pool) readHeader() (header, error) {
	var b [headerSize]byte
	p.view.read(0, b[:])
	return parseHeader(&b, uint64(len(p.view.mem)))
}

// living names the nodes other than this one whose heartbeats move, after looking for Config.Dead.
func (p *Pool) living(ctx context.Context) (names []string, err error) {
	var before [MaxNodes]life
	for i := range before {
		before[i] = p.view.life(i)
	}
	for c := (clock{}); c.look(p.time.Now()) < p.cfg.Dead; {
		if err := p.time.Sleep(ctx, tick); err != nil {
			return nil, err
		}
	}
	for i := range before {
		now := p.view.life(i)
		if i != p.cfg.Node && now.state == statePresent && now.heartbeat != before[i].heartbeat {
			names = append(names, fmt.Sprintf("node %d", i))
		}
	}
	return names, nil
}

// claim returns an error if another engine with this node's number lives.
func (p *Pool) claim(ctx context.Context, h *header) error {
	before := p.view.life(p.cfg.Node)
	if before.state != statePresent || before.identity != h.identity {
		return nil
	}
	p.cfg.Log.Warn("this node was left without a farewell, or lives in another engine; its heartbeat is watched", "link", p.Name(), "most", p.cfg.Dead)
	for c := (clock{}); c.look(p.time.Now()) < p.cfg.Dead; {
		if err := p.time.Sleep(ctx, tick); err != nil {
			return err
		}
		if now := p.view.life(p.cfg.Node); now.state == statePresent && now.heartbeat != before.heartbeat {
			return fmt.Errorf("node %d lives already%s; each engine needs a number of its own (node=)", p.cfg.Node, p.who())
		}
	}
	return nil
}

// who describes the other engine that is this node, as far as it is known.
func (p *Pool) who() string {
	d, _, err := p.view.described(p.cfg.Node)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(": it is engine %016x %q", d.guid, d.name)
}

// join makes this engine a node of the pool. All links are down at first.
//
// Publish: state, which covers the description and the board. Observed by view.life of other nodes. The lines
// about other nodes keep what they have: no session of an earlier life is one of this life.
func (p *Pool) join(h header) {
	p.own.Lock()
	defer p.own.Unlock()
	p.header, p.lost, p.changed, p.damaged = h, "", true, false
	p.ousted.Store(false)
	if !h.incoherent {
		p.view.cache = nil
	}
	epoch := p.draw()&^(1<<32-1) | 1<<32
	at := nodeAt(p.cfg.Node)
	p.description = description{
		guid: p.dev.GUID(), host: p.host, mtu: p.mtu(), wakes: p.wakes, epoch: epoch, name: p.cfg.Name,
		addresses: p.addressList(),
	}
	p.view.describe(p.cfg.Node, &p.description)
	p.view.post(p.cfg.Node, p.board)
	p.view.put(at+epochAt, epoch)
	p.view.put(at+identityAt, h.identity)
	p.view.put(at+heartbeatAt, p.heartbeat)
	p.view.put(at+stateAt, statePresent)
	p.view.writeBack(at, line)
	p.epoch.Store(epoch)
	p.links = nil
	for i := range h.nodes {
		if i != p.cfg.Node {
			p.links = append(p.links, newLink(p, i))
		}
	}
	p.joined = true
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
