//go:build linux && (amd64 || arm64)

package engine

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/request"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// delayed returns a rule that delays all packets of a queue pair.
func delayed(p *end, d time.Duration) fault.Rule {
	return fault.Rule{Match: fault.Match{QP: fault.Number(p.num)},
		Packet: &fault.Packet{Delay: fault.Duration(d)}}
}

// newHeldPair is a faultyPair on a cable. Only time ends waits: no timer of retries runs out.
func newHeldPair(t *testing.T, transport uint8) *faultyPair {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	x := newFaultyPair(t, transport)
	x.cable.hold = true
	return x
}

// Packets that wait are bounded. Those beyond are lost, and explained.
func TestRuleDelaysSoManyPackets(t *testing.T) {
	x := newHeldPair(t, control.QPTypeUC)
	read := x.host("watcher").watch(control.Watch{QPN: x.p.num})
	set := x.setFaults(delayed(x.p, time.Millisecond))
	const packets = 1200
	src, dst := x.p.h.full(packets*256, 1), x.q.h.full(packets*256, 2)
	before := x.q.q.Wire.Port.Stats.Received
	x.p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, packets*256))
	const tooMany = "it is lost, because too many wait already: 1000 packets of the queue pair, or 64 MiB of all"
	lost := 0
	count := func() {
		for _, e := range read() {
			if e.Kind == trace.KindExplanation && strings.Contains(string(e.Data), tooMany) {
				lost++
			}
		}
	}
	for range 200 {
		x.step()
		count() // the ring of the watch is small
	}
	x.p.good()
	require.Equal(t, before, x.q.q.Wire.Port.Stats.Received)
	for range 50 {
		x.scene.pass(time.Millisecond)
		x.settle()
	}
	require.EqualValues(t, packets, set.Acted(0))
	require.EqualValues(t, 1000, x.q.q.Wire.Port.Stats.Received-before)
	require.Equal(t, packets-1000, lost)
	x.same(src.mem[:1000*256], dst.mem[:1000*256], "the packets that have come")
}

// Packets that wait for room in the ring of a link leave in order.
func TestRuleRepeatsMoreThanALinkTakes(t *testing.T) {
	x := newHeldPair(t, control.QPTypeUC)
	x.setFaults(fault.Rule{Match: fault.Match{Nth: 1, Opcode: fault.Only(wqe.OpRDMAWrite)},
		Packet: &fault.Packet{Do: fault.Duplicate}}, delayed(x.p, time.Millisecond))
	const packets = 4 * 64 // the ring of the cable has 64 slots
	src, dst := x.p.h.full(packets*256, 1), x.q.h.full(packets*256, 2)
	x.p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, packets*256))
	before := x.q.q.Wire.Port.Stats.Received
	for range 50 {
		x.settle()
		x.scene.pass(time.Millisecond)
	}
	x.p.good()
	require.EqualValues(t, packets+1, x.q.q.Wire.Port.Stats.Received-before)
	x.same(src.mem, dst.mem, "WRITE")
}

// A packet that waits still leaves at its time when its rule ends. A reset drops it, and so does the end of
// its queue pair.
func TestPacketsThatWaitWhenSomethingEnds(t *testing.T) {
	for name, row := range map[string]struct {
		end     func(x *fixedFaults)
		arrives bool
	}{
		"rules":      {func(x *fixedFaults) { x.over() }, true},
		"reset":      {func(x *fixedFaults) { x.p.toState(control.StateRST) }, false},
		"queue pair": {func(x *fixedFaults) { x.p.destroy() }, false},
		"client":     {func(x *fixedFaults) { require.NoError(x, x.p.h.c.Close()) }, false},
		"outage":     {func(x *fixedFaults) { x.d.nic().SetPort(0, false) }, false},
		"port":       {func(x *fixedFaults) { require.NoError(x, x.cable.ports[x.p.side()].Close()) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := &fixedFaults{faultyPair: newHeldPair(t, control.QPTypeUC)}
			set, err := fault.NewSet(&fault.Rules{Rules: []fault.Rule{delayed(x.p, time.Millisecond)}})
			require.NoError(t, err)
			d := x.p.h.c.Device
			on := d.SetFaults(set, nil)
			x.over = func() { d.EndFaults(on) }
			x.put()
			x.settle()
			x.p.good()
			require.EqualValues(t, 1, set.Acted(0))
			require.NotEqual(t, x.local.mem[:8], x.far.mem[:8])
			received := &x.cable.ports[x.q.side()].Port.Stats.Received
			before := *received
			row.end(x)
			x.scene.pass(10 * time.Millisecond)
			x.settle()
			if row.arrives {
				x.same(x.local.mem[:8], x.far.mem[:8], "WRITE")
				if !*watched {
					require.False(t, x.p.q.Wire.Watched)
					require.Zero(t, x.cable.ports[0].Port.Watched+x.cable.ports[1].Port.Watched)
				}
			} else {
				require.NotEqual(t, x.local.mem[:8], x.far.mem[:8])
				require.Equal(t, before, *received)
			}
			require.Zero(t, x.e.Timers.Armed, "nothing waits any more")
		})
	}
}

// Packets that wait do not leave when their queue pair is gone, wherever its client has moved in between.
func TestPacketsThatWaitWhenAClientMoves(t *testing.T) {
	r := newRig(t, Config{Cores: []int{0, 1}})
	c := r.newCable(nic.PortConfig{MTU: 256}, nil)
	r.d.nic().SetRouter(oneWay{c.ports[0]})
	h, own := r.host("a"), gid("192.0.2.1")
	move := func(to int) { r.e.Do(func() { r.d.runner.Move(h.c.Client, r.d.runner.Shards[to]) }) }
	move(1)
	require.NoError(t, h.c.SetGIDs([]nic.GID{{Addr: own, UDP: true}}))
	require.NoError(t, h.c.SetSources([]nic.Source{{GID: own}}))
	cq := h.cq(control.CQ{LogSize: 4})
	u := h.qp(control.QP{Type: control.QPTypeUD}, cq, cq)
	u.up(u)
	s := &scene{rig: r, p: u, q: u}
	s.pass(0)
	set := s.setFaults(fault.Rule{Packet: &fault.Packet{Delay: fault.Duration(time.Millisecond)}})
	to := u.to()
	to.DQP, to.RGID = 77, gid("192.0.2.9")
	u.post(ctrl(wqe.OpSend), to, h.full(8, 1).data(0, 8))
	s.settle()
	u.good()
	require.EqualValues(t, 1, set.Acted(0))
	move(0)
	u.destroy()
	s.pass(2 * time.Millisecond)
	s.settle()
	require.Zero(t, c.ports[1].Port.Stats.Received)
}

// A fixedFaults is a pair with rules that over ends.
type fixedFaults struct {
	*faultyPair
	over func()
}

// The faults of every kind have the same outcome while every second packet is repeated.
func TestRulesOfPacketsAndFaultsOfWQEs(t *testing.T) {
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	for _, f := range mistakes() {
		if f.name == "peer connected to another" {
			continue // see TestFaultsOverALink
		}
		t.Run(f.name, func(t *testing.T) {
			s := newScene(t, Config{})
			s.setFaults(fault.Rule{Match: fault.Match{Every: 2}, Packet: &fault.Packet{Do: fault.Duplicate}})
			f.run(s)
		})
	}
}

// The operations of all transports have the same outcome while rules lose, repeat and reorder packets.
func TestOperationsUnderRulesOfPackets(t *testing.T) {
	tests := maps.Clone(testsOverLinks)
	delete(tests, "UnreliableConnection") // its messages are lost
	delete(tests, "InlineMessages")
	tests["XRCOperations"], tests["XRCSeveralSRQs"] = TestXRCOperations, TestXRCSeveralSRQs
	for seed := range fault.Number(explore.Rounds(1, 4)) {
		overCable = func(r *rig) *cable {
			set, err := fault.NewSet(&fault.Rules{Seed: seed, Rules: []fault.Rule{
				{Match: fault.Match{Probability: 0.05}, Packet: &fault.Packet{Do: fault.Lose}},
				{Match: fault.Match{Probability: 0.05}, Packet: &fault.Packet{Do: fault.Duplicate}},
				{Match: fault.Match{Probability: 0.05}, Packet: &fault.Packet{Do: fault.Reorder}},
			}})
			require.NoError(r, err)
			request.Device{Runner: r.d.runner}.SetFaults(set, nil)
			c := r.newCable(nic.PortConfig{MTU: 256, Window: 8 << 10}, nil)
			c.ruled = true
			return c
		}
		defer func() { overCable = nil }()
		for name, test := range tests {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), test)
		}
	}
}

// Rules for packets do not hold WQEs back: they go on while earlier ones are on the way.
func TestRulesOfPacketsLeavePipelines(t *testing.T) {
	x := newHeldPair(t, control.QPTypeRC)
	x.setFaults(fault.Rule{Packet: &fault.Packet{Delay: fault.Duration(time.Millisecond)}})
	for range 4 {
		x.put()
	}
	x.settle()
	require.EqualValues(t, 4, x.p.q.Wire.Out.Last-x.p.q.Wire.Out.First)
	for range 3 {
		x.scene.pass(2 * time.Millisecond)
		x.settle()
	}
	list := x.p.scq.all()
	require.Len(t, list, 4)
	for _, w := range list {
		require.Equal(t, cqe.StatusSuccess, w.Status)
	}
}

// A packet goes after the next one, which may go after its next one in turn. The last one does not wait long.
func TestRuleReordersPackets(t *testing.T) {
	x := newHeldPair(t, control.QPTypeUC)
	read := x.host("watcher").watch(control.Watch{QPN: x.p.num})
	x.setFaults(fault.Rule{Match: fault.Match{Nth: 1}, Packet: &fault.Packet{Do: fault.Reorder}},
		fault.Rule{Match: fault.Match{Nth: 2}, Packet: &fault.Packet{Do: fault.Reorder}},
		fault.Rule{Match: fault.Match{Nth: 5}, Packet: &fault.Packet{Do: fault.Reorder}})
	sent := func() (places []uint32) {
		x.settle()
		for _, e := range read() {
			if e.Kind == trace.KindSent {
				h := packet.ParseBTH((*[packet.BTHSize]byte)(e.Data))
				places = append(places, h.PSN-firstPSN+1)
			}
		}
		return places
	}
	for range 5 {
		x.put()
	}
	require.Equal(t, []uint32{3, 2, 1, 4}, sent())
	x.scene.pass(2 * time.Millisecond)
	require.Equal(t, []uint32{5}, sent())
}
