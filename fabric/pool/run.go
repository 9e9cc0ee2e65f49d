package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/nicless/nicless/fabric"
)

// repeat calls the functions once per tick until ctx ends.
func (p *Pool) repeat(ctx context.Context, functions ...func()) {
	for ctx.Err() == nil {
		for _, f := range functions {
			if err := p.guard(func() error { f(); return nil }); err != nil {
				p.end(err.Error())
			}
		}
		_ = p.time.Sleep(ctx, tick)
	}
}

// tickDuring calls f on a goroutine of its own, and moves the heartbeat until f has returned. A
// node is not dead because its engine is busy.
func (p *Pool) tickDuring(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			p.tick()
		}
	}
}

// end makes this node leave the pool for good. watch closes the links.
func (p *Pool) end(why string) { p.ended.CompareAndSwap(nil, &why) }

// guard calls f. It returns the error of f, or an error if the pool's memory vanishes meanwhile, as when
// somebody makes the file shorter.
func (p *Pool) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(interface{ Addr() uintptr }); !ok {
				panic(r)
			}
			p.gone.Store(true)
			err = errors.New("the pool's memory is gone: has somebody made the file shorter?")
		}
	}()
	return f()
}

// tick moves the heartbeat. It never waits for the engine or for other nodes.
//
// Publish: heartbeat. Observed by view.life of other nodes.
func (p *Pool) tick() {
	p.own.Lock()
	defer p.own.Unlock()
	if !p.joined || p.gone.Load() {
		return
	}
	if why := p.restoreLife(); why != "" {
		p.joined = false
		p.watchRival(why)
		return
	}
	p.heartbeat++
	p.view.store(nodeAt(p.cfg.Node)+heartbeatAt, p.heartbeat)
	if p.heartbeat%uint64(ownPeriod/tick) == 0 {
		p.mend()
	}
}

// watch looks at the header and at all nodes.
func (p *Pool) watch() {
	now := p.time.Now()
	ran := p.clock.look(now)
	if why := p.ended.Load(); why != nil {
		p.leave(*why)
		p.publish()
		return
	}
	if p.rival.why != "" {
		p.leave(p.rival.why)
		if !p.updateRival(now, ran) {
			p.publish()
			return
		}
	}
	h, err := p.readHeader()
	switch {
	case err == nil && h == p.header:
		if p.lost != "" {
			p.join(h) // it is as it was
		}
	case p.cfg.Node == 0:
		p.cfg.Log.Warn("the header of the pool has changed; it is written again", "link", p.Name(), "error", err)
		p.format(&p.header)
	case errors.Is(err, errBlank), errors.Is(err, errDamaged):
		// It was overwritten. Node 0 writes it again. As long as the pool has not been
		// formatted anew, the rings are where they were.
		if p.lost != "" {
			break
		}
		if !p.damaged {
			p.cfg.Log.Warn("the header of the pool is damaged; node 0 writes it again", "link", p.Name(), "error", err)
		}
		p.damaged = true
	default:
		if err == nil {
			err = h.suits(&p.cfg)
		}
		if err == nil && h.incoherent && p.view.cache == nil && canFlush {
			p.own.Lock()
			p.view.cache = flusher{}
			p.own.Unlock()
		}
		if err != nil {
			p.leave(fmt.Sprintf("the pool is not usable now: %v", err))
			break
		}
		p.leave("the pool was formatted anew")
		p.join(h)
	}
	if p.lost == "" {
		for _, l := range p.links {
			l.step(now, ran)
		}
	}
	p.publish()
}

// closedHere is why a pool ends in the normal way.
const closedHere = "the pool is closed here"

// levelOf is the level at which the log reports that a link or the pool ends.
func levelOf(why string) slog.Level {
	if why == closedHere {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// leave closes all links and reports to the other nodes that this one is not there.
func (p *Pool) leave(why string) {
	for _, l := range p.links {
		l.closePort(why)
	}
	if p.lost != "" {
		return
	}
	p.lost, p.changed = why, true
	p.cfg.Log.Log(context.Background(), levelOf(why), "this node leaves the pool", "link", p.Name(), "why", why)
	p.own.Lock()
	defer p.own.Unlock()
	p.joined = false
	if p.ended.Load() == nil && !p.ousted.Load() {
		p.view.store(nodeAt(p.cfg.Node)+stateAt, stateLeft)
	}
}

// publish replaces the state that Route and Peers return, if it has changed.
func (p *Pool) publish() {
	if !p.changed {
		return
	}
	p.changed = false
	s := &state{}
	for _, l := range p.links {
		peer := peerState{Peer: fabric.Peer{
			Name: fmt.Sprintf("node %d", l.peer), Up: l.up, Why: l.why, Since: l.since, Faults: l.faults,
		}}
		if l.epoch != 0 {
			peer.GUID, peer.addresses = l.desc.guid, l.desc.addresses
		}
		if path := l.path.Load(); path != nil {
			peer.path, peer.MTU = *path, path.MTU
		}
		s.peers = append(s.peers, peer)
	}
	p.state.Store(s)
}

// systemTimer is the timer outside of tests.
type systemTimer struct{}

func (systemTimer) Now() time.Time { return time.Now() }

func (systemTimer) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
