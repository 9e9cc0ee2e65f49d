package pool

import (
	"errors"
	"fmt"
	"time"
)

// The pages in which a node says that it lives, what it is, and where its rings are, can be lost, too
// (lost.go). Without them it is no node. So it leaves, and looks from time to time whether they are there
// again. A node that was given no number takes another one.

// An absence is why and how long this node is not in the pool, because its own pages are lost. The zero
// value: it is not.
type absence struct {
	why   string
	until time.Time     // when the pages are looked at again
	rest  time.Duration // how long the next absence takes at least
	back  time.Time     // when this node came back from the last one
}

// guarded calls f. If what this node says of itself is lost meanwhile, the node leaves the pool with the
// next look.
func (p *Pool) guarded(f func()) {
	if err := p.guard(func() error { f(); return nil }); err != nil {
		p.loseOwn(p.locate(err))
	}
}

// loseOwn notes that this node's own pages are lost. It is called on the goroutine of watch.
func (p *Pool) loseOwn(lost *lostMemory) {
	a, now := &p.absence, p.time.Now()
	p.gone.Store(true)
	if a.why != "" {
		return
	}
	if a.rest == 0 || now.Sub(a.back) > mostRest {
		a.rest = firstRest
	}
	a.why, a.until = lost.Error(), now.Add(a.rest)
	a.rest = min(2*a.rest, mostRest)
}

// comeBack reports whether the node can be one again: its own pages are there, or those of another number.
func (p *Pool) comeBack(now time.Time) bool {
	a := &p.absence
	if now.Before(a.until) {
		return false
	}
	h, err := p.tryHeader()
	blank := errors.Is(err, errBlank) || errors.Is(err, errDamaged)
	ours := blank || err == nil && h == p.header // or else watch joins what is there now, if it suits
	if p.locate(err) != nil || ours && !p.findPlace() {
		a.until = now.Add(a.rest)
		a.rest = min(2*a.rest, mostRest)
		return false
	}
	if blank {
		p.format(&p.header) // as it was; other nodes that come back write the same bytes
	}
	p.cfg.Log.Info("this node comes back into the pool", "link", p.Name(), "node", p.number)
	a.why, a.back = "", now
	p.gone.Store(false)
	return true
}

// findPlace reports whether there is a part for this node. It may get another number.
func (p *Pool) findPlace() bool {
	h := &p.header
	there := p.present(h.partAt(p.number), h.ringsAt())
	var err error
	if there {
		err = p.guard(func() error { return p.reclaim(h) })
		if err == nil {
			return true
		}
	}
	switch {
	case p.cfg.Node == AnyNode:
		err = p.guard(func() error { return p.elect(p.run, h) })
		if err == nil && !p.present(h.partAt(p.number), h.ringsAt()) {
			err = fmt.Errorf("the pages of node %d are lost, too", p.number)
		}
		if err == nil {
			return true
		}
		err = fmt.Errorf("this node's own pages are lost, and it has found no other number: %w", err)
	case !there:
		return false
	}
	p.absence.why = err.Error()
	p.lost, p.changed = p.absence.why, true
	return false
}

// reclaim returns an error if another engine has become this node while its pages were lost.
func (p *Pool) reclaim(h *header) error {
	if p.view.life(h.partAt(p.number)).epoch == p.epoch.Load() {
		return nil // they are as this node has left them
	}
	return p.claim(p.run, h)
}

// reportLeft says to the others that this node is not there, if they can still read it.
func (p *Pool) reportLeft() {
	_ = p.guard(func() error { p.view.store(p.part+stateAt, stateLeft); return nil })
}
