package fault

import "sync/atomic"

// A Set is rules that a device obeys.
type Set struct {
	rules   Rules
	acted   []atomic.Uint64 // how often each rule has acted
	sources atomic.Uint64   // how many Counters were made
}

// NewSet returns the set of rules, which it copies, or says what is wrong with them.
func NewSet(r *Rules) (*Set, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	s := &Set{rules: Rules{Seed: r.Seed, Rules: append([]Rule(nil), r.Rules...)}}
	for i := range s.rules.Rules {
		s.rules.Rules[i].number = i + 1
	}
	s.acted = make([]atomic.Uint64, len(s.rules.Rules))
	return s, nil
}

// Rules returns the rules of the set. They must not be changed.
func (s *Set) Rules() []Rule { return s.rules.Rules }

// Acted returns how often a rule has acted. It may be called on any goroutine.
func (s *Set) Acted(rule int) uint64 { return s.acted[rule].Load() }

// Act counts that a rule has acted: one that acts on events that no Counter counts, OnTime and OnQueue.
func (s *Set) Act(rule int) { s.acted[rule].Add(1) }

// A Source is what has events: a queue, a client or a link. Fields that it does not have are zero.
type Source struct {
	Program   string
	PID       int
	Client    uint32
	Device    string
	QP        uint32
	Transport Transport
}

// fits reports whether the fixed fields of a match fit a source.
func (m *Match) fits(w *Source) bool {
	return (m.Program == "" || m.Program == w.Program) &&
		(m.PID == 0 || m.PID == w.PID) &&
		(m.Client == 0 || m.Client == w.Client) &&
		(m.Device == "" || m.Device == w.Device) &&
		(m.QP == 0 || uint32(m.QP) == w.QP) &&
		(m.Transport == 0 || m.Transport == w.Transport)
}

// Counter returns what counts the events of a source of one kind, for the rules that the source can have to
// do with; nil if there are none. Counters are numbered in the order in which they are made, and each draws
// differently, so runs repeat if they make the same sources in the same order.
func (s *Set) Counter(on Event, from *Source) *Counter {
	var c *Counter
	for i := range s.rules.Rules {
		r := &s.rules.Rules[i]
		if r.On() != on || !r.Match.fits(from) {
			continue
		}
		if c == nil {
			c = &Counter{set: s, number: s.sources.Add(1)}
		}
		c.rules = append(c.rules, counted{rule: r, place: i})
	}
	return c
}
