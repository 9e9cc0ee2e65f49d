package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// repeat calls the functions once per pause (pace.go) until ctx ends.
func (p *Pool) repeat(ctx context.Context, functions ...func()) {
	defer context.AfterFunc(ctx, p.alarm.ring)()
	for ctx.Err() == nil {
		for _, f := range functions {
			p.guarded(f)
		}
		p.pause(ctx)
	}
}

// pause waits for the next look, or until a queue pair needs rings.
func (p *Pool) pause(ctx context.Context) {
	p.alarm.wait(ctx, max(tick, p.pace.pause))
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
			p.guarded(p.tick)
		}
	}
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
	p.life.heartbeat++
	p.view.store(p.part+heartbeatAt, p.life.heartbeat)
	if now := p.time.Now(); now.Sub(p.mended) >= ownPeriod || now.Before(p.mended) {
		p.mended = now
		p.mend()
	}
}

// watch looks at the header and at all nodes.
func (p *Pool) watch() {
	now := p.time.Now()
	ran := p.clock.look(now)
	if p.absence.why != "" {
		p.leave(p.absence.why)
		if !p.comeBack(now) {
			p.publish()
			return
		}
	}
	if p.rival.why != "" {
		p.leave(p.rival.why)
		if !p.updateRival(now, ran) && !p.changeNumber() {
			p.publish()
			return
		}
	}
	h, err := p.tryHeader()
	switch {
	case p.locate(err) != nil:
		p.missHeader(err)
	case err == nil && h == p.header:
		if p.lost != "" {
			p.join(h) // it is as it was
		}
	case errors.Is(err, errBlank), errors.Is(err, errDamaged):
		p.mendHeader(err)
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
		p.rejoin(h)
	}
	if p.lost == "" {
		p.look(now, ran)
	}
	if p.looked.Swap(false) {
		p.wakeSummary()
	}
	if p.absence.why != "" {
		p.leave(p.absence.why)
	}
	p.setPace(ran)
	p.publish()
	p.announce()
}

// rejoin joins a pool that was formatted anew. This node may have a number that the pool does not have now,
// or that another engine has: then it takes another one, if it was given none.
func (p *Pool) rejoin(h header) {
	p.leave("the pool was formatted anew")
	err := fmt.Errorf("it has %d nodes now, 0 to %d, and this is node %d: start it with another node=, or none",
		h.nodes, h.nodes-1, p.number)
	if p.number < h.nodes {
		err = p.claim(p.run, &h)
	}
	if err != nil && p.cfg.Node == AnyNode {
		err = p.elect(p.run, &h)
	}
	if err != nil {
		p.lost, p.changed = fmt.Sprintf("the pool was formatted anew: %v", err), true
		return
	}
	p.join(h)
}

// tryHeader is readHeader, with an error if the page is lost.
func (p *Pool) tryHeader() (h header, err error) {
	fault := p.guard(func() error { h, err = p.readHeader(); return nil })
	return h, errors.Join(err, fault)
}

// missHeader notes that the page of the header is lost. Nodes that have joined do not need it.
func (p *Pool) missHeader(err error) {
	if !p.damaged {
		p.cfg.Log.Warn("the header of the pool is lost: nodes that have joined go on, and no others can join", "link", p.Name(), "error", err)
	}
	p.damaged = true
}

// mendHeader writes the header again if this node is the first of those that live. As long as the pool has
// not been formatted anew, everything is where it was.
func (p *Pool) mendHeader(err error) {
	if p.lost != "" {
		return
	}
	first := !slices.ContainsFunc(p.links[:p.number], func(l *link) bool { return l != nil && l.alive })
	if first {
		p.cfg.Log.Warn("the header of the pool has changed; it is written again", "link", p.Name(), "error", err)
		p.format(&p.header)
	} else if !p.damaged {
		p.cfg.Log.Warn("the header of the pool is damaged; the first node that lives writes it again", "link", p.Name(), "error", err)
	}
	p.damaged = !first
}

// lookAt is how many nodes to which there are no rings are looked at in each tick. A node of 1,024 sees
// another one after 8 ticks, 160 ms, then; the look at a node of which nothing has changed is one line. A
// slow node (pace.go) looks at all of them each time.
const lookAt = 128

// look takes a step of each link: each time of those with rings and of those seen lately, in turn of the
// others.
func (p *Pool) look(now time.Time, ran time.Duration) {
	p.openFences(ran)
	p.takeBack(ran)
	p.searches = 0
	p.countUse(ran)
	count := lookAt
	if p.pace.slow() {
		count, p.turn = len(p.links), 0
	}
	for i := 0; i < len(p.links) && p.absence.why == ""; i++ {
		err := p.guard(func() error {
			for ; i < len(p.links); i++ {
				p.lookAtNode(i, count, now, ran)
			}
			return nil
		})
		if lost := p.locate(err); lost != nil {
			p.lose(i, lost, now, ran)
		}
	}
	p.turn += count
	if p.turn >= len(p.links) {
		p.turn = 0
	}
	// Nobody reads a page of the table that is lost.
	_ = p.guard(func() error { p.clearStrays(ran); return nil })
}

// lookAtNode takes a step of the link with a node, if the look is at that node.
func (p *Pool) lookAtNode(i, count int, now time.Time, ran time.Duration) {
	l := p.links[i]
	if p.unseen[i] > ran {
		return
	}
	if l != nil && (l.pair != nil || l.fresh(ran)) {
		l.step(now, ran)
		return
	}
	if due := i - p.turn; due < 0 || due >= count {
		if l == nil || !l.wanted.Load() {
			return
		}
	}
	if l == nil && i != p.number {
		l = p.sight(i)
	}
	if l != nil {
		l.step(now, ran)
	}
}

// sight returns the link with a node that is seen for the first time, nil if the node is not there.
func (p *Pool) sight(node int) *link {
	seen := p.view.life(p.header.partAt(node))
	if seen.state != statePresent || seen.identity != p.header.identity {
		return nil
	}
	p.links[node] = newLink(p, node)
	p.links[node].change()
	return p.links[node]
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
		if l != nil {
			l.withdrawBoard()
			l.close(why)
		}
	}
	if p.lost != "" {
		return
	}
	p.lost, p.changed = why, true
	p.cfg.Log.Log(context.Background(), levelOf(why), "this node leaves the pool", "link", p.Name(), "why", why)
	p.own.Lock()
	defer p.own.Unlock()
	p.joined = false
	if !p.ousted.Load() {
		p.reportLeft()
	}
}

// publish replaces what has changed of the state that Route and Peers return.
func (p *Pool) publish() {
	if !p.changed {
		return
	}
	p.changed = false
	s := p.state.Load()
	var lost *string
	if why := p.lost; why != "" {
		lost = &why
	}
	s.lost.Store(lost)
	for _, l := range p.stale {
		l.stale = false
		s.put(stateOf(l))
	}
	p.stale = nil
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
