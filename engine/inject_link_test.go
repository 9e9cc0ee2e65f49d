//go:build linux && (amd64 || arm64)

package engine

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/codes"
	"github.com/nicless/nicless/fabric/pool"
	"github.com/nicless/nicless/fabric/roce"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// overLinks runs a test over a cable and a pool; with -links also over RoCE.
func overLinks(t *testing.T, f func(t *testing.T)) {
	links := map[string]func(r *rig) *cable{
		"cable": func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: 256}, nil) },
		"pool":  func(r *rig) *cable { return r.newPool(pool.Config{MTU: 256}) },
	}
	if *everyOperation {
		links["RoCE"] = func(r *rig) *cable { return r.newRoCE(roce.Config{Threads: 1, Spin: -1}) }
	}
	for name, link := range links {
		t.Run(name, func(t *testing.T) {
			overCable = link
			defer func() { overCable = nil }()
			f(t)
		})
	}
}

// A faultyPair is two queue pairs on a link, and memory of both.
type faultyPair struct {
	*scene
	inbox, counter, old *key
}

func newFaultyPair(t *testing.T, transport uint8) *faultyPair {
	r := newRig(t, Config{})
	for _, l := range r.d.runner.Loops {
		l.Hooks.ExplainAll = true
	}
	p, q := pairOf(transport, r.host("p"), r.host("q"))
	n := 2*int(p.q.Wire.MTU) + 188 // three packets
	s := &scene{rig: r, p: p, q: q, local: p.h.full(n, 1), far: q.h.full(n, 7)}
	x := &faultyPair{scene: s, inbox: q.h.full(n, 90), counter: q.h.full(8, 0), old: p.h.full(8, 3)}
	clear(x.counter.mem)
	s.pass(0)
	return x
}

// execute posts a work request, and returns what its completion and those that it causes are. Time passes
// until there is a completion.
func (x *faultyPair) execute(op wqe.Opcode) cqe.WC {
	x.Helper()
	n := len(x.local.mem)
	switch op {
	case wqe.OpSend:
		x.q.recv(x.inbox.data(0, n))
		x.p.post(ctrl(op), x.local.data(0, n))
	case wqe.OpAtomicFA:
		x.p.post(ctrl(op), x.counter.raddr(0), wqe.Atomic{SwapAdd: 5}, x.old.data(0, 8))
	case wqe.OpAtomicCS:
		was := binary.LittleEndian.Uint64(x.counter.mem)
		x.p.post(ctrl(op), x.counter.raddr(0), wqe.Atomic{Compare: was, SwapAdd: was + 5}, x.old.data(0, 8))
	case wqe.OpAtomicMaskedFA:
		x.p.post(ctrl(op), x.counter.raddr(0), wqe.MaskedFA8{Add: 5, Boundary: 1 << 40}, x.old.data(0, 8))
	case wqe.OpAtomicMaskedCS:
		was := binary.LittleEndian.Uint64(x.counter.mem)
		x.p.post(ctrl(op), x.counter.raddr(0), wqe.MaskedCS8{Compare: was, CompareMask: 0xff, Swap: was + 5,
			SwapMask: 1<<32 - 1}, x.old.data(0, 8))
	default:
		x.p.post(ctrl(op), x.far.raddr(0), x.local.data(0, n))
	}
	for range 100 {
		x.settle()
		if list := x.p.scq.all(); len(list) > 0 {
			require.Len(x, list, 1)
			return list[0]
		}
		x.scene.pass(time.Millisecond)
	}
	x.Fatalf("no completion of %v", op)
	panic("unreachable")
}

var linkOpcodes = []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpSend, wqe.OpRDMARead, wqe.OpAtomicFA, wqe.OpAtomicCS,
	wqe.OpAtomicMaskedFA, wqe.OpAtomicMaskedCS}

// Whatever a rule does to one packet of a reliable connection, of the requester or of the responder, each
// work request is executed exactly once, and later ones too. Late packets change nothing.
func TestRulesOfPacketsAreSurvived(t *testing.T) {
	overLinks(t, func(t *testing.T) {
		for name, rule := range map[string]fault.Rule{
			"lose":      {Packet: &fault.Packet{Do: fault.Lose}},
			"duplicate": {Packet: &fault.Packet{Do: fault.Duplicate}},
			"corrupt":   {Packet: &fault.Packet{Do: fault.Corrupt}},
			"reorder":   {Packet: &fault.Packet{Do: fault.Reorder}},
			"delay":     {Packet: &fault.Packet{Delay: fault.Duration(3 * time.Millisecond)}},
			"cut":       {Cut: fault.Duration(time.Millisecond)},
		} {
			t.Run(name, func(t *testing.T) {
				x := newFaultyPair(t, control.QPTypeRC)
				x.cable.hold = true
				sum := uint64(0)
				for _, op := range linkOpcodes {
					for side, e := range []*end{x.p, x.q} {
						for nth := range uint64(3) {
							rule.Match = fault.Match{QP: fault.Number(e.num), Nth: nth + 1, Times: 1}
							set, err := fault.NewSet(&fault.Rules{Seed: fault.Number(nth), Rules: []fault.Rule{rule}})
							require.NoError(t, err)
							d := x.p.h.c.Device
							on := d.SetFaults(set, nil)
							for i := range 2 {
								shade(x.local.mem, byte(sum)+1)
								shade(x.far.mem, byte(sum)+2)
								w := x.execute(op)
								what := fmt.Sprint(op, " side ", side, " packet ", nth+1, " try ", i)
								require.Equal(t, cqe.StatusSuccess, w.Status, what)
								check := func() {
									switch op {
									case wqe.OpSend:
										x.same(x.local.mem, x.inbox.mem, what)
									case wqe.OpRDMAWrite, wqe.OpRDMARead:
										x.same(x.local.mem, x.far.mem, what)
									default:
										require.Equal(t, sum, binary.LittleEndian.Uint64(x.counter.mem), what)
									}
								}
								if op.Info().Atomic() {
									require.Equal(t, sum, binary.LittleEndian.Uint64(x.old.mem), what)
									sum += 5
								}
								check()
								x.scene.pass(5 * time.Millisecond)
								x.settle()
								check()
								if op == wqe.OpSend {
									require.Equal(t, cqe.StatusSuccess, x.q.rcq.one().Status)
								}
							}
							most := uint64(2) // one for each try
							long := map[wqe.Opcode]int{wqe.OpRDMAWrite: 0, wqe.OpSend: 0, wqe.OpRDMARead: 1}
							if by, ok := long[op]; ok && by == side {
								most = 3
							}
							if nth < most {
								require.EqualValues(t, 1, set.Acted(0), "%v side %d packet %d", op, side, nth+1)
							}
							d.EndFaults(on)
						}
					}
				}
			})
		}
	})
}

func shade(b []byte, seed byte) {
	for i := range b {
		b[i] = seed + byte(i) + byte(i>>8)
	}
}

// A path that loses packets for ever ends in the error of the real one, which names the cause.
func TestRuleCutsALinkForEver(t *testing.T) {
	overLinks(t, func(t *testing.T) {
		for name, rule := range map[string]fault.Rule{
			"lose":    {Packet: &fault.Packet{Do: fault.Lose}},
			"delay":   {Packet: &fault.Packet{Delay: fault.Forever}},
			"corrupt": {Packet: &fault.Packet{Do: fault.Corrupt}},
			"cut":     {Cut: fault.Forever},
			"mtu":     {MTU: 255},
		} {
			t.Run(name, func(t *testing.T) {
				x := newFaultyPair(t, control.QPTypeRC)
				before := x.q.q.Wire.Port.Stats.Received
				rule.Match = fault.Match{QP: fault.Number(x.p.num)}
				set := x.setFaults(rule)
				w := x.execute(wqe.OpRDMAWrite)
				require.Equal(t, cqe.TransportRetry, w.Syndrome)
				r, _ := x.p.h.reasonOf(w)
				require.Equal(t, codes.PeerSilent.String(), r.Code)
				require.NotZero(t, set.Acted(0))
				if name != "mtu" {
					require.Equal(t, before, x.q.q.Wire.Port.Stats.Received, "nothing has crossed the link")
				}
			})
		}
	})
}

// Short messages pass a black hole of the path MTU.
func TestRuleOfMTU(t *testing.T) {
	overLinks(t, func(t *testing.T) {
		x := newFaultyPair(t, control.QPTypeRC)
		set := x.setFaults(fault.Rule{Match: fault.Match{Nth: 1}, MTU: 255})
		x.p.post(ctrl(wqe.OpRDMAWrite), x.far.raddr(0), x.local.data(0, 255))
		x.settle()
		x.p.good()
		require.Zero(t, set.Acted(0))
		x.p.post(ctrl(wqe.OpRDMAWrite), x.far.raddr(0), x.local.data(0, 256))
		x.settle()
		x.p.good()
		require.EqualValues(t, 1, set.Acted(0), "the 1st that is too long")
	})
}

// Opcodes of rules are those of work requests: their packets, and the answers to READs and atomics.
// Acknowledgements have none.
func TestRulesOfPacketsMatchOpcodes(t *testing.T) {
	overLinks(t, func(t *testing.T) {
		x := newFaultyPair(t, control.QPTypeRC)
		var rules []fault.Rule
		for _, op := range linkOpcodes {
			for _, e := range []*end{x.p, x.q} {
				rules = append(rules, fault.Rule{Packet: &fault.Packet{Do: fault.Duplicate},
					Match: fault.Match{Opcode: fault.Only(op), QP: fault.Number(e.num)}})
			}
		}
		set := x.setFaults(rules...)
		before := make([]uint64, len(rules))
		for i, op := range linkOpcodes {
			require.Equal(t, cqe.StatusSuccess, x.execute(op).Status)
			for j := range rules {
				n := set.Acted(j) - before[j]
				before[j] += n
				answered := op != wqe.OpRDMAWrite && op != wqe.OpSend
				require.Equal(t, j == 2*i || j == 2*i+1 && answered, n > 0, "%v, rule %d acted %d times", op, j, n)
			}
		}
	})
}

// A lost packet of an unreliable connection is the loss of its message. The sender does not notice.
func TestRulesOfUnreliablePackets(t *testing.T) {
	overLinks(t, func(t *testing.T) {
		x := newFaultyPair(t, control.QPTypeUC)
		set := x.setFaults(fault.Rule{Match: fault.Match{Opcode: fault.Only(wqe.OpSend), Nth: 2},
			Packet: &fault.Packet{Do: fault.Lose}})
		require.Equal(t, cqe.StatusSuccess, x.execute(wqe.OpSend).Status)
		x.q.rcq.none()
		require.EqualValues(t, 1, set.Acted(0))
		shade(x.local.mem, 33)
		require.Equal(t, cqe.StatusSuccess, x.execute(wqe.OpSend).Status)
		require.Equal(t, cqe.StatusSuccess, x.q.rcq.one().Status)
		x.same(x.local.mem, x.inbox.mem, "the 2nd message")
	})
}

// Datagrams are lost, repeated and delayed, from queue pairs of any shard.
func TestRulesOfDatagrams(t *testing.T) {
	for _, cores := range [][]int{nil, {0, 1}} {
		t.Run(fmt.Sprint(len(cores), " cores"), func(t *testing.T) {
			r := newRig(t, Config{Cores: cores})
			c := r.newCable(nic.PortConfig{MTU: 256}, nil)
			r.d.nic().SetRouter(oneWay{c.ports[0]})
			h, own := r.host("a"), gid("192.0.2.1")
			if cores != nil {
				r.e.Do(func() { r.d.runner.Move(h.c.Client, r.d.runner.Shards[1]) })
			}
			require.NoError(t, h.c.SetGIDs([]nic.GID{{Addr: own, UDP: true}}))
			require.NoError(t, h.c.SetSources([]nic.Source{{GID: own}}))
			cq := h.cq(control.CQ{LogSize: 4})
			u := h.qp(control.QP{Type: control.QPTypeUD}, cq, cq)
			u.up(u)
			s := &scene{rig: r, p: u, q: u}
			s.pass(0)
			set := s.setFaults(
				fault.Rule{Match: fault.Match{Nth: 1}, Packet: &fault.Packet{Do: fault.Lose}},
				fault.Rule{Match: fault.Match{Nth: 2}, Packet: &fault.Packet{Do: fault.Duplicate}},
				fault.Rule{Match: fault.Match{Nth: 3}, Packet: &fault.Packet{Delay: fault.Duration(time.Millisecond)}},
				fault.Rule{Match: fault.Match{Nth: 4}, MTU: 7},
				fault.Rule{MTU: 8})
			mem := h.full(8, 1)
			crossed := func() uint64 { return c.ports[1].Port.Stats.Received }
			for i, want := range []uint64{0, 2, 2, 2, 4} {
				to := u.to()
				to.DQP, to.RGID = 77, gid("192.0.2.9")
				u.post(ctrl(wqe.OpSend), to, mem.data(0, 8))
				s.settle()
				u.good()
				require.Equal(t, want, crossed(), "after datagram %d", i+1)
				if i == 3 {
					s.pass(2 * time.Millisecond)
					s.settle()
					require.EqualValues(t, 3, crossed(), "the late one")
				}
			}
			for i, n := range []uint64{1, 1, 1, 1, 0} {
				require.Equal(t, n, set.Acted(i), "rule %d", i+1)
			}
		})
	}
}

// Each injection is explained, and recorded. Packets that rules have lost are not recorded as sent, and those
// that a cut has lost are counted. The same seed gives the same events.
func TestRulesOfPacketsAreRecorded(t *testing.T) {
	run := func(seed fault.Number) (events []string) {
		r := newRepeatable(t, Config{})
		c := r.newCable(nic.PortConfig{MTU: 256}, nil)
		p, q := pair(r.host("p"), r.host("q"))
		s := &scene{rig: r, p: p, q: q, local: p.h.full(256, 1), far: q.h.full(256, 7)}
		read := r.host("watcher").watch(control.Watch{All: 1})
		set, err := fault.NewSet(&fault.Rules{Seed: seed, Rules: []fault.Rule{
			{Name: "hole", Match: fault.Match{QP: fault.Number(p.num), Nth: 20, Size: fault.Range{Least: 1, Most: 8}},
				Cut: fault.Duration(time.Millisecond)},
			{Name: "noise", Match: fault.Match{Probability: 0.3, Opcode: fault.Only(wqe.OpRDMAWrite)},
				Packet: &fault.Packet{Do: fault.Lose}},
			{Name: "wrong", Match: fault.Match{Every: 13}, Packet: &fault.Packet{Do: fault.Corrupt}},
		}})
		require.NoError(t, err)
		on := s.p.h.c.Device.SetFaults(set, nil)
		defer s.p.h.c.Device.EndFaults(on)
		read()
		c.hold = true
		lost, sent := uint64(0), uint64(0)
		ports := c.ports[0].Port.Stats.Sent + c.ports[1].Port.Stats.Sent
		for range 40 {
			s.put()
			for len(s.p.scq.all()) == 0 {
				s.settle()
				s.pass(100 * time.Microsecond)
			}
			for _, e := range read() {
				text := fmt.Sprintf("%v %#x %d %d", e.Kind, e.Queue, e.Index, e.Count)
				switch e.Kind {
				case trace.KindSent:
					h := packet.ParseBTH((*[packet.BTHSize]byte)(e.Data))
					text += fmt.Sprint(h.Opcode, h.PSN)
					sent++
				case trace.KindExplanation:
					text += string(e.Data)
					if strings.Contains(string(e.Data), "injected by rule") {
						lost++
					}
					var n uint64
					if i := strings.Index(string(e.Data), "after the first packet it has lost "); i >= 0 {
						_, err := fmt.Sscanf(string(e.Data)[i:], "after the first packet it has lost %d", &n)
						require.NoError(t, err)
						lost += n
					}
				}
				events = append(events, text)
			}
		}
		require.Equal(t, c.ports[0].Port.Stats.Sent+c.ports[1].Port.Stats.Sent-ports, sent+lost, "the device has made")
		for i := range 3 {
			require.NotZero(t, set.Acted(i), "rule %d", i)
		}
		return events
	}
	first := run(7)
	require.Equal(t, first, run(7))
	require.NotEqual(t, first, run(8))
	all := strings.Join(first, "\n")
	require.Contains(t, all, `injected by rule "hole" (the link is cut for 1ms): RC_WRITE_ONLY with PSN`)
	require.Contains(t, all, `the cut by rule "hole" (the link is cut for 1ms) is over; after the first packet it has lost`)
	require.Contains(t, all, "is wrong, so the receiver drops it")
}

// Thousands of work requests in batches survive a link that loses one packet of a hundred, in both
// directions, and also repeats, reorders and delays some. Each is executed exactly once, in order.
func TestLinkThatLosesOnePercent(t *testing.T) {
	overLinks(t, func(t *testing.T) {
		x := newFaultyPair(t, control.QPTypeRC)
		x.cable.hold = true
		set := x.setFaults(
			fault.Rule{Match: fault.Match{Probability: 0.01}, Packet: &fault.Packet{Do: fault.Lose}},
			fault.Rule{Match: fault.Match{Probability: 0.005}, Packet: &fault.Packet{Do: fault.Duplicate}},
			fault.Rule{Match: fault.Match{Probability: 0.005}, Packet: &fault.Packet{Do: fault.Reorder}},
			fault.Rule{Match: fault.Match{Probability: 0.005},
				Packet: &fault.Packet{Delay: fault.Duration(300 * time.Microsecond)}})
		const rounds, batch = 400, 8
		n := len(x.local.mem)
		for round := range uint64(rounds) {
			for range batch {
				x.p.write(silent(wqe.OpAtomicFA), x.counter.raddr(0), wqe.Atomic{SwapAdd: 1}, x.old.data(0, 8))
			}
			shade(x.local.mem, byte(round))
			x.q.recv(x.inbox.data(0, n))
			x.p.write(silent(wqe.OpRDMAWrite), x.far.raddr(0), x.local.data(0, n))
			x.p.write(ctrl(wqe.OpSend), x.local.data(0, n))
			x.p.ring()
			for try := 0; x.p.q.SQ.Done == 0 || x.p.q.Wire.Out.First != x.p.q.Wire.Out.Last || try == 0; try++ {
				require.Less(t, try, 1000)
				x.settle()
				x.scene.pass(100 * time.Microsecond)
			}
			x.p.good()
			require.Equal(t, cqe.StatusSuccess, x.q.rcq.one().Status)
			require.Equal(t, (round+1)*batch, binary.LittleEndian.Uint64(x.counter.mem))
			require.Equal(t, (round+1)*batch-1, binary.LittleEndian.Uint64(x.old.mem))
			x.same(x.local.mem, x.far.mem, "WRITE")
			x.same(x.local.mem, x.inbox.mem, "SEND")
		}
		for i, least := range []uint64{50, 25, 25, 25} {
			require.Greater(t, set.Acted(i), least, "rule %d", i+1)
		}
		x.scene.pass(time.Second)
		x.settle()
		require.Empty(t, x.p.q.Wire.Out.Retries)
	})
}
