package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// prepare returns the header. Node 0, or a node without a number of its own, formats the pool if it is not
// formatted as it should be and nobody lives in it; the others wait.
func (p *Pool) prepare(ctx context.Context) (header, error) {
	if p.cfg.Node > 0 {
		return p.await(ctx)
	}
	for {
		h, err := p.steadyHeader(ctx)
		if err == nil {
			if err = h.suits(&p.cfg); err == nil {
				return h, nil
			}
		}
		if errors.Is(err, errVersion) || errors.Is(err, errTooLarge) {
			return h, err // nobody here sees all of its nodes, and whether they live
		}
		if h.identity != 0 { // it is a pool. Its nodes may live.
			if used := p.used(ctx, &h, err); used != nil {
				return h, used
			}
		}
		h, err = plan(&p.cfg, uint64(len(p.view.mem)))
		if err != nil {
			return h, err
		}
		h.identity = max(1, p.draw())
		p.format(&h)
		if p.cfg.Node == 0 {
			return h, nil
		}
		// Another node may have found the pool blank at the same time. The one that wrote last wins.
		if err := p.time.Sleep(ctx, claimTime); err != nil {
			return h, err
		}
	}
}

// steadyHeader returns the header, and waits for some time if it is damaged: the first node that lives
// writes it again then.
func (p *Pool) steadyHeader(ctx context.Context) (h header, err error) {
	for c := (clock{}); c.look(p.time.Now()) < p.cfg.watchTime(); {
		if h, err = p.readHeader(); !errors.Is(err, errDamaged) {
			break
		}
		if err := p.time.Sleep(ctx, tick); err != nil {
			return h, err
		}
	}
	return h, err
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

// await waits until another node has formatted the pool. If nodes live in one that is not what this node asks
// for, nobody will format it, and there is nothing to wait for.
func (p *Pool) await(ctx context.Context) (header, error) {
	var refused header // a pool in which nobody lived
	for {
		h, err := p.readHeader()
		if err == nil {
			if err = h.suits(&p.cfg); err == nil {
				return h, nil
			}
			if h != refused {
				if used := p.used(ctx, &h, err); used != nil {
					return h, used
				}
				refused = h
			}
		}
		if errors.Is(err, errTooLarge) {
			return h, err
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

// used returns an error if nodes live in a pool that this node cannot use. why says what is wrong with it.
func (p *Pool) used(ctx context.Context, h *header, why error) error {
	others, err := p.living(ctx, h)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%w, and it is in use by %s; end these engines, or ask for what it is", why, strings.Join(others, " and "))
	}
	return err
}

// living names the nodes other than this one whose heartbeats move, after looking for Config.Dead.
func (p *Pool) living(ctx context.Context, h *header) (names []string, err error) {
	before := make([]life, h.nodes)
	for i := range before {
		before[i], _ = p.peek(h, i)
	}
	if err := pass(ctx, p.time, p.cfg.watchTime()); err != nil {
		return nil, err
	}
	for i := range before {
		now, _ := p.peek(h, i)
		if i != p.cfg.Node && now.state == statePresent && now.heartbeat != before[i].heartbeat {
			names = append(names, fmt.Sprintf("node %d", i))
		}
	}
	return names, nil
}
