package engine

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/nicless/nicless/engine/internal/traffic"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/packet"
	"github.com/stretchr/testify/require"
)

// wireTwins are two targets that are given the same acts and the same packets of a hostile peer. The
// second one never uses the fast path. Its general path is the reference: after each act all
// numbers of the transport, and all that clients can see, are the same in both.
type wireTwins [2]*wireTarget

func newWireTwins(t testing.TB) (w wireTwins) {
	for i := range w {
		r := newRepeatable(t, Config{Slice: 2048, Burst: 4})
		r.e.Hooks.NoFastPath, r.e.Hooks.ExplainAll = i == 1, true
		w[i] = newWireTargetOn(t, r)
		w[i].again()
	}
	return w
}

// numbers are what one side of the transport knows.
func (x *wireTarget) numbers() (list []string) {
	for _, pq := range x.pairs {
		for _, p := range pq {
			q, w := p.q, p.q.Wire
			if w == nil {
				list = append(list, fmt.Sprintf("QP %#x: state %d", q.Num, q.Attr.State))
				continue
			}
			r, in := &w.Out, &w.In
			list = append(list, fmt.Sprintf("QP %#x: state %d, sent %d, WQEs %d, bytes %d, received %d; messages %d to %d, at %d+%d, PSNs %#x %#x %#x, reading %d, window %d, retries %d %d, paused %t, rewound %t, timer %t; "+
				"expects %#x, messages %d, silent %t, fatal %d, owes %t, answers %d and %d fresh, a message %t",
				q.Num, q.Attr.State, q.SQ.Done, q.SQ.WQEs, q.SQ.Moved, q.RQ.Done, r.First, r.Last, r.Sending, r.Sent, r.PSN, r.UNA, r.Most, r.Reading, r.Window, r.Retries, r.RnrRetries, r.Paused, r.Rewound, w.Timer.Running(),
				in.PSN, in.MSN, in.Silent, in.Fatal, in.ACKDue, in.Due, in.Fresh, in.Job != nil))
		}
	}
	for _, p := range x.c.ports {
		stats := p.Port.Stats
		stats.Sent, stats.Received = 0, 0 // acknowledgements can be fewer
		list = append(list, fmt.Sprintf("port: %+v", stats))
	}
	for _, c := range []*poller{x.cqA, x.cqB} {
		list = append(list, fmt.Sprintf("CQ: %d completions", x.e.CQs[c.num].Next))
	}
	return list
}

// compare fails if the twins differ.
func (w wireTwins) compare(t *testing.T, after []byte) {
	t.Helper()
	require.Equal(t, w[1].numbers(), w[0].numbers(), "after % x", after)
	for i, h := range []*host{w[0].a, w[0].b} {
		slow := []*host{w[1].a, w[1].b}[i]
		require.True(t, h.c.Count == slow.c.Count, "counters of client %d: %v and %v", i, h.c.Count, slow.c.Count)
		n, m := traffic.Sum(&h.c.Traffic), traffic.Sum(&slow.c.Traffic)
		for _, x := range []*nic.PortCounts{&n, &m} {
			x[nic.SentPackets], x[nic.GotPackets] = 0, 0 // acknowledgements can be fewer
		}
		require.Equal(t, m, n, "client %d", i)
		for _, x := range w {
			for _, c := range []*poller{x.cqA, x.cqB} {
				eraseTime(x.e.CQs[c.num])
			}
		}
		fast := h.mem.Bytes()[:h.used]
		if n := firstDifference(fast, slow.mem.Bytes()[:slow.used]); n < len(fast) {
			line := n &^ 63
			require.Equal(t, slow.mem.Bytes()[line:][:64], fast[line:][:64], "memory of client %d, from %#x on, after % x", i, line, after)
		}
	}
}

// firstDifference returns the index of the first byte in which two slices of one length differ: their
// length if there is none.
func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// play gives both twins the acts in, one after another. Each act has time to be carried out: of WQEs
// that are sent together, the fast path asks for fewer acknowledgements.
func (w wireTwins) play(t *testing.T, in []byte) {
	for ; len(in) >= 8; in = in[8:] {
		for _, x := range w {
			if in[7]&0x80 != 0 {
				x.forge(in)
			} else {
				x.act(in)
			}
			for range 1 + in[7]&3 {
				for i := range 2 {
					if in[7]>>(2+i)&1 != 0 {
						x.c.carryFrom(i)
					}
				}
				x.e.Step()
				// Those that timeOut has chosen; a step looks at them only sometimes.
				x.e.ExpireTimers(x.e.Now())
			}
		}
		w.compare(t, in[:8])
	}
	for _, x := range w {
		for i := range x.c.ports {
			x.c.ports[i].SetUp(true)
		}
		x.settle()
	}
	w.compare(t, nil)
	for _, x := range w {
		x.check()
	}
}

// The fast path does what the general path does, whatever a peer sends and clients do meanwhile.
// Most packets and WQEs are of the kinds that take the fast path, or nearly.
func TestWireFastPathAgreesAtRandom(t *testing.T) {
	fast := []packet.Operation{packet.WriteOnly, packet.ReadRequest, packet.ReadResponseOnly, packet.WriteOnly, packet.ReadRequest, packet.Acknowledge, packet.SendOnly, packet.WriteFirst}
	for seed := range seeds() {
		rng := rand.New(rand.NewPCG(seed, 6))
		in := make([]byte, 8*rng.IntN(60))
		for i := range in {
			in[i] = byte(rng.Uint32())
		}
		for k := 0; k < len(in); k += 8 {
			a := in[k : k+8]
			a[7] &^= 0x80
			for most := rng.IntN(4) > 0; most && (a[0]%3 > 0 || a[0]>>3&7 == 7); {
				a[0] = byte(rng.Uint32()) | 0x40 // the RC queue pairs
			}
			if rng.IntN(8) < 3 {
				a[1], a[7] = byte(fast[rng.IntN(len(fast))]), a[7]|0x80
				if rng.IntN(5) > 0 {
					a[2] = 0 // the PSN that is expected
				}
				if rng.IntN(4) > 0 {
					a[3] &= 0x03
				}
			} else if (a[1]%12 == 6 || a[1]%12 == 9) && rng.IntN(8) > 0 {
				a[1] = byte(rng.IntN(2))
			}
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { newWireTwins(t).play(t, in) })
		if t.Failed() {
			return
		}
	}
}
