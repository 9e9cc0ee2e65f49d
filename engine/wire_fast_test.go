package engine

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/linepacket"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// Each work request that the fast path executes over a link, and each that it must leave to the
// slow path, has the same result as without the fast path; see TestFastPathAgrees. Only
// acknowledgements may be fewer.
func TestWireFastPathAgrees(t *testing.T) {
	for _, mtu := range []int{256, 16 << 10} {
		overCable = func(r *rig) *cable { return r.newCable(nic.PortConfig{MTU: mtu, Jumbo: true}, nil) }
		defer func() { overCable = nil }()
		for _, row := range slices.Concat(writeRows, readRows, sendRows, atomicRows, otherRows, armedRows, seriesRows, inlineRows) {
			t.Run(row.name, func(t *testing.T) {
				pair := newTwins(t, row.prepare)
				if pair.fast.p.q.Wire == nil {
					return // its own peer, or a transport that is on no wire
				}
				pair.both(row.post)
				taken := pair.overWire(t)
				b := pair.fast.p.q.SQ.Blocks.At(0)
				first := execution.HeadOf(b)
				if op := first.Opcode(); row.taken > 0 && mtu > 256 && pair.fast.p.q.Transport == control.QPTypeRC &&
					(op == wqe.OpRDMAWrite || op == wqe.OpRDMARead) && first.Second.Plain() {
					require.NotZero(t, taken, "taken by the fast path")
				}
				pair.compare()
				for i := range 2 {
					fast, slow := pair.fast.cable.ports[i].Port.Stats, pair.slow.cable.ports[i].Port.Stats
					fast.Sent, fast.Received, slow.Sent, slow.Received = 0, 0, 0, 0
					require.Equal(t, slow, fast, "port %d", i)
				}
				for _, ends := range [][2]*end{{pair.fast.p, pair.slow.p}, {pair.fast.q, pair.slow.q}} {
					fast, slow := ends[0].q.Wire, ends[1].q.Wire
					require.Equal(t, []uint32{slow.In.PSN, slow.In.MSN, slow.Out.PSN, slow.Out.UNA, slow.Out.Most, slow.Out.Reading},
						[]uint32{fast.In.PSN, fast.In.MSN, fast.Out.PSN, fast.Out.UNA, fast.Out.Most, fast.Out.Reading})
				}
			})
		}
	}
}

// overWire is fastPath for queue pairs on wires.
func (t *twins) overWire(tb testing.TB) (taken int) {
	t.both(func(w *twin) {
		q := w.p.q
		n, bytes := w.e.Pending(q), w.e.Settings.Slice
		if n == 0 || !q.Wire.CanFetch() || q.Wire.Out.Sending != q.Wire.Out.Last {
			return
		}
		w.e.Fault.QP = q
		k := w.e.FastRequests(q, int(n), &bytes)
		w.e.Fault.QP = nil
		if w == t.fast {
			taken = k
		} else {
			require.Zero(tb, k)
		}
	})
	return taken
}

// A packet allocates no memory.
func TestWireAllocatesNothing(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	long := func(op wqe.Opcode) func(p, q *end) *flow {
		return func(p, q *end) *flow {
			near, far := p.h.full(100_000, 1), q.h.full(100_000, 2)
			if op == wqe.OpSend {
				return flowOf(p, ctrl(op), near.data(0, 100_000)).receivesOf(q, far.data(0, 100_000))
			}
			return flowOf(p, ctrl(op), far.raddr(0), near.data(0, 100_000))
		}
	}
	rows := slices.Concat(wireRows, []wireRow{
		{"WRITE 100000", long(wqe.OpRDMAWrite)}, {"READ 100000", long(wqe.OpRDMARead)}, {"SEND 100000", long(wqe.OpSend)},
		{"WRITE_IMM", func(p, q *end) *flow {
			return flowOf(p, ctrl(wqe.OpRDMAWriteImm), q.h.full(64, 2).raddr(0), p.h.full(64, 1).data(0, 8)).receivesOf(q, q.h.full(64, 2).data(0, 8))
		}},
		{"CMP_SWAP", func(p, q *end) *flow {
			return flowOf(p, ctrl(wqe.OpAtomicCS), q.h.full(64, 2).raddr(0), wqe.Atomic{}, p.h.full(64, 1).data(0, 8))
		}},
	})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			p, q := engines(t, poolRings, poolMTU)
			f := row.flow(p, q)
			round := func() {
				f.post(16)
				for steps := 0; f.done < f.posted; steps++ {
					if steps == 10_000_000 {
						t.Fatalf("%d of %d have completed: %+v, timer %v; the responder expects %#x", f.done, f.posted, p.q.Wire.Out, p.q.Wire.Timer.Running(), q.q.Wire.In.PSN)
					}
					p.h.rig.e.Step()
					q.h.rig.e.Step()
					f.poll()
				}
			}
			require.Zero(t, testing.AllocsPerRun(100, round))
			require.EqualValues(t, 101*16, f.done)
		})
	}
}

// A client changes the byte count of a WRITE from inline to a data segment while the WQE is checked. Its
// earlier WQE had the key of a shorter region: bytes beyond that region are not looked for.
func TestInlineFlagIsReadOnce(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the client writes what its other goroutine writes, on purpose; without the race detector the test runs")
	}
	const n = linepacket.MostPayload
	overCableOf(t, nic.PortConfig{MTU: 256}, nil)
	_, p, q := duo(t, Config{})
	short, to := p.h.full(4, 1), q.h.full(64, 2)
	inline := uint64(wqe.InlineFlag|n)<<32 | uint64(short.key)
	segment := uint64(n)<<32 | uint64(short.key)
	length := func(block int) *shm.BE64 { return shm.BE64At(p.sq, uint64(block*wqe.BlockSize+execution.DataOffset)) }
	var stop atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !stop.Load() {
			length(1).Publish(inline)
			length(1).Publish(segment)
		}
	}()
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	for range rounds {
		p.write(ctrl(wqe.OpRDMAWrite), to.raddr(0), short.data(0, 4))
		p.write(ctrl(wqe.OpRDMAWrite), to.raddr(0), make([]byte, n))
		p.write(ctrl(wqe.OpRDMAWrite), to.raddr(0), make([]byte, n))
		length(2).Publish(segment)
		shm.BE64At(p.sq, 2*wqe.BlockSize+execution.DataOffset+8).Publish(short.addr + 64)
		p.ring()
		p.h.rig.e.Steps(true)
		p.reset(q)
		q.reset(p)
		p.scq.all()
	}
	stop.Store(true)
	<-ended
}
