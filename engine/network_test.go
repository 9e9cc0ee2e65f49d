package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/recovery"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/stretchr/testify/require"
)

// A network joins the two ports of a cable in virtual time: packets take time on the line and on the way, and
// some are lost. The engine's clock is held, and stands still while there is something to do.
type network struct {
	*cable
	r     *rig
	rng   *rand.Rand
	delay uint64  // cycles from one end to the other
	byte_ float64 // cycles that a byte takes on the line
	lose  func(from int, k *heldPacket) bool
	odd   float64 // the part of the packets that come twice, and the part that come late
	queue uint64  // cycles in which the line sends what its queue holds; what comes to a full one is lost.
	// 0: the engine's ring is the queue
	ways [2]way // by the port that sends
	sent int    // packets
	lost int
}

// A way is one direction of a network.
type way struct {
	free    uint64 // when the line has sent the last packet
	flights []flight
}

type flight struct {
	at uint64 // when it arrives
	heldPacket
}

// framing is what a packet of RoCE has on the line beside headers from the BTH on and payload: preamble,
// Ethernet, IPv4, UDP and ICRC.
const framing = 20 + 18 + 20 + 8 + 4

// newNetwork connects queue pairs over a network with a rate in bytes a second and a time from one end to the
// other, and loses a part of the packets.
func newNetwork(t *testing.T, cfg nic.PortConfig, rate float64, delay time.Duration, loss float64, seed uint64) (n *network, p, q *end) {
	t.Helper()
	size := cableSize
	cableSize = packetring.Geometry{Slots: 512, Data: 1 << 20}
	overCableOf(t, cfg, &fates{})
	r, p, q := duo(t, Config{})
	cableSize = size
	n = &network{cable: r.cable, r: r, rng: rand.New(rand.NewPCG(seed, 90)), delay: clock.Cycles(delay),
		byte_: float64(clock.Cycles(time.Second)) / rate}
	n.lose = func(int, *heldPacket) bool { return n.rng.Float64() < loss }
	if r.e.Hooks.HeldClock == 0 {
		holdClock(r.e)
	}
	for _, e := range []*end{p, q} {
		e.q.Attr.Timeout, e.q.Attr.RetryCount = 14, 7
		if w := e.q.Wire.Losses; !w.Agreed {
			w.Agreement = recovery.Agreement{} // the question went before the clock was held
		}
	}
	return n, p, q
}

func (n *network) now() uint64 { return n.r.e.Hooks.HeldClock }

// send takes packets from the ring of port i that the line can send now.
func (n *network) send(i int) (done int) {
	w := &n.ways[i]
	var k packetring.Packet
	for n.queue > 0 || w.free <= n.now() {
		ok, err := n.from[i].Next(&k)
		if err != nil { // require.NoError alone, for each look, took a half of the time of these tests
			require.NoError(n.r, err)
		}
		if !ok {
			break
		}
		h := heldPacket{k.Path, append([]byte(nil), k.Head[:k.N]...), append([]byte(nil), k.Payload...)}
		n.from[i].Free()
		n.sent++
		done++
		begins := max(w.free, n.now())
		full := n.queue > 0 && begins-n.now() > n.queue
		if !full {
			w.free = begins + uint64(float64(framing+k.N+len(k.Payload))*n.byte_)
		}
		if full || n.lose(i, &h) {
			n.lost++
			continue
		}
		at := w.free + n.delay
		if n.rng.Float64() < n.odd {
			at += uint64(n.rng.Int64N(int64(n.delay)))
		}
		w.add(flight{at, h})
		if n.rng.Float64() < n.odd {
			w.add(flight{at + uint64(n.rng.Int64N(int64(n.delay))), h})
		}
	}
	return done
}

// add adds a packet to those on the way, in the order in which they arrive.
func (w *way) add(f flight) {
	i := len(w.flights)
	for i > 0 && w.flights[i-1].at > f.at {
		i--
	}
	w.flights = slices.Insert(w.flights, i, f)
}

// arrive gives port 1-i the packets of port i that have arrived.
func (n *network) arrive(i int) (done int) {
	w := &n.ways[i]
	for len(w.flights) > 0 && w.flights[0].at <= n.now() {
		k := &w.flights[0]
		h, payload, ok := n.to[1-i].Reserve(len(k.head), len(k.payload))
		if !ok {
			break
		}
		copy(h, k.head)
		copy(payload, k.payload)
		n.to[1-i].Publish(k.path)
		w.flights = w.flights[1:]
		done++
	}
	return done
}

// tick is how far the clock goes if no packet is on the way: the engine's timers are not more exact.
const tick = 16 * time.Microsecond

// run lets the network work until done holds, and returns how long that took. It fails after most.
func (n *network) run(most time.Duration, done func() bool) time.Duration {
	n.r.Helper()
	begun := n.now()
	idle := 0
	for !done() {
		worked := n.r.e.Step()
		for i := range n.ways {
			worked += n.send(i) + n.arrive(i)
		}
		if worked > 0 {
			idle = 0
			continue
		}
		idle++
		if idle < 20 {
			continue
		}
		idle = 0
		next := n.now() + clock.Cycles(tick)
		for i := range n.ways {
			w := &n.ways[i]
			if len(w.flights) > 0 && w.flights[0].at > n.now() {
				next = min(next, w.flights[0].at)
			}
			if n.from[i].Waiting() && w.free > n.now() {
				next = min(next, w.free)
			}
		}
		n.r.e.Hooks.HeldClock = next
		if took := clock.Duration(next - begun); took >= most {
			require.Less(n.r, took, most, "virtual time; %d packets sent, %d lost", n.sent, n.lost)
		}
	}
	return clock.Duration(n.now() - begun)
}

// rest lets the network work for a time.
func (n *network) rest(d time.Duration) {
	end := n.now() + clock.Cycles(d)
	n.run(2*d+time.Second, func() bool { return n.now() >= end })
}

// roceLike is the configuration of a port that loses packets, as the carrier of RoCE has it.
func roceLike() nic.PortConfig { return nic.PortConfig{MTU: 1024, Window: 1 << 20, Loses: true} }
