package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of answers to READs that come before earlier ones.

var readMiddle = packet.MakeOpcode(packet.RC, packet.ReadResponseMiddle)

// silentPeer returns queue pairs that agree on reports, of which p has sent a READ of size bytes, and heard
// nothing.
func silentPeer(t *testing.T, size int) (n *network, p, q *end, far, near *key) {
	n, p, q = newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	require.True(t, p.q.Wire.Losses.Agreed)
	far, near = q.h.full(size, 1), p.h.full(size, 7)
	n.lose = func(int, *heldPacket) bool { return true }
	p.post(ctrl(wqe.OpRDMARead), far.raddr(0), near.data(0, size))
	n.rest(20 * time.Microsecond)
	require.Equal(t, packet.AddPSN(firstPSN, uint32(size+1023)/1024), p.q.Wire.Out.Most)
	return n, p, q, far, near
}

// steps lets the engine serve what has come, without the network.
func (n *network) steps() {
	for n.r.e.Step() > 0 {
	}
}

// Answers that come too early have no effect before the expected one, and those to packets that were not sent
// have none ever. The memory for them is bounded.
func TestFloodOfEarlyAnswers(t *testing.T) {
	const size = 900 * 1024
	n, p, _, far, near := silentPeer(t, size)
	kept := &p.q.Wire.Recovery.Kept
	before := append([]byte(nil), near.mem...)
	for i := range uint32(1300) {
		p.give(readMiddle, packet.AddPSN(firstPSN, 1+i), nil, make([]byte, 1024))
		n.steps()
	}
	require.Greater(t, kept.N, 500)
	require.Less(t, kept.N, 900)
	n.r.same(before, near.mem, "no answer has an effect before the expected one")
	require.EqualValues(t, firstPSN, p.q.Wire.Out.UNA)
	p.scq.none()
	near.intact()
	p.toState(control.StateERR)
	require.Zero(t, kept.N)
	require.Zero(t, p.q.Wire.Port.Paths.Store.Taken())
	_ = far
}

// An answer that is kept is judged when it is expected: its length, its kind, and the rights to the memory.
func TestEarlyAnswersAreJudged(t *testing.T) {
	const size = 40 * 1024
	atomic := make([]byte, packet.AETHSize+packet.AtomicAckETHSize)
	for name, spoil := range map[string]func(p *end, near *key){
		"length": func(p *end, _ *key) { p.give(readMiddle, firstPSN+2, nil, make([]byte, 1023)) },
		"longer": func(p *end, _ *key) { p.give(readMiddle, firstPSN+2, nil, make([]byte, 1064)) },
		"kind": func(p *end, _ *key) {
			p.give(packet.MakeOpcode(packet.RC, packet.AtomicAcknowledge), firstPSN+2, atomic, nil)
		},
		"rights": func(p *end, near *key) {
			p.give(readMiddle, firstPSN+2, nil, make([]byte, 1024))
			for p.h.e.Step() > 0 {
			}
			p.h.dereg(near.key)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, p, _, _, near := silentPeer(t, size)
			before := append([]byte(nil), near.mem...)
			p.give(readMiddle, firstPSN+1, nil, make([]byte, 1024))
			spoil(p, near)
			n.steps()
			require.Equal(t, 2, p.q.Wire.Recovery.Kept.N)
			p.scq.none()
			n.r.same(before, near.mem, "nothing has come yet")
			p.give(packet.MakeOpcode(packet.RC, packet.ReadResponseFirst), firstPSN, make([]byte, packet.AETHSize), make([]byte, 1024))
			n.steps()
			syndrome := cqe.BadResponse
			if name == "rights" {
				syndrome = cqe.LocalProtection
			}
			all := p.scq.all()
			require.NotEmpty(t, all)
			require.Equal(t, syndrome, all[0].Syndrome)
			n.r.same(before[2048:], near.mem[2048:], "the memory of a bad answer")
			near.intact()
			require.Zero(t, p.q.Wire.Recovery.Kept.N)
		})
	}
}

// A peer answers what was not requested: packets of WRITEs, and packets that were not sent.
func TestAnswersToOtherPackets(t *testing.T) {
	n, p, q, far, near := silentPeer(t, 4096)
	to, from := q.h.full(2048, 3), p.h.full(2048, 5)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 2048))
	p.post(ctrl(wqe.OpRDMARead), far.raddr(0), near.data(0, 4096))
	n.rest(20 * time.Microsecond)
	require.Equal(t, firstPSN+10, p.q.Wire.Out.Most)
	for _, i := range []uint32{4, 5, 10, 11, 1000} {
		p.give(readMiddle, firstPSN+i, nil, make([]byte, 1024))
		n.steps()
		require.Zero(t, p.q.Wire.Recovery.Kept.N, i)
	}
	p.give(readMiddle, firstPSN+6, nil, make([]byte, 1024))
	n.steps()
	require.Zero(t, p.q.Wire.Recovery.Kept.N, "more than three answers are missing before it")
	p.give(readMiddle, firstPSN+1, nil, make([]byte, 1024))
	p.give(readMiddle, firstPSN+6, nil, make([]byte, 1024))
	n.steps()
	require.Equal(t, 2, p.q.Wire.Recovery.Kept.N, "packets of WRITEs are not missing")
	require.EqualValues(t, firstPSN, p.q.Wire.Out.UNA)
	p.scq.none()
}

// READs of any length, among WRITEs and atomics, over a network that loses, repeats and reorders packets, and
// repeats old answers: each has the bytes of its time. The responder allows no more READs at a time than the
// requester sends, so a READ that was not executed is not requested in parts.
func TestReadsAmongOthersOverALossyNetwork(t *testing.T) {
	for seed := range uint64(18) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cfg := nic.PortConfig{MTU: 256, Window: []int{8 << 10, 64 << 10, 1 << 20}[seed%3], Loses: true}
			n, p, q := newNetwork(t, cfg, rackRate, rackDelay, []float64{0.02, 0.1, 0.3}[seed/3%3], seed)
			n.odd = []float64{0, 0.2}[seed/9]
			n.ghosts(seed)
			n.rest(5 * time.Millisecond)
			require.EqualValues(t, p.q.Attr.MaxRdAtomic, q.q.Attr.MaxDestRdAtomic)
			rng := rand.New(rand.NewPCG(seed, 5))
			const mixed, place = 8, 20_000
			far, near := q.h.full(mixed*place, 1), p.h.full(mixed*place, 7)
			to, word := q.h.full(mixed*place, 9), q.h.full(8, 0)
			clear(word.mem)
			sum := uint64(0)
			for range 6 {
				for i := range far.mem {
					far.mem[i] = byte(rng.Uint32())
				}
				var checks []func()
				for i := range mixed {
					at, k := i*place, 1+rng.IntN(place)
					switch rng.IntN(4) {
					case 0:
						p.post(ctrl(wqe.OpRDMAWrite), to.raddr(at), near.data(at, k))
						checks = append(checks, func() { n.r.same(near.mem[at:at+k], to.mem[at:at+k], "a WRITE") })
					case 1:
						found := sum
						sum++
						p.post(ctrl(wqe.OpAtomicFA), word.raddr(0), wqe.Atomic{SwapAdd: 1}, near.data(at, 8))
						checks = append(checks, func() { require.Equal(t, found, binary.LittleEndian.Uint64(near.mem[at:])) })
					default:
						p.post(ctrl(wqe.OpRDMARead), far.raddr(at), near.data(at, k))
						checks = append(checks, func() { n.r.same(far.mem[at:at+k], near.mem[at:at+k], "a READ") })
					}
				}
				n.completed(p, mixed)
				for _, check := range checks {
					check()
				}
			}
			require.Equal(t, sum, binary.LittleEndian.Uint64(word.mem), "atomics are executed once")
			require.False(t, p.q.Wire.Recovery.KeepsAnswers())
			require.Zero(t, p.q.Wire.Port.Paths.Store.Taken())
			t.Logf("%d packets, %d lost, %+v", n.sent, n.lost, p.q.Wire.Losses.PathCounts)
		})
	}
}

// ghosts makes the network repeat answers that it carried long ago.
func (n *network) ghosts(seed uint64) {
	rng, lose := rand.New(rand.NewPCG(seed, 11)), n.lose
	var old [2][]heldPacket
	n.lose = func(i int, k *heldPacket) bool {
		op := packet.Opcode(k.head[0])
		if op.Service() == packet.RC && op.Info().Response && op.Operation() != packet.Report {
			if len(old[i]) < 4000 {
				old[i] = append(old[i], *k)
			}
			if rng.IntN(10) == 0 {
				n.ways[i].add(flight{n.now() + n.delay, old[i][rng.IntN(len(old[i]))]})
			}
		}
		return lose(i, k)
	}
}

// The last answer of a READ is lost, or the request. The requester asks within two round trips, for what is
// missing.
func TestSilentTailOfAReadIsProbed(t *testing.T) {
	for name, lost := range map[string]packet.Operation{
		"answer": packet.ReadResponseLast, "first answer": packet.ReadResponseFirst, "request": packet.ReadRequest,
	} {
		t.Run(name, func(t *testing.T) {
			n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
			n.rest(5 * time.Millisecond)
			best, needed := n.reads(p, q, 1, 10_000)
			for range 30 {
				n.reads(p, q, 1, 10_000)
			}
			gone := n.loseOne(lost)
			took, sent := n.reads(p, q, 1, 10_000)
			require.Equal(t, 1, *gone)
			require.Less(t, took, 4*best)
			require.LessOrEqual(t, sent, needed+2, "one answer, and a report")
			require.EqualValues(t, 1, p.q.Wire.Losses.Timeouts)
		})
	}
}
