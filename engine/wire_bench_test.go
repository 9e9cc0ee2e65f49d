package engine

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/cores"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/packetring"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// poolRings is the size of the rings of a pool, and poolMTU the MTU of its links.
var poolRings = packetring.Geometry{Slots: 512, Data: 1 << 20}

const poolMTU = 16 << 10

// apart are objects between those of two engines, which would share cache lines. Engines of two
// processes share none.
var apart []*object.Wire

// engines returns two queue pairs of two engines, connected by two rings as in a pool.
func engines(t testing.TB, rings packetring.Geometry, mtu int) (p, q *end) {
	t.Helper()
	var send [2]*packetring.Producer
	var receive [2]*packetring.Consumer
	for i := range send {
		mem, err := shm.Heap(rings.Size())
		require.NoError(t, err)
		send[i], err = packetring.NewProducer(mem.Bytes(), rings, nil)
		require.NoError(t, err)
		receive[1-i], err = packetring.NewConsumer(mem.Bytes(), rings, nil)
		require.NoError(t, err)
	}
	var ends [2]*end
	var paths [2]nic.Path
	for i := range ends {
		r := newRig(t, Config{})
		port, err := r.d.nic().AddPort(nic.PortConfig{Name: "bench", Send: send[i], Receive: receive[i], MTU: mtu, Jumbo: true, GRH: true})
		require.NoError(t, err)
		port.SetUp(true)
		t.Cleanup(func() { _ = port.Close() })
		h := r.host("bench")
		c := h.cq(control.CQ{LogSize: 9})
		ends[i], paths[i] = h.qp(control.QP{LogSQ: 8, LogRQ: 8}, c, c), nic.Path{Port: port}
	}
	for i, e := range ends {
		apart = append(apart, new(object.Wire), new(object.Wire))
		e.modify(e.toInit())
		require.NoError(t, e.h.c.SetPath(e.num, paths[i]))
		a := e.toRTR(ends[1-i].num)
		a.MaxDestRdAtomic = 16
		e.modify(a)
		a = e.toRTS()
		a.MaxRdAtomic = 16
		e.modify(a)
	}
	return ends[0], ends[1]
}

// A flow posts one WQE again and again, at the cost of a few stores, and polls its completions.
type flow struct {
	p            *end
	first        uint64 // first word of the WQE, with index 0
	mask         uint64
	posted, done uint64
	send, seen   *shm.BE32
	recv, got    *shm.BE32 // if the WQE needs receives: the other end's record and consumer index
}

// flowOf fills the send queue of p with one WQE.
func flowOf(p *end, c wqe.Ctrl, segments ...any) *flow {
	blocks := len(p.sq) / wqe.BlockSize
	for range blocks {
		p.write(c, segments...)
	}
	return &flow{p: p, mask: uint64(blocks) - 1, first: shm.BlockAt(p.sq, 0).Word(0) &^ (0xffff << 40),
		send: shm.BE32At(p.rec, 4), seen: shm.BE32At(p.scq.rec, 0)}
}

// receivesOf fills the receive queue of q, which is used again and again.
func (f *flow) receivesOf(q *end, d wqe.Data) *flow {
	for range len(q.rq) / q.stride {
		q.recv(d)
	}
	f.recv, f.got = shm.BE32At(q.rec, 0), shm.BE32At(q.rcq.rec, 0)
	return f
}

func (f *flow) post(n int) {
	for range n {
		shm.BlockAt(f.p.sq, f.posted&f.mask*wqe.BlockSize).PublishFirst(f.first | f.posted&0xffff<<40)
		f.posted++
	}
	if f.recv != nil {
		f.got.Publish(uint32(f.done) & 0xffffff)
		f.recv.Publish(uint32(f.posted))
	}
	f.send.Publish(uint32(f.posted))
}

func (f *flow) poll() {
	c, before := f.p.scq, f.done
	for {
		own := cqe.OpOwn(c.block(f.done).ObserveTail())
		if !cqe.Valid(own, f.done, c.log) {
			break
		}
		if own.Opcode() != cqe.Req {
			panic("a completion with an error")
		}
		f.done++
	}
	if f.done != before {
		f.seen.Publish(uint32(f.done) & 0xffffff)
	}
}

// run posts n WQEs, a batch at a time and at most depth at once, and returns when they have completed.
func (f *flow) run(n, depth, batch int, step func()) {
	for end := f.done + uint64(n); f.done < end; {
		for f.posted < end && f.posted-f.done <= uint64(depth-batch) {
			f.post(batch)
		}
		step()
		f.poll()
	}
}

// onCore calls f on a thread that is on one core.
func onCore(b *testing.B, core int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unpin, err := cores.Pin([]int{core}, nil)
	if err != nil {
		b.Error(err)
		return
	}
	defer unpin()
	f()
}

// A lonely value shares its cache lines with no other.
type lonely[T any] struct {
	_  [128]byte
	it T
	_  [128]byte
}

// A side is one of two threads: what it does until it is stopped.
type side func(stop *atomic.Bool)

// stepping steps an engine.
func stepping(r *rig) side {
	return func(stop *atomic.Bool) {
		for !stop.Load() {
			for range 64 {
				r.e.Step()
			}
		}
	}
}

// beside measures f on core 0 while other runs on core 1. It returns the time of n calls' worth of f
// in nanoseconds for each.
func beside(b *testing.B, other side, n int, f func(n int)) (ns float64) {
	var wait sync.WaitGroup
	stop := &new(lonely[atomic.Bool]).it
	if other != nil {
		wait.Go(func() { onCore(b, 1, func() { other(stop) }) })
	}
	onCore(b, 0, func() {
		f(n / 10)
		began := time.Now()
		f(n)
		ns = float64(time.Since(began)) / float64(n)
	})
	stop.Store(true)
	wait.Wait()
	return ns
}

// A contest measures two things in turn, and reports the medians and the spread of the ratios.
type contest struct {
	names  [2]string
	fields [2]func() float64 // nanoseconds of one operation
	bytes  int               // of one operation; 0: time counts
}

func (c contest) run(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	var all [2][]float64
	var ratios []float64
	for range max(b.N, 9) {
		var ns [2]float64
		for i, f := range c.fields {
			ns[i] = f()
			all[i] = append(all[i], ns[i])
		}
		ratios = append(ratios, ns[0]/ns[1])
	}
	slices.Sort(ratios)
	for i := range all {
		v, unit := median(all[i]), "ns/"+c.names[i]
		if c.bytes > 0 {
			v, unit = float64(c.bytes)/v*1e3, "MB/s-"+c.names[i]
		}
		b.ReportMetric(v, unit)
	}
	low, mid, high := ratios[len(ratios)/8], ratios[len(ratios)/2], ratios[len(ratios)-1-len(ratios)/8]
	if c.bytes > 0 {
		low, mid, high = 1/high, 1/mid, 1/low
	}
	b.ReportMetric(mid, "ratio")
	b.ReportMetric(low, "ratio-low")
	b.ReportMetric(high, "ratio-high")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkWire measures operations of two engines whose rings are in shared memory, as in a pool.
// The thread that steps an engine also posts and polls there. The floors move the same cache
// lines and bytes by the same two threads.
func BenchmarkWire(b *testing.B) {
	if runtime.NumCPU() < 2 {
		b.Skip("two engines need two cores")
	}
	transfer := func(op wqe.Opcode, size int) (f *flow, p, q *end) {
		p, q = engines(b, poolRings, poolMTU)
		near, far := p.h.full(size, 1), q.h.full(size, 2)
		switch op {
		case wqe.OpSend:
			return flowOf(p, ctrl(op), near.data(0, size)).receivesOf(q, far.data(0, size)), p, q
		case wqe.OpAtomicFA:
			return flowOf(p, ctrl(op), far.raddr(0), wqe.Atomic{SwapAdd: 1}, near.data(0, 8)), p, q
		}
		return flowOf(p, ctrl(op), far.raddr(0), near.data(0, size)), p, q
	}
	over := func(f *flow, p, q *end, n, depth, batch int) func() float64 {
		return func() float64 {
			return beside(b, stepping(q.h.rig), n, func(n int) { f.run(n, depth, batch, func() { p.h.e.Step() }) })
		}
	}
	for _, row := range []struct {
		name string
		op   wqe.Opcode
	}{{"WRITE", wqe.OpRDMAWrite}, {"READ", wqe.OpRDMARead}, {"FETCH_ADD", wqe.OpAtomicFA}} {
		b.Run("latency "+row.name+" 8", func(b *testing.B) {
			f, p, q := transfer(row.op, 8)
			contest{[2]string{"wire", "floor"}, [2]func() float64{over(f, p, q, 20_000, 1, 1), floorTrips(b, 20_000)}, 0}.run(b)
		})
	}
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, op := range []wqe.Opcode{wqe.OpRDMAWrite, wqe.OpRDMARead} {
			b.Run(fmt.Sprintf("bandwidth %v %d KiB", op, size>>10), func(b *testing.B) {
				f, p, q := transfer(op, size)
				n := 128 << 20 / size
				contest{[2]string{"wire", "copies"}, [2]func() float64{over(f, p, q, n, 16, 1), floorCopies(b, n, size)}, size}.run(b)
			})
		}
	}
	for _, row := range []struct {
		name string
		op   wqe.Opcode
	}{{"WRITE", wqe.OpRDMAWrite}, {"READ", wqe.OpRDMARead}} {
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("rate %s 8, local of %d threads", row.name, threads), func(b *testing.B) {
				f, p, q := transfer(row.op, 8)
				r := newRig(b, Config{})
				x, y := r.host("x"), r.host("y")
				c := x.cq(control.CQ{LogSize: 9})
				local, peer := x.qp(control.QP{LogSQ: 8}, c, c), y.qp(control.QP{}, y.cq(control.CQ{}), y.cq(control.CQ{}))
				local.up(peer)
				peer.up(local)
				g := flowOf(local, ctrl(row.op), y.full(8, 1).raddr(0), x.full(8, 2).data(0, 8))
				const n = 200_000
				contest{[2]string{"wire", "local"}, [2]func() float64{over(f, p, q, n, 64, 16), func() float64 {
					if threads == 1 {
						return beside(b, nil, n, func(n int) { g.run(n, 64, 16, func() { r.e.Step() }) })
					}
					return beside(b, stepping(r), n, func(n int) { g.run(n, 64, 16, func() {}) })
				}}, 0}.run(b)
			})
		}
	}
}

// floorTrips returns the time of a round trip of what a WRITE of 8 bytes moves: the line of a packet,
// in a slot of a ring, a copy of 8 bytes out of it, and the line of an acknowledgement back.
func floorTrips(b *testing.B, n int) func() float64 {
	const slots = 512
	there, back := shm.Blocks(make([]byte, (slots+1)*packetring.SlotSize)), shm.Blocks(make([]byte, (slots+1)*packetring.SlotSize))
	source, target := make([]byte, 8), make([]byte, 8)
	put := func(ring []shm.Block, i uint64, words int) {
		slot := &ring[i%slots*2]
		for w := 1; w <= words; w++ {
			copy(slot[w*8:][:8], source)
		}
		slot.PublishFirst(i + 1)
	}
	await := func(ring []shm.Block, i uint64, stop *atomic.Bool) bool {
		for slot := &ring[i%slots*2]; slot.Word(0) != i+1; {
			cpu.Relax(1)
			if stop != nil && stop.Load() {
				return false
			}
		}
		return true
	}
	sent := &new(lonely[uint64]).it
	return func() float64 {
		first := *sent
		return beside(b, func(stop *atomic.Bool) {
			for i := first; await(there, i, stop); i++ {
				copy(target, there[i%slots*2][56:])
				put(back, i, 3)
			}
		}, n, func(n int) {
			for range n {
				put(there, *sent, 6)
				await(back, *sent, nil)
				*sent++
			}
		})
	}
}

// floorCopies returns the time in which so many bytes are copied twice: by one thread into the
// data area of a ring, and by the other out of it, in packets of the MTU.
func floorCopies(b *testing.B, n, size int) func() float64 {
	piece := min(size, poolMTU)
	ring := make([]byte, poolRings.Data)
	slots := len(ring) / piece
	source, target := make([]byte, size), make([]byte, size)
	for _, m := range [][]byte{ring, source, target} {
		for i := range m {
			m[i] = byte(i)
		}
	}
	words := shm.Blocks(make([]byte, 4*packetring.SlotSize))
	count := &new(lonely[struct{ filled, emptied uint64 }]).it
	return func() float64 {
		first := count.emptied
		return beside(b, func(stop *atomic.Bool) {
			for i := first; ; i++ {
				for words[0].Word(0) <= i {
					cpu.Relax(1)
					if stop.Load() {
						return
					}
				}
				copy(target[int(i)*piece%size:][:piece], ring[int(i)%slots*piece:])
				words[4].PublishFirst(i + 1)
			}
		}, n, func(n int) {
			for range n * size / piece {
				for count.filled-count.emptied == uint64(slots) {
					count.emptied = words[4].Word(0)
				}
				copy(ring[int(count.filled)%slots*piece:], source[int(count.filled)*piece%size:][:piece])
				count.filled++
				words[0].PublishFirst(count.filled)
			}
			for count.emptied != count.filled {
				count.emptied = words[4].Word(0)
			}
		})
	}
}

// BenchmarkWireSteps measures the work of two engines for WQEs, announced 16 at a time, on one
// thread: without the transfer of cache lines.
func BenchmarkWireSteps(b *testing.B) {
	for _, row := range wireRows {
		b.Run(row.name, func(b *testing.B) {
			p, q := engines(b, poolRings, poolMTU)
			f := row.flow(p, q)
			b.ReportAllocs()
			b.ResetTimer()
			for end := f.done + uint64(b.N); f.done < end; {
				f.post(16)
				for f.done < f.posted {
					p.h.rig.e.Step()
					q.h.rig.e.Step()
					f.poll()
				}
			}
		})
	}
}

// A wireRow is an operation between two engines.
type wireRow struct {
	name string
	flow func(p, q *end) *flow
}

var wireRows = []wireRow{
	{"WRITE 8", func(p, q *end) *flow {
		return flowOf(p, ctrl(wqe.OpRDMAWrite), q.h.full(64, 2).raddr(0), p.h.full(64, 1).data(0, 8))
	}},
	{"WRITE 8, two pieces", func(p, q *end) *flow {
		near := p.h.full(64, 1)
		return flowOf(p, ctrl(wqe.OpRDMAWrite), q.h.full(64, 2).raddr(0), near.data(0, 4), near.data(8, 4))
	}},
	{"WRITE 4096", func(p, q *end) *flow {
		return flowOf(p, ctrl(wqe.OpRDMAWrite), q.h.full(4096, 2).raddr(0), p.h.full(4096, 1).data(0, 4096))
	}},
	{"READ 8", func(p, q *end) *flow {
		return flowOf(p, ctrl(wqe.OpRDMARead), q.h.full(64, 2).raddr(0), p.h.full(64, 1).data(0, 8))
	}},
	{"SEND 8", func(p, q *end) *flow {
		return flowOf(p, ctrl(wqe.OpSend), p.h.full(64, 1).data(0, 8)).receivesOf(q, q.h.full(64, 2).data(0, 8))
	}},
	{"FETCH_ADD", func(p, q *end) *flow {
		return flowOf(p, ctrl(wqe.OpAtomicFA), q.h.full(64, 2).raddr(0), wqe.Atomic{SwapAdd: 1}, p.h.full(64, 1).data(0, 8))
	}},
}
