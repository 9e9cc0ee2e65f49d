package costs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nicless/nicless/model"
)

// Options say which part of a trace a report is about.
type Options struct {
	// Warm is the number of work requests at the beginning of the trace that are priced but not
	// reported: until buffers are used again, and caches hold what they hold in steady traffic.
	Warm int

	// Until is the agent whose last load ends a request: Host, for the completion, or Peer, for the payload
	// or the receive's completion. If the agent loads nothing, the request's last access ends it.
	Until model.Agent
}

// A Figure is a number of nanoseconds with the range that the ranges of the prices give.
type Figure struct {
	NS   float64 `json:"ns"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// A Report is what the requests of a trace cost on a preset.
type Report struct {
	Preset   string  `json:"preset"`
	About    string  `json:"about"`
	Fabric   string  `json:"fabric"`
	Requests int     `json:"requests"` // those reported
	Until    string  `json:"until"`
	Latency  Figure  `json:"latency"` // from the first access of a request to its end; a mean over requests
	Steps    []Step  `json:"steps"`
	Bounds   []Bound `json:"bounds"`

	// Messages counts messages on the link for each request, by the names of Linux's CXL PMU events; TLPs of
	// PCIe have names of their own.
	Messages map[string]float64 `json:"messages"`

	// Rests lists the prices on the critical path, the weakest first. Trust is the weakest of them.
	Trust string  `json:"trust"`
	Vague bool    `json:"vague"` // numbers deserve two digits
	Rests []Basis `json:"rests"`
}

// A Step is a part of the critical path: all accesses of one kind by one agent.
type Step struct {
	Name  string             `json:"name"` // such as "dev load wqe"
	NS    float64            `json:"ns"`   // for each request
	Parts map[string]float64 `json:"parts"`
}

// A Bound is a limit of the rate of requests.
type Bound struct {
	Name string  `json:"name"`
	NS   float64 `json:"ns"`   // time of the named part for each request
	Mops float64 `json:"mops"` // million requests a second
}

// A Basis is a price that a report rests on.
type Basis struct {
	Price  string  `json:"price"`
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Trust  string  `json:"trust"` // the letter
	Source string  `json:"source"`
}

// Run prices a trace on a preset.
func Run(p *Preset, t model.Trace, o Options) (*Report, error) {
	var at [3]*Pricer
	for l := range at {
		at[l] = newPricer(p, t.Regions, level(l))
		if err := at[l].Add(t.Accesses...); err != nil {
			return nil, fmt.Errorf("preset %s: %w", p.Name, err)
		}
	}
	return report(at, o)
}

// report makes a report of pricers at the nominal prices and at the ends of their ranges.
func report(at [3]*Pricer, o Options) (*Report, error) {
	m := at[nominal]
	if n := len(m.reqs); n <= o.Warm || o.Warm < 0 {
		return nil, fmt.Errorf("the trace has %d requests, the first %d of which are for warming up", n, o.Warm)
	}
	p := m.preset
	r := &Report{Preset: p.Name, About: p.About, Fabric: p.Fabric.Name, Requests: len(m.reqs) - o.Warm,
		Until: o.Until.String(), Messages: map[string]float64{}}
	each := 1 / float64(r.Requests)
	paths := m.paths(o)
	steps := map[string]*Step{}
	rests := map[string]bool{}
	var order []string
	for _, path := range paths {
		var names []string
		for _, s := range path {
			name := s.name()
			names = append(names, name)
			if steps[name] == nil {
				steps[name] = &Step{Name: name, Parts: map[string]float64{}}
			}
			steps[name].NS += (s.End - s.Begin) * each
			for price, ns := range s.Parts {
				steps[name].Parts[price] += ns * each
				rests[price] = rests[price] || ns > 0
			}
			if s.flight != "" {
				rests[s.flight] = true
			}
		}
		order = mergeOrder(order, names)
	}
	for _, name := range order {
		r.Steps = append(r.Steps, *steps[name])
		r.Latency.NS += steps[name].NS
	}
	r.Latency.Low, r.Latency.High = at[low].mean(o), at[high].mean(o)
	for _, req := range m.reqs[o.Warm:] {
		for name, n := range req.count {
			r.Messages[name] += n * each
		}
	}
	r.Bounds = m.bounds(o)
	r.rest(p, rests)
	return r, nil
}

// rest fills in what the report rests on.
func (r *Report) rest(p *Preset, used map[string]bool) {
	var names []string
	for price := range used {
		if used[price] {
			names = append(names, price)
		}
	}
	var weakest Trust
	r.Rests, weakest = p.rests(names)
	r.Trust, r.Vague = weakest.String(), weakest.Vague()
}

// rests returns the prices of these names, the weakest first, and their weakest trust.
func (p *Preset) rests(names []string) (list []Basis, weakest Trust) {
	for _, price := range names {
		q := p.Price[price]
		weakest = max(weakest, q.Trust)
		list = append(list, Basis{price, q.Value, q.Low, q.High, q.Trust.Letter(), q.Source})
	}
	slices.SortFunc(list, func(a, b Basis) int {
		if d := strings.Index(trustLetters, b.Trust) - strings.Index(trustLetters, a.Trust); d != 0 {
			return d
		}
		return strings.Compare(a.Price, b.Price)
	})
	return list, weakest
}

// name returns the name of the step that a span belongs to.
func (s *Span) name() string {
	if s.Op == model.Work {
		return s.Who.String() + " work"
	}
	return fmt.Sprintf("%v %v %v", s.Who, s.verb(), s.Kind)
}

func (s *Span) verb() string {
	if s.Op == model.Load && s.Why == model.Poll {
		return "poll"
	}
	return s.Op.String()
}

// paths returns the critical path of each reported request, in the order of time.
func (m *Pricer) paths(o Options) (all [][]*Span) {
	for i := o.Warm; i < len(m.reqs); i++ {
		first, end := m.reqs[i].first, len(m.spans)
		if i+1 < len(m.reqs) {
			end = m.reqs[i+1].first
		}
		var path []*Span
		for at := m.ending(first, end, o.Until); at >= first; at = m.spans[at].from {
			path = append(path, &m.spans[at])
		}
		slices.Reverse(path)
		all = append(all, path)
	}
	return all
}

// ending returns the span that ends the request whose spans are first..end-1.
func (m *Pricer) ending(first, end int, until model.Agent) int {
	for i := end - 1; i >= first; i-- {
		if s := &m.spans[i]; s.Who == until && s.Op == model.Load && !s.idle {
			return i
		}
	}
	at := first
	for i := first; i < end; i++ {
		if m.spans[i].End >= m.spans[at].End {
			at = i
		}
	}
	return at
}

// mean returns the mean length of the reported requests' critical paths.
func (m *Pricer) mean(o Options) (ns float64) {
	paths := m.paths(o)
	for _, path := range paths {
		for _, s := range path {
			ns += s.End - s.Begin
		}
	}
	return ns / float64(len(paths))
}

// bounds returns limits of the rate at which requests can follow each other, the lowest rate first. Latency
// does not limit a rate if there is work enough, but the wires do, and an agent that does one thing after the
// other.
func (m *Pricer) bounds(o Options) []Bound {
	first := m.reqs[o.Warm].first
	sum := map[string]float64{}
	for i := range m.spans[first:] {
		s := &m.spans[first+i]
		if s.idle {
			continue
		}
		if s.Op == model.Load || s.Op == model.RMW || s.Op == model.Work {
			if s.Why != model.Poll {
				sum[s.Who.String()+", one request after another"] += s.End - s.Begin
			}
		}
		if s.Who == model.Dev && len(m.preset.Fabric.Reads) > 0 && s.Op != model.Work && s.Kind != model.Key {
			name, price := "link, reads by the device", "next_read"
			if s.Op != model.Load {
				name, price = "link, writes by the device", "next_write"
			}
			sum[name] += float64(s.N) * m.preset.Price[price].Value
		}
	}
	var list []Bound
	each := 1 / float64(len(m.reqs)-o.Warm)
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		if ns := sum[name] * each; ns > 0 {
			list = append(list, Bound{name, ns, 1e3 / ns})
		}
	}
	slices.SortStableFunc(list, func(a, b Bound) int {
		switch {
		case a.Mops < b.Mops:
			return -1
		case a.Mops > b.Mops:
			return 1
		}
		return 0
	})
	return list
}
