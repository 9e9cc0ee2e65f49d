//go:build linux && (amd64 || arm64)

package explore

import (
	"context"
	"reflect"
	"slices"

	"github.com/nicless/nicless/fault"
)

// Shrink returns a shorter plan of which fails still says true. It makes at most runs calls of fails, none
// after ctx has ended, and leaves p as it is. It leaves out, in this order: steps, in blocks that become
// smaller and smaller (delta debugging); work requests, rules, and what is special about those that stay;
// and again, until nothing more can go.
func Shrink(ctx context.Context, p *Plan, runs int, fails func(p *Plan) bool) *Plan {
	s := &shrinker{ctx: ctx, best: clone(p), left: runs, fails: fails}
	for before := -1; before != s.left && s.left > 0; {
		before = s.left
		kept := s.kept
		s.steps()
		s.parts()
		if s.kept == kept {
			break
		}
	}
	return s.best
}

type shrinker struct {
	ctx   context.Context
	best  *Plan
	left  int
	kept  int // how often a shorter plan was found
	fails func(p *Plan) bool
}

// clone returns a copy whose steps and work requests can be changed.
func clone(p *Plan) *Plan {
	c := *p
	c.Links = slices.Clone(p.Links)
	c.Steps = slices.Clone(p.Steps)
	for i := range c.Steps {
		c.Steps[i].Work = slices.Clone(c.Steps[i].Work)
		if r := c.Steps[i].Rules; r != nil {
			c.Steps[i].Rules = &fault.Rules{Seed: r.Seed, Rules: slices.Clone(r.Rules)}
		}
	}
	return &c
}

// try keeps a plan if it still fails.
func (s *shrinker) try(change func(p *Plan)) bool {
	if s.left <= 0 || s.ctx.Err() != nil {
		return false
	}
	p := clone(s.best)
	change(p)
	if reflect.DeepEqual(p, s.best) {
		return false
	}
	s.left--
	if p.Check() != nil || !s.fails(p) {
		return false
	}
	s.best = p
	s.kept++
	return true
}

// steps leaves out blocks of steps.
func (s *shrinker) steps() {
	for n := (len(s.best.Steps) + 1) / 2; n > 0; n /= 2 {
		for at := len(s.best.Steps) - n; at > -n && s.left > 0 && s.ctx.Err() == nil; at -= n {
			from, to := max(at, 0), min(at+n, len(s.best.Steps))
			if from < to {
				s.try(func(p *Plan) { p.Steps = slices.Delete(p.Steps, from, to) })
			}
		}
	}
}

// parts makes what is left simpler.
func (s *shrinker) parts() {
	for i := range s.best.Steps {
		for j := len(s.best.Steps[i].Work) - 1; j >= 0 && len(s.best.Steps[i].Work) > 1; j-- {
			s.try(func(p *Plan) { p.Steps[i].Work = slices.Delete(p.Steps[i].Work, j, j+1) })
		}
		for j := range s.best.Steps[i].Work {
			s.work(i, j)
		}
		s.rules(i)
		if s.best.Steps[i].N > 1 {
			s.try(func(p *Plan) { p.Steps[i].N = 1 })
		}
		if s.best.Steps[i].Do == Post {
			s.try(func(p *Plan) { p.Steps[i].N = 0 })
		}
	}
	s.try(func(p *Plan) { p.Burst = 0 })
	s.try(func(p *Plan) { p.Slice = 0 })
	s.try(func(p *Plan) { p.Watch = false })
	for i := len(s.best.Links) - 1; i >= 0; i-- {
		s.try(func(p *Plan) { p.Links[i].Shared = false })
		s.try(func(p *Plan) { p.Links[i].Register = false })
		if len(s.best.Links) > 1 {
			s.try(func(p *Plan) { p.unlink(i) })
		}
	}
	for s.best.Clients > 1 && s.try(func(p *Plan) { p.Clients-- }) {
	}
}

// rules leaves rules of a step out, but the last one.
func (s *shrinker) rules(i int) {
	if s.best.Steps[i].Rules == nil {
		return
	}
	for j := len(s.best.Steps[i].Rules.Rules) - 1; j >= 0 && len(s.best.Steps[i].Rules.Rules) > 1; j-- {
		s.try(func(p *Plan) {
			r := p.Steps[i].Rules
			r.Rules = slices.Delete(r.Rules, j, j+1)
		})
	}
}

// unlink leaves a link out, and its steps.
func (p *Plan) unlink(link int) {
	p.Links = slices.Delete(p.Links, link, link+1)
	p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.onQueue() && s.QP/2 == link })
	for i := range p.Steps {
		if s := &p.Steps[i]; s.onQueue() && s.QP/2 > link {
			s.QP -= 2
		}
	}
}

// onQueue reports whether a step is about a queue pair.
func (s *Step) onQueue() bool {
	switch s.Do {
	case Post, Receive, Poll, Fail, Reconnect, Deregister:
		return true
	}
	return false
}

// work makes a work request simpler.
func (s *shrinker) work(i, j int) {
	x := s.best.Steps[i].Work[j]
	for _, change := range []func(w *Work){
		func(w *Work) { w.Fence = false }, func(w *Work) { w.Silent = false },
		func(w *Work) { w.Inline = false }, func(w *Work) { w.Pieces = 0 },
		func(w *Work) { w.At = 0 }, func(w *Work) { w.N = min(w.N, 8) },
	} {
		y := x
		change(&y)
		if y != x && s.try(func(p *Plan) { p.Steps[i].Work[j] = y }) {
			x = y
		}
	}
}
