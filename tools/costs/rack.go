package costs

import (
	"fmt"
	"math"

	"github.com/nicless/nicless/model/rack"
)

// A RackLoad is a rack and what its nodes do.
type RackLoad struct {
	Rack    rack.Rack
	Devices int          // of the pool, among which its lines are spread evenly: at least 1
	Traffic rack.Traffic // the packets of each node to each peer
	Rate    float64      // packets a second of each node to all its peers together
}

// DefaultRack returns a full rack: each node talks with 16 others, and writes 1,024 bytes to one of them
// every 10 us. There is a device for each 64 nodes. A WRITE that is one packet has 28 bytes of headers.
func DefaultRack() RackLoad {
	return RackLoad{
		Rack: rack.New(rack.MaxNodes, 16), Devices: rack.MaxNodes / 64, Rate: 100_000,
		Traffic: rack.Traffic{Head: 28, Payload: 1024, Batch: 1},
	}
}

// MaxDevices is the most devices of a pool. The switch of the largest that the notes describe has 8 TB.
const MaxDevices = 1024

// mostRate is more than any engine sends.
const mostRate = 1e9

// Check returns an error if there is no such rack or no such load.
func (l *RackLoad) Check() error {
	switch {
	case l.Devices < 1 || l.Devices > MaxDevices:
		return fmt.Errorf("rack: %d devices; 1 to %d are possible", l.Devices, MaxDevices)
	case !(l.Rate >= 0 && l.Rate <= mostRate):
		return fmt.Errorf("rack: %g packets a second of a node; 0 to %g are possible", l.Rate, float64(mostRate))
	}
	if err := l.Rack.Check(); err != nil {
		return err
	}
	return l.Traffic.Check(&l.Rack)
}

// A Stage is one thing that all nodes of a rack do, and what it costs.
type Stage struct {
	Name  string     `json:"name"`
	Lines rack.Lines `json:"lines"` // of one node, in a second
	GBs   float64    `json:"gb_s"`  // bytes of the lines of all nodes, in a nanosecond

	// Pool and Link are the parts of a second in which each device, and the link of each host, carries lines.
	// More than 1 cannot be: the nodes then get on as much more slowly.
	Pool float64 `json:"pool"`
	Link float64 `json:"link"`

	// Load is how long the load of a line takes, with its wait for lines of others; 0 if Pool or Link is 1 or
	// more.
	Load Figure `json:"load"`

	// Core is the part of a core's time in which a node waits for lines that it reads and writes one by one.
	Core float64 `json:"core"`
}

// Names of stages.
const (
	Idle    = "idle"
	Brisk   = "brisk"
	Polling = "polling"
	Packets = "packets"
)

// A RackReport is what the nodes of a rack cost on a preset.
type RackReport struct {
	Preset string  `json:"preset"`
	Stages []Stage `json:"stages"`

	// Round is the time in which an engine that polls looks at each of its rings once.
	Round Figure `json:"round"`

	// Most is how many packets a second each node can send to all its peers together before a link or a
	// device is full. Limit says which.
	Most  float64 `json:"most"`
	Limit string  `json:"limit"`

	Trust string  `json:"trust"`
	Vague bool    `json:"vague"`
	Rests []Basis `json:"rests"`
}

// PriceRack prices a rack on a preset.
func PriceRack(p *Preset, l RackLoad) (*RackReport, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	if p.Fabric != poolPlain {
		return nil, fmt.Errorf("preset %s: a rack shares a pool without coherence, fabric %s; this is fabric %s", p.Name, poolPlain.Name, p.Fabric.Name)
	}
	for _, name := range ofRack {
		if _, ok := p.Price[name]; !ok {
			return nil, fmt.Errorf("preset %s: a rack needs price.%s", p.Name, name)
		}
	}
	r := &RackReport{Preset: p.Name}
	var weakest Trust
	core := prices("pool_load", "pool_store", "loads_in_flight", "stores_in_flight")
	r.Rests, weakest = p.rests(append(core, ofRack...))
	r.Trust, r.Vague = weakest.String(), weakest.Vague()
	var at [3]pricedRack
	for i := range at {
		at[i] = newPricedRack(p, level(i), &l)
	}
	for i, s := range at[nominal].stages() {
		low, high := at[low].stages()[i], at[high].stages()[i]
		s.Load = Figure{s.Load.NS, low.Load.NS, high.Load.NS}
		r.Stages = append(r.Stages, s)
		if s.Name == Polling {
			n := float64(l.Rack.Talks)
			r.Round = Figure{n * s.Load.NS, n * s.Load.Low, n * s.Load.High}
		}
	}
	r.Most, r.Limit = at[nominal].most()
	return r, nil
}

// A pricedRack has the prices of a rack, in ns, at one end of their ranges.
type pricedRack struct {
	l           *RackLoad
	load, store float64
	device      float64 // of a line, of all devices together
	one         float64 // of a line, of the one device that has it
	link        float64
	loads       float64 // that a core has in flight
	stores      float64
}

func newPricedRack(p *Preset, at level, l *RackLoad) pricedRack {
	one := p.Price[poolLine].at(at)
	return pricedRack{
		l: l, load: p.Price["pool_load"].at(at), store: p.Price["pool_store"].at(at),
		one: one, device: one / float64(l.Devices), link: p.Price[hostLine].at(at),
		loads: p.Price["loads_in_flight"].at(at), stores: p.Price["stores_in_flight"].at(at),
	}
}

const second = 1e9 // ns

// stages prices all stages.
func (c *pricedRack) stages() []Stage {
	r := &c.l.Rack
	naps := float64(second) / float64(rack.Nap.Nanoseconds())
	idle := rack.Sum(r.Second(rack.State{Looks: naps}))
	brisk := rack.Sum(r.Second(rack.State{Brisk: true, Looks: naps}))
	asleep := rack.Sum(r.Second(rack.State{}))
	list := []Stage{c.stage(Idle, idle), c.stage(Brisk, brisk)}
	if r.Talks == 0 {
		return list
	}
	packet := r.Packet(c.l.Traffic)
	sent := rack.Lines{Read: c.l.Rate * packet.Read, Write: c.l.Rate * packet.Write}
	packets := c.stage(Packets, rack.Sum([]rack.Part{{Lines: asleep}, {Lines: sent}}))
	packets.Core = 0
	if packets.Load.NS > 0 {
		wait := packets.Load.NS - c.load
		rest := asleep.Read*(c.load+wait) + asleep.Write*(c.store+wait)
		packets.Core = (rest + c.l.Rate*c.work(wait)) / second
	}
	return append(list, c.polling(asleep), packets)
}

// work returns how long a packet keeps the cores of its sender and its receiver together, if each line waits
// for so long.
func (c *pricedRack) work(wait float64) float64 {
	one, more := c.l.Rack.Chain(c.l.Traffic)
	load, store := c.load+wait, c.store+wait
	return one.Read*load + one.Write*store + more.Read*load/c.loads + more.Write*store/c.stores
}

// stage prices lines that a node reads and writes however long each takes.
func (c *pricedRack) stage(name string, n rack.Lines) Stage {
	s := Stage{Name: name, Lines: n, GBs: float64(c.l.Rack.Nodes) * n.All() * 64 / second}
	s.Pool, s.Link = c.uses(n.All())
	if s.Pool >= 1 || s.Link >= 1 {
		return s
	}
	wait := c.wait(s.Pool, s.Link)
	s.Load.NS = c.load + wait
	s.Core = (n.Read*s.Load.NS + n.Write*(c.store+wait)) / second
	return s
}

// uses returns which part of the devices and of a link these lines of each node take.
func (c *pricedRack) uses(lines float64) (pool, link float64) {
	return float64(c.l.Rack.Nodes) * lines * c.device / second, lines * c.link / second
}

// wait returns how long a line waits for others, in the mean: those that come at random, to a device and to
// a link that take as long for each line (M/D/1).
func (c *pricedRack) wait(pool, link float64) float64 {
	return c.one*pool/(2*(1-pool)) + c.link*link/(2*(1-link))
}

// polling prices nodes whose engines look at their rings without a pause: one load after another, each of
// which takes as long as the others make it take. The more there are, the slower each is, so the devices are
// never more than full.
func (c *pricedRack) polling(rest rack.Lines) Stage {
	few, many := 0.0, second/c.load
	for range 100 {
		looks := (few + many) / 2
		pool, link := c.uses(rest.All() + looks)
		if pool < 1 && link < 1 && looks*(c.load+c.wait(pool, link)) < second {
			few = looks
		} else {
			many = looks
		}
	}
	return c.stage(Polling, rack.Lines{Read: rest.Read + few, Write: rest.Write})
}

// most returns how many packets a node can send in a second, and what is full then: nodes that all send and
// receive as much, beside what they do anyway.
func (c *pricedRack) most() (rate float64, limit string) {
	r := &c.l.Rack
	if r.Talks == 0 {
		return 0, "nobody talks"
	}
	lines := r.Packet(c.l.Traffic)
	pool, link := c.uses(rack.Sum(r.Second(rack.State{Moving: true})).All())
	perPool, perLink := c.uses(lines.All())
	byPool, byLink := max(0, 1-pool)/perPool, max(0, 1-link)/perLink
	core := second / c.work(0)
	rate, limit = math.Min(byPool, byLink), "the devices"
	if byLink < byPool {
		limit = "the link of a host"
	}
	if core < rate {
		rate, limit = core, "a core that waits for lines"
	}
	return rate, limit
}
