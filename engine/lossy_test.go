package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of queue pairs over a network of 1 GB/s and 50 µs each way, which loses packets.

const (
	rackRate  = 1e9
	rackDelay = 50 * time.Microsecond
)

// writes posts count WRITEs of size bytes, and returns how long they took and how many packets p sent.
func (n *network) writes(p, q *end, count, size int) (took time.Duration, sent uint64) {
	n.r.Helper()
	from, to := p.h.full(size, 1), q.h.full(size, 7)
	port := p.q.Wire.Port
	before := port.Stats.Sent
	for range count {
		p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, size))
	}
	took = n.completed(p, count)
	require.True(n.r, string(from.mem) == string(to.mem), "the bytes are there")
	return took, port.Stats.Sent - before
}

// completed waits for so many good completions of p.
func (n *network) completed(p *end, count int) time.Duration {
	n.r.Helper()
	got := 0
	return n.run(10*time.Second, func() bool {
		for _, w := range p.scq.all() {
			require.Equal(n.r, unharmed, w.Syndrome)
			got++
		}
		return got >= count
	})
}

// Between engines that agree, losses cost little more than the packets that were lost.
func TestWritesOverALossyNetwork(t *testing.T) {
	const count, size = 8, 200_000
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	best, needed := n.writes(p, q, count, size)
	require.EqualValues(t, count*((size+1023)/1024), needed)
	for _, loss := range []float64{0.001, 0.01, 0.03, 0.1} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%v, seed %d", loss, seed), func(t *testing.T) {
				n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, loss, seed)
				n.rest(5 * time.Millisecond)
				took, sent := n.writes(p, q, count, size)
				t.Logf("%v, without loss %v; %d packets for %d", took, best, sent, needed)
				require.Less(t, took, 4*best+10*time.Millisecond)
				require.Less(t, sent, 3*needed)
			})
		}
	}
}

// With a peer that understands no reports, everything after a lost packet is sent again, at once.
func TestWritesToAStrangerOverALossyNetwork(t *testing.T) {
	for _, loss := range []float64{0.001, 0.03, 0.1} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%v, seed %d", loss, seed), func(t *testing.T) {
				n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, seed)
				n.lose = func(_ int, k *heldPacket) bool {
					require.NotEqual(t, packet.MakeOpcode(packet.RC, packet.Report), packet.Opcode(k.head[0]))
					return packet.Opcode(k.head[0]).Service() == packet.UD || n.rng.Float64() < loss
				}
				took, sent := n.writes(p, q, 8, 200_000)
				t.Logf("%v, %d packets", took, sent)
				require.Less(t, took, time.Second)
				require.False(t, p.q.Wire.Losses.Agreed)
			})
		}
	}
}

// loseOne makes the network lose the first packet of an operation, and counts it.
func (n *network) loseOne(lost packet.Operation) *int {
	gone := 0
	n.lose = func(_ int, k *heldPacket) bool {
		loses := gone == 0 && packet.Opcode(k.head[0]).Operation() == lost
		if loses {
			gone++
		}
		return loses
	}
	return &gone
}

// The last packet is lost, or its acknowledgement. The requester asks within two round trips.
func TestSilentTailIsProbed(t *testing.T) {
	for name, lost := range map[string]packet.Operation{"packet": packet.WriteLast, "acknowledgement": packet.Acknowledge} {
		t.Run(name, func(t *testing.T) {
			n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
			n.rest(5 * time.Millisecond)
			best, _ := n.writes(p, q, 1, 10_000)
			for range 30 { // the estimate settles
				n.writes(p, q, 1, 10_000)
			}
			gone := n.loseOne(lost)
			took, _ := n.writes(p, q, 1, 10_000)
			require.Equal(t, 1, *gone)
			require.Less(t, took, best+3*best, "one time until the probe, at most two round trips, and one for the answer")
			require.EqualValues(t, 1, p.q.Wire.Losses.Timeouts)
		})
	}
}

// reads posts count READs of size bytes, and returns how long they took and how many packets q sent.
func (n *network) reads(p, q *end, count, size int) (took time.Duration, sent uint64) {
	n.r.Helper()
	places := min(count, int(p.q.Attr.MaxRdAtomic)) // as many as there are READs on the way
	from, to := q.h.full(size*places, 1), p.h.full(size*places, 7)
	for i := range from.mem {
		from.mem[i] = byte(n.rng.Uint32())
	}
	port := q.q.Wire.Port
	before := port.Stats.Sent
	for i := range count {
		at := i % places * size
		p.post(ctrl(wqe.OpRDMARead), from.raddr(at), to.data(at, size))
	}
	took = n.completed(p, count)
	require.True(n.r, string(from.mem) == string(to.mem), "the bytes are there")
	require.False(n.r, p.q.Wire.Recovery.KeepsAnswers())
	return took, port.Stats.Sent - before
}

// READs cost no more than WRITEs: only the answers that were lost are requested again.
func TestReadsOverALossyNetwork(t *testing.T) {
	const count, size = 8, 200_000
	n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, 0, 0)
	n.rest(5 * time.Millisecond)
	best, needed := n.reads(p, q, count, size)
	require.Less(t, needed, uint64(count*((size+1023)/1024)+20))
	for _, loss := range []float64{0.001, 0.01, 0.03, 0.1} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprintf("%v, seed %d", loss, seed), func(t *testing.T) {
				n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, loss, seed)
				n.rest(5 * time.Millisecond)
				took, sent := n.reads(p, q, count, size)
				t.Logf("%v, without loss %v; %d packets for %d; %+v", took, best, sent, needed, p.q.Wire.Losses.PathCounts)
				require.Less(t, took, 4*best+10*time.Millisecond)
				require.Less(t, sent, 6*needed, "also if the ends agree late")
			})
		}
	}
}

// Every operation of reliable connections has its effect once, in order, over a network that loses, repeats
// and reorders packets, whether or not the ends agree on reports.
func TestOperationsOverALossyNetwork(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			n, p, q := newNetwork(t, roceLike(), rackRate, rackDelay, []float64{0.02, 0.1, 0.3}[seed%3], seed)
			n.odd = []float64{0, 0.05, 0.3}[seed/3%3]
			lose := n.lose
			if seed%4 == 3 {
				n.lose = func(i int, k *heldPacket) bool {
					return packet.Opcode(k.head[0]).Service() == packet.UD || lose(i, k)
				}
			}
			n.rest(5 * time.Millisecond)
			m := newMixture(n, p, q, seed)
			for range 12 {
				m.round()
			}
			t.Logf("%d packets, %d lost, %+v", n.sent, n.lost, p.q.Wire.Port.Stats)
		})
	}
}

// A mixture posts rounds of work requests of all kinds, each with places of its own.
type mixture struct {
	n                         *network
	p, q                      *end
	rng                       *rand.Rand
	from, to, far, back, word *key
	sum                       uint64
}

const (
	mixed = 12   // work requests of a round
	place = 5000 // bytes of each place
)

func newMixture(n *network, p, q *end, seed uint64) *mixture {
	m := &mixture{n: n, p: p, q: q, rng: rand.New(rand.NewPCG(seed, 7))}
	m.from, m.to, m.far = p.h.full(mixed*place, 1), q.h.full(mixed*place, 7), q.h.full(mixed*place, 11)
	m.back, m.word = p.h.full(mixed*place, 9), q.h.full(8, 0)
	clear(m.word.mem)
	return m
}

func (m *mixture) round() {
	t := m.n.r
	for _, k := range []*key{m.from, m.to, m.far, m.back} {
		for i := range k.mem {
			k.mem[i] = byte(m.rng.Uint32())
		}
	}
	var checks []func()
	var lengths []int
	for i := range mixed {
		at, k := i*place, 1+m.rng.IntN(place)
		switch kind := m.rng.IntN(5); kind {
		case 0, 1:
			op := wqe.OpRDMAWrite
			if kind == 1 {
				op = wqe.OpRDMAWriteImm
				m.q.recv()
				lengths = append(lengths, k)
			}
			m.p.post(ctrl(op), m.to.raddr(at), m.from.data(at, k))
			checks = append(checks, func() { t.same(m.from.mem[at:at+k], m.to.mem[at:at+k], "a WRITE") })
		case 2:
			m.q.recv(m.to.data(at, place))
			lengths = append(lengths, k)
			m.p.post(ctrl(wqe.OpSend), m.from.data(at, k))
			checks = append(checks, func() { t.same(m.from.mem[at:at+k], m.to.mem[at:at+k], "a SEND") })
		case 3:
			m.p.post(ctrl(wqe.OpRDMARead), m.far.raddr(at), m.back.data(at, k))
			checks = append(checks, func() { t.same(m.far.mem[at:at+k], m.back.mem[at:at+k], "a READ") })
		case 4:
			sum := m.sum
			m.sum++
			m.p.post(ctrl(wqe.OpAtomicFA), m.word.raddr(0), wqe.Atomic{SwapAdd: 1}, m.back.data(at, 8))
			checks = append(checks, func() {
				require.Equal(t, sum, binary.LittleEndian.Uint64(m.back.mem[at:]), "what an atomic found")
			})
		}
	}
	m.n.completed(m.p, mixed)
	for _, check := range checks {
		check()
	}
	require.Equal(t, m.sum, binary.LittleEndian.Uint64(m.word.mem), "atomics are executed once")
	received := m.q.rcq.all()
	require.Len(t, received, len(lengths))
	for i, w := range received {
		require.EqualValues(t, lengths[i], w.ByteLen)
	}
}
