package costs

import (
	"fmt"
	"slices"

	"github.com/nicless/nicless/model"
)

// A cost is the price of an access to all its lines.
type cost struct {
	path, shown float64
	order       Order
}

// lookUp finds the rule for each line of an access, changes the lines' states, counts messages, and
// returns the cost.
func (m *Pricer) lookUp(a *model.Access, s *Span) (c cost, err error) {
	reqs, err := m.preset.choose(a)
	if err != nil {
		return c, err
	}
	s.Request = reqs[len(reqs)-1]
	structure, ok := m.regions[a.Line.Region]
	if !ok {
		return c, fmt.Errorf("line %v: region %q has no place: the trace does not say which structure it is", a.Line, a.Line.Region)
	}
	if structure == model.Keys {
		c.path = m.charge(s, "hit", 1) // the device's own memory
		return c, nil
	}
	if m.preset.Fabric.Bells && a.Kind == model.UAR && a.Why == model.Once && a.Op == model.Store {
		return c, nil // the doorbell, which the signal before it stands for
	}
	for i := range a.N {
		line := model.Line{Region: a.Line.Region, Index: a.Line.Index + i}
		if _, ok := m.lines[line]; !ok {
			m.lines[line] = m.fresh(structure)
		}
		for _, req := range reqs {
			if err := m.request(a, s, req, line, i > 0, &c); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// request makes one request for one line, and adds its price to c. The argument further says that it is not
// the first line of the access.
func (m *Pricer) request(a *model.Access, s *Span, req Request, line model.Line, further bool,
	c *cost) error {
	r, err := m.preset.Fabric.find(a.Who, req, m.lines[line])
	if err != nil {
		return err
	}
	m.lines[line] = r.next(a.Who, m.lines[line])
	for _, name := range r.Msgs {
		m.count[name]++
	}
	if further {
		c.path += m.further(a, s, r)
		return nil
	}
	factor := 1.0
	if req == CoreKnown && m.knew[a.Who] {
		s.flight = "loads_in_flight"
		factor = 1 / m.inFlight(s.flight)
	}
	for _, name := range r.Path {
		c.path += m.charge(s, name, factor)
	}
	for _, name := range r.Shown {
		c.shown += m.chargeShown(s, name)
	}
	c.order = r.Order
	return nil
}

// further returns what one more line of a block costs.
func (m *Pricer) further(a *model.Access, s *Span, r *Rule) float64 {
	if a.Who == model.Dev && len(m.preset.Fabric.Reads) > 0 {
		if len(r.Msgs) == 0 {
			return 0 // the device's own memory or cache
		}
		if a.Op == model.Load {
			return m.charge(s, "next_read", 1)
		}
		return m.charge(s, "next_write", 1)
	}
	flight := "loads_in_flight"
	if a.Op != model.Load {
		flight = "stores_in_flight"
	}
	s.flight = flight
	ns := 0.0
	for _, name := range slices.Concat(r.Path, r.Shown) {
		ns += m.charge(s, name, 1/m.inFlight(flight))
	}
	return ns
}

// inFlight returns how many lines a core has in flight. More lines cost less, so the ends of the range are
// the other way round.
func (m *Pricer) inFlight(name string) float64 {
	return max(m.preset.Price[name].at([...]level{nominal, high, low}[m.level]), 1)
}

// charge adds a price, times factor, to a span, and returns it.
func (m *Pricer) charge(s *Span, name string, factor float64) float64 {
	name = m.special(s, name)
	ns := m.preset.Price[name].at(m.level) * factor
	s.Parts[name] += ns
	return ns
}

// special returns the name of the price that a span pays: a price of the line's kind, such as "upgrade.cqe",
// goes before the general one.
func (m *Pricer) special(s *Span, name string) string {
	if s.Op != model.Work {
		if special := name + "." + s.Kind.String(); m.preset.has(special) {
			return special
		}
	}
	return name
}

// chargeShown is charge for a price after a store has left its agent.
func (m *Pricer) chargeShown(s *Span, name string) float64 {
	ns := m.charge(s, name, 1)
	if s.shown == nil {
		s.shown = map[string]float64{}
	}
	s.shown[m.special(s, name)] += ns
	return ns
}

// fresh returns the state of a line that was not touched.
func (m *Pricer) fresh(structure model.Structure) State {
	s := State{Home: m.preset.home(structure)}
	if s.Home == DeviceMemory && m.preset.Bias == DeviceBias {
		s.Bias = DeviceBias
	}
	return s
}

func workPrice(who model.Agent) string {
	if who == model.Dev {
		return "device_work"
	}
	return "host_work"
}
