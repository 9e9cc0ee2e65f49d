package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/packet"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// These tests are of a long path: 50 ms there and back, over a line whose queue holds what it sends in that
// time, and loses what comes when it is full.

const longDelay = 25 * time.Millisecond

func newLongNetwork(t *testing.T, rate, loss float64, seed uint64) (n *network, p, q *end) {
	n, p, q = newNetwork(t, roceLike(), rate, longDelay, loss, seed)
	n.queue = clock.Cycles(2 * longDelay)
	n.rest(600 * time.Millisecond)
	require.True(t, p.q.Wire.Losses.Agreed)
	return n, p, q
}

// A writer is a queue pair that writes without an end, or reads.
type writer struct {
	*end
	op       wqe.Opcode
	peer     *end
	from, to *key
	got      uint32 // packets that had come to the peer when it was measured last, and its first PSN
}

// writerSize is how many bytes a WRITE of a writer has.
const writerSize = 800_000

// writer begins a writer from p to q.
func (n *network) writer(p, q *end) *writer { return n.begin(p, q, wqe.OpRDMAWrite) }

func (n *network) begin(p, q *end, op wqe.Opcode) *writer {
	f := &writer{end: p, op: op, from: p.h.full(writerSize, 1), to: q.h.full(writerSize, 7), peer: q}
	f.got = f.come()
	for range 12 {
		f.again()
	}
	return f
}

func (f *writer) again() { f.post(ctrl(f.op), f.to.raddr(0), f.from.data(0, writerSize)) }

// flowing lets writers go on for a time.
func (n *network) flowing(d time.Duration, writers ...*writer) {
	end := n.now() + clock.Cycles(d)
	n.run(2*d+time.Second, func() bool {
		for _, f := range writers {
			for _, w := range f.scq.all() {
				require.Equal(n.r, unharmed, w.Syndrome)
				f.again()
			}
		}
		return n.now() >= end
	})
}

// come returns the PSN that the peer expects, and as many more as it has packets that came early.
func (f *writer) come() uint32 {
	w := f.peer.q.Wire
	return packet.AddPSN(w.In.PSN, uint32(w.Recovery.Early.N))
}

// rate returns the bytes a second that came to the peer in the time d, which is that since the last call.
func (f *writer) rate(d time.Duration) float64 {
	come := f.come()
	got := packet.DiffPSN(come, f.got)
	f.got = come
	return float64(got) * float64(f.q.Wire.MTU) / d.Seconds()
}

// eachLongPath runs a test on long paths that lose one packet of hundred. With -explore there are more of
// them, and some that lose none by chance.
func eachLongPath(t *testing.T, test func(t *testing.T, loss float64, seed uint64)) {
	losses := []float64{0.01, 0}[:explore.Rounds(1, 2)]
	for _, loss := range losses {
		for seed := range uint64(explore.Rounds(1, 8)) {
			t.Run(fmt.Sprintf("%v, seed %d", loss, seed), func(t *testing.T) { test(t, loss, seed) })
		}
	}
}

// One packet of hundred that is lost, whatever a queue pair carries, costs it at most half of the line, from
// its first packet on.
func TestLongPathThatLoses(t *testing.T) {
	const line, took = 16e6, time.Second
	eachLongPath(t, func(t *testing.T, loss float64, seed uint64) {
		n, p, q := newLongNetwork(t, line, loss, seed)
		sent, lost := n.sent, n.lost
		f := n.writer(p, q)
		n.flowing(took, f)
		got := f.rate(took)
		t.Logf("%.1f MB/s, %d packets, %d lost, window %d, %+v", got/1e6, n.sent-sent, n.lost-lost,
			p.q.Wire.Out.Window, p.q.Wire.Losses.PathCounts)
		require.Greater(t, got, line/2)
	})
}

// Two queue pairs share a line that is too thin for their windows: they use it, and no one gets much more
// than the other. The second begins when the first has filled the line.
func TestTwoFlowsOnALongPath(t *testing.T) {
	const line, measured = 6e6, time.Second
	eachLongPath(t, func(t *testing.T, loss float64, seed uint64) {
		n, p, q := newLongNetwork(t, line, loss, seed)
		p1, q1 := pair(n.r.host("p1"), n.r.host("q1"))
		if (p1.num < q1.num) != (p.num < q.num) {
			p1, q1 = q1, p1 // the lower number is at the first port: both send the same way
		}
		for _, e := range []*end{p1, q1} {
			e.q.Attr.Timeout, e.q.Attr.RetryCount = 14, 7
		}
		a := n.writer(p, q)
		n.flowing(300*time.Millisecond, a)
		b := n.writer(p1, q1)
		n.flowing(time.Second, a, b)
		a.rate(measured)
		b.rate(measured)
		sent, lost := n.sent, n.lost
		n.flowing(measured, a, b)
		x, y := a.rate(measured), b.rate(measured)
		t.Logf("%.2f and %.2f MB/s, windows %d and %d, %d packets sent, %d lost", x/1e6, y/1e6,
			p.q.Wire.Out.Window, p1.q.Wire.Out.Window, n.sent-sent, n.lost-lost)
		require.Greater(t, x+y, 0.7*line)
		require.Less(t, max(x, y), 2*min(x, y))
	})
}

// READs on a long path are requested in several parts at a time, so that a lost answer does not empty the
// line, also if a queue pair may have few of them on the way.
func TestReadsOnALongPath(t *testing.T) {
	const line, took = 30e6, time.Second
	for _, most := range []uint8{16, 4} {
		t.Run(fmt.Sprint(most, " at a time"), func(t *testing.T) {
			eachLongPath(t, func(t *testing.T, loss float64, seed uint64) {
				n, p, q := newLongNetwork(t, line, loss, seed)
				p.q.Attr.MaxRdAtomic, q.q.Attr.MaxDestRdAtomic = most, most
				sent := n.sent
				f := n.begin(p, q, wqe.OpRDMARead)
				from := p.q.Wire.Out.UNA
				n.flowing(took, f)
				come := packet.DiffPSN(p.q.Wire.Out.UNA, from) + int32(p.q.Wire.Recovery.Kept.N)
				got := float64(come) * float64(p.q.Wire.MTU) / took.Seconds()
				n.r.same(f.to.mem, f.from.mem, "the bytes are there")
				t.Logf("%.1f MB/s, %d packets sent, window %d, %+v", got/1e6, n.sent-sent,
					p.q.Wire.Out.Window, p.q.Wire.Losses.PathCounts)
				require.Greater(t, got, line/4)
			})
		})
	}
}
