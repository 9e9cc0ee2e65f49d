package costs

import (
	"fmt"

	"github.com/nicless/nicless/model"
)

// A Pricer computes when each access of a trace begins and ends on a preset. The result does not
// depend on how the trace is divided into calls of Add. A Pricer is not safe for concurrent use.
//
// Time passes as follows. Each agent makes its accesses in order, and waits for its loads; blocks of
// lines are fetched in parallel, as far as the lines in flight allow, and so are loads that follow each other
// if the core knows their addresses. Stores of a core wait in its store buffer: the fetches of ownership
// overlap, and the stores become visible in order. Writes of a CXL device, and writes to a pool without
// coherence, overlap without order, and the write of a signal or a completion waits until all earlier ones
// are answered. Posted writes on PCIe stay in order. An access that names others in After begins when they
// are visible. A poll without After finds nothing and takes no time of the path: the agent has nothing else
// to do; but it changes the state of the line, so that the next store to it has to take it away.
type Pricer struct {
	preset *Preset
	level  level // which end of the prices' ranges to use

	lines   map[model.Line]State
	regions map[string]model.Structure

	ready   [model.Agents]moment // time at which the agent's next access may begin
	stored  [model.Agents]moment // time at which the agent's last store became visible
	wrote   [model.Agents]moment // time at which the last of all stores of the agent became visible
	knew    [model.Agents]bool   // whether the agent's last access was a load whose address the agent knew
	visible map[int]moment       // time at which an access ended, or its store became visible, by Seq
	last    int                  // Seq of the last access
	any     bool                 // whether there was an access

	spans []Span
	count map[string]float64 // messages of the current request
	reqs  []reqResult
}

// A moment is a time in nanoseconds, and the index of the span that it comes from.
type moment struct {
	ns   float64
	span int
}

func later(a, b moment) moment {
	if b.ns > a.ns {
		return b
	}
	return a
}

// A Span is an access with its times in nanoseconds.
type Span struct {
	model.Access
	Request Request
	Begin   float64            // time at which the access could begin
	End     float64            // time at which the agent had the data, or the store was visible
	Parts   map[string]float64 // prices between Begin and End; what is missing is waiting for earlier stores

	shown  map[string]float64 // the part of Parts after the store left its agent
	from   int                // the span that it waited for, or -1
	idle   bool
	flight string // the quantity of lines in flight that Parts rest on, or ""
}

// A reqResult is what one work request cost.
type reqResult struct {
	req   int
	first int // index of its first span
	count map[string]float64
}

// NewPricer returns a Pricer for traces whose regions are regions.
func NewPricer(p *Preset, regions map[string]model.Structure) *Pricer {
	return newPricer(p, regions, nominal)
}

func newPricer(p *Preset, regions map[string]model.Structure, l level) *Pricer {
	m := &Pricer{preset: p, level: l, lines: map[model.Line]State{}, regions: regions,
		visible: map[int]moment{}}
	for a := range model.Agents {
		m.ready[a].span, m.stored[a].span, m.wrote[a].span = -1, -1, -1
	}
	return m
}

// Add prices accesses. After an error the Pricer is not usable.
func (m *Pricer) Add(list ...model.Access) error {
	for i := range list {
		if err := m.add(&list[i]); err != nil {
			return fmt.Errorf("access %v: %w", list[i], err)
		}
	}
	return nil
}

// check returns an error if an access cannot follow those before.
func (m *Pricer) check(a *model.Access) error {
	switch {
	case !a.Known():
		return fmt.Errorf("agent %d, operation %d, kind %d, reason %d: one of them does not exist", a.Who, a.Op, a.Kind, a.Why)
	case m.any && a.Seq <= m.last:
		return fmt.Errorf("seq does not increase: the access before has %d", m.last)
	case len(m.reqs) > 0 && a.Req < m.reqs[len(m.reqs)-1].req:
		return fmt.Errorf("req %d is less than that of the access before, %d", a.Req, m.reqs[len(m.reqs)-1].req)
	case a.Op != model.Work && (a.N < 1 || a.N > model.MaxLines):
		return fmt.Errorf("%d lines are not 1..%d", a.N, model.MaxLines)
	}
	for _, s := range a.After {
		if _, ok := m.visible[s]; !ok {
			return fmt.Errorf("after %d, which is no earlier access", s)
		}
	}
	return nil
}

func (m *Pricer) add(a *model.Access) error {
	if err := m.check(a); err != nil {
		return err
	}
	if len(m.reqs) == 0 || m.reqs[len(m.reqs)-1].req != a.Req {
		m.reqs = append(m.reqs, reqResult{a.Req, len(m.spans), map[string]float64{}})
	}
	m.count = m.reqs[len(m.reqs)-1].count
	m.last, m.any = a.Seq, true

	defer func() { m.knew[a.Who] = a.Op == model.Load && a.Why == model.Once }()
	s := Span{Access: *a, Parts: map[string]float64{}, from: -1}
	me := len(m.spans)
	start := m.ready[a.Who]
	for _, seq := range a.After {
		start = later(start, m.visible[seq])
	}
	if a.Op == model.Work {
		s.Begin, s.from = start.ns, start.span
		s.End = start.ns + m.charge(&s, workPrice(a.Who), 1)
		m.ready[a.Who] = moment{s.End, me}
		m.visible[a.Seq] = m.ready[a.Who]
		m.spans = append(m.spans, s)
		return nil
	}
	c, err := m.lookUp(a, &s)
	if err != nil {
		return err
	}
	switch {
	case a.Op == model.Load && (a.Why == model.Prefetch || a.Why == model.Poll && len(a.After) == 0):
		// No agent waits.
		s.idle = true
		clear(s.Parts)
		s.Begin, s.End, s.from = start.ns, start.ns, start.span
		m.visible[a.Seq] = moment{start.ns, me}
	case a.Op == model.Load:
		s.Begin, s.from = start.ns, start.span
		s.End = start.ns + c.path
		m.ready[a.Who] = moment{s.End, me}
		m.visible[a.Seq] = m.ready[a.Who]
	default:
		m.store(a, &s, c, start, me)
	}
	m.spans = append(m.spans, s)
	return nil
}

// store computes when a store becomes visible.
func (m *Pricer) store(a *model.Access, s *Span, c cost, start moment, me int) {
	if c.order == Awaited && (a.Why == model.Complete || a.Why == model.Signal) {
		start = later(start, m.wrote[a.Who])
	}
	s.Begin, s.from = start.ns, start.span
	own := start.ns + c.path
	end := own + c.shown
	if c.order != Awaited {
		// In order: behind the store before, but the fetch of the line overlaps the wait.
		if before := m.stored[a.Who]; before.ns > own {
			s.Begin, s.from = before.ns, before.span
			m.drop(s, c.path)
			end = before.ns + c.shown
		}
		m.stored[a.Who] = moment{end, me}
	}
	s.End = end
	m.visible[a.Seq] = moment{end, me}
	// of two that end together the newer one, which belongs to the request at hand
	if end >= m.wrote[a.Who].ns {
		m.wrote[a.Who] = moment{end, me}
	}
	if a.Op == model.RMW || a.Op == model.Flush {
		m.ready[a.Who] = moment{end, me}
	}
}

// drop removes prices from a span whose path is hidden behind an earlier store.
func (m *Pricer) drop(s *Span, path float64) {
	if path == 0 {
		return
	}
	clear(s.Parts)
	for name, ns := range s.shown {
		s.Parts[name] = ns
	}
}
