package engine

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/transport"
	"github.com/nicless/nicless/engine/internal/wheel"
	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// A cable joins two ports of one engine. So two queue pairs of one engine can be connected over a
// link, and tests of queue pairs that are connected within the engine also run over a link.
type cable struct {
	ports [2]*transport.PortHandle
	fates *fates

	// These are between the ports, if the cable does harm to packets.
	from [2]*packetring.Consumer
	to   [2]*packetring.Producer
	held [2][]heldPacket
	seen func(k *heldPacket) // is called for each packet; can be nil

	// These are of a cable of carriers: the paths of packets that the ports send, and what waits for
	// packets that are on the way and returns how many have arrived.
	paths [2]nic.Path
	addrs [2]netip.Addr
	ends  [2]*roce.Carrier
	await func() int

	patient []*object.QP // queue pairs that retry more often
	limit   int          // rounds of timers after which they do not any more; 0: they retry for ever

	ruled  bool // rules of faults lose packets
	rounds int  // how often timers ran out since the rig began to settle
	hold   bool // timers run out, but retries do not: what waits goes on waiting
}

// mostRounds is how often a queue pair that waits for a receive sends again while a rig settles.
const mostRounds = 4

// Fates are what a bad cable does to packets, each with a probability.
type fates struct {
	seed                          uint64
	lose, repeat, reorder, damage float64
	stall                         float64 // no packet is carried in one direction, this time
	rng                           *rand.Rand
}

type heldPacket struct {
	path          uint32
	head, payload []byte
}

// overCable says which cable the queue pairs of a rig are connected over; nil: none, they are
// connected within the engine.
var overCable func(r *rig) *cable

// cableSize is the size of the rings of a cable.
var cableSize = packetring.Geometry{Slots: 64, Data: 64 << 10}

// cableMemory makes the memory of the rings of a cable.
var cableMemory = shm.Heap

// newCable joins two new ports of the rig's engine. If f is nil, the ports share their rings, and
// no packet is harmed.
func (r *rig) newCable(cfg nic.PortConfig, f *fates) *cable {
	r.Helper()
	c := &cable{fates: f}
	ring := func() (*packetring.Producer, *packetring.Consumer) {
		mem, err := cableMemory(cableSize.Size())
		require.NoError(r, err)
		p, err := packetring.NewProducer(mem.Bytes(), cableSize, nil)
		require.NoError(r, err)
		q, err := packetring.NewConsumer(mem.Bytes(), cableSize, nil)
		require.NoError(r, err)
		return p, q
	}
	var send [2]*packetring.Producer
	var receive [2]*packetring.Consumer
	for i := range 2 {
		if f == nil {
			send[i], receive[1-i] = ring()
			continue
		}
		f.rng = rand.New(rand.NewPCG(f.seed, 2))
		send[i], c.from[i] = ring()
		c.to[1-i], receive[1-i] = ring()
	}
	for i := range 2 {
		cfg.Name, cfg.Send, cfg.Receive, cfg.GRH = "cable", send[i], receive[i], true
		if cfg.MTU == 0 {
			cfg.MTU = 4096
		}
		p, err := r.d.nic().AddPort(cfg)
		require.NoError(r, err)
		p.SetUp(true)
		c.ports[i] = p.(*transport.PortHandle)
		r.Cleanup(func() { _ = p.Close() })
	}
	r.cable = c
	return c
}

// overLink connects p over the cable of its rig, if there is one.
func (p *end) overLink(dest *end) {
	r := p.h.rig
	if r.cable == nil && overCable != nil {
		overCable(r)
	}
	if r.cable == nil || dest == p || dest.h.rig.d != r.d || !p.q.HasPeer() {
		return
	}
	side := 0
	if p.num > dest.num {
		side = 1
	}
	if (r.cable.fates != nil || r.cable.ruled) && !r.cable.hold {
		r.cable.patient = append(r.cable.patient, p.q)
	}
	path := r.cable.paths[side]
	path.Port = r.cable.ports[side]
	require.NoError(r, p.h.c.SetPath(p.num, path))
}

// carry moves packets along a bad cable, and returns how many.
func (c *cable) carry() (n int) {
	if c.await != nil {
		return c.await()
	}
	if c.fates == nil {
		return 0
	}
	return c.carryFrom(0) + c.carryFrom(1)
}

// carryFrom moves the packets that port i has sent.
func (c *cable) carryFrom(i int) (n int) {
	if f := c.fates; f.stall > 0 && c.from[i].Waiting() && f.rng.Float64() < f.stall {
		return 1 // it is not at rest
	}
	var k packetring.Packet
	for {
		ok, err := c.from[i].Next(&k)
		if err != nil {
			panic(err)
		}
		if !ok {
			break
		}
		n++
		c.decide(i, &k)
	}
	c.from[i].Free()
	return n + c.deliver(1-i)
}

// block fills the ring of port i, so that the port can send nothing until the cable carries again.
func (c *cable) block(i int) {
	for {
		if _, _, ok := c.ports[i].Settings.Send.Reserve(packet.BTHSize, 0); !ok {
			return
		}
		c.ports[i].Settings.Send.Publish(0) // no packet: its destination is QP 0
	}
}

// decide decides the fate of a packet.
func (c *cable) decide(i int, k *packetring.Packet) {
	f := c.fates
	h := heldPacket{k.Path, append([]byte(nil), k.Head[:k.N]...), append([]byte(nil), k.Payload...)}
	if c.seen != nil {
		c.seen(&h)
	}
	if f.rng.Float64() < f.lose {
		return
	}
	list := &c.held[1-i]
	if f.rng.Float64() < f.damage {
		// Packets with a wrong checksum are lost; those with a right one have the headers that were
		// made.
		return
	}
	*list = append(*list, h)
	if f.rng.Float64() < f.repeat {
		*list = append(*list, h)
	}
	if n := len(*list); n > 1 && f.rng.Float64() < f.reorder {
		j := f.rng.IntN(n)
		(*list)[j], (*list)[n-1] = (*list)[n-1], (*list)[j]
	}
}

// deliver puts packets into the ring of port i.
func (c *cable) deliver(i int) (n int) {
	for len(c.held[i]) > 0 {
		k := &c.held[i][0]
		h, payload, ok := c.to[i].Reserve(len(k.head), len(k.payload))
		if !ok {
			break
		}
		copy(h, k.head)
		copy(payload, k.payload)
		c.to[i].Publish(k.path)
		c.held[i] = c.held[i][1:]
		n++
	}
	return n
}

// timeOut lets the timers of all queue pairs on the cable run out, in the order of their numbers, and
// reports whether one was running.
func (c *cable) timeOut() (any bool) {
	sh := c.ports[0].Shard
	c.rounds++
	for _, q := range c.patient {
		if q.Wire != nil && (c.limit == 0 || c.rounds < c.limit) {
			q.Wire.Out.Retries = 0
		}
	}
	most := max(mostRounds, 2*c.limit)
	if c.hold {
		if c.fates != nil {
			most *= 8
		}
		for _, q := range sh.QPs {
			if q.Wire != nil {
				q.Wire.Out.Retries, q.Wire.Out.RnrRetries = 0, 0
			}
		}
	}
	var out []*wheel.Timer[*object.Wire]
	for _, t := range sh.Timers.Buckets {
		for ; t != nil; t = t.Next {
			if t.Deadline != 0 && t == &t.Of.Timer && (c.rounds < most || !t.Of.Out.Paused && !c.hold) {
				out = append(out, t)
			}
		}
	}
	if len(out) == 0 {
		return false
	}
	w := &sh.Timers
	w.Tick, w.Due = sh.Now()/w.PerTick()-wheel.Buckets-1, 0
	slices.SortFunc(out, func(a, b *wheel.Timer[*object.Wire]) int { return int(b.Of.Q.Num) - int(a.Of.Q.Num) })
	for _, t := range out {
		w.Unlink(t)
		t.Deadline, t.Of.Absence.Given = 1, true
		if s := t.Of.Recovery; s != nil && c.rounds%2 == 0 {
			s.Due = 0 // the time of the attribute has passed; in the other rounds, the queue pair probes
		}
		w.Link(t, w.Tick+1) // before those with larger numbers
	}
	sh.Sched.Turn += -sh.Sched.Turn % transport.TimerTurns // the next step looks at the wheel
	return true
}
