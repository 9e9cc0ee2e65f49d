package engine

import (
	"bytes"
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/worker"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/cpu"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// out returns how many tasks no worker has begun yet.
func (r *rig) out() (n int) {
	for _, w := range r.e.DMA.Workers {
		for i := range w.Ring {
			if w.Ring[i].State.Load() == worker.Given {
				n++
			}
		}
	}
	return n
}

// While workers copy, the device executes WQEs of other queues. The completion of the
// transfer, and the next WQE of the same queue, wait for the workers.
func TestWorkersCopyBesideTheDevice(t *testing.T) {
	const size = 20_000
	for _, n := range []int{1, 3} {
		r, p, q := duo(t, Config{Slice: 1024})
		r.workers(n)
		by, _ := pair(p.h, q.h)
		src, dst := p.h.full(size, 1), q.h.full(size, 2)
		was := slices.Clone(dst.mem)
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(8, 8))
		p.ring()
		for range 20 {
			r.e.Step()
		}
		require.Equal(t, execution.ClientTasks*n, r.out(), "what one client may have")
		by.post(ctrl(wqe.OpRDMAWrite), dst.raddr(size-8), src.data(0, 8))
		r.e.Step()
		by.good()
		p.scq.none()
		require.Equal(t, was[:size-8], dst.mem[:size-8], "the device does not copy")
		r.settle()
		require.Len(t, p.scq.all(), 2)
		require.Equal(t, src.mem[8:16], dst.mem[:8], "the second came behind the first")
		require.Equal(t, src.mem[8:], dst.mem[8:])
		require.Zero(t, p.h.c.Offloaded)
		require.Zero(t, underWay(r.e))
	}
}

// Each operation that moves bytes moves the right bytes if workers copy them.
func TestWorkersCopyEverything(t *testing.T) {
	const size = 5000
	for _, row := range []struct {
		name string
		post func(r *rig, p, q *end, src, dst *key)
	}{
		{"WRITE", func(_ *rig, p, _ *end, src, dst *key) {
			p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
		}},
		{"pieces of all lengths", func(_ *rig, p, _ *end, src, dst *key) {
			p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 5), src.data(5, 15), src.data(20, 980), src.data(1000, 4000))
		}},
		{"READ", func(_ *rig, p, q *end, src, dst *key) {
			q.post(ctrl(wqe.OpRDMARead), src.raddr(0), dst.data(0, size))
		}},
		{"SEND", func(_ *rig, p, q *end, src, dst *key) {
			q.recv(dst.data(0, 3), dst.data(3, 2000), dst.data(2003, size-2003))
			p.post(ctrl(wqe.OpSend), src.data(0, size))
		}},
		{"list", func(r *rig, p, q *end, src, dst *key) {
			list := q.h.mkey(3)
			q.post(umr(list), fill(list, mkeyAll, size, dst.klm(0, 10), dst.klm(10, 3000), dst.klm(3010, size-3010))...)
			r.settle()
			q.good()
			p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: list}, src.data(0, size))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, p, q := duo(t, Config{Slice: 512})
			r.workers(2)
			src, dst := p.h.full(size, 1), q.h.full(size, 2)
			row.post(r, p, q, src, dst)
			r.settle()
			r.same(src.mem, dst.mem, row.name)
			for _, w := range append(p.scq.all(), q.scq.all()...) {
				require.Equal(t, unharmed, w.Syndrome)
			}
		})
	}
}

// If pieces of a destination overlap, the bytes of the last piece remain, whichever threads
// copy the pieces.
func TestWorkersScatterInOrder(t *testing.T) {
	for _, n := range []int{1, 3} {
		r, p, q := duo(t, Config{Slice: 100})
		r.workers(n)
		src, dst := p.h.full(200, 1), q.h.full(100, 2)
		q.recv(dst.data(0, 40), dst.data(0, 1), dst.data(20, 50), dst.data(25, 16))
		want, at := slices.Clone(dst.mem), 0
		for _, piece := range [][2]int{{0, 40}, {0, 1}, {20, 50}, {25, 16}} {
			at += copy(want[piece[0]:][:piece[1]], src.mem[at:])
		}
		p.post(ctrl(wqe.OpSend), src.data(0, at))
		for p.q.RQ.Done == 0 && p.q.SQ.Done == 0 {
			r.e.Step()
			for i := len(r.e.DMA.Workers); i > 0; i-- { // as if the last worker were the fastest
				r.e.DMA.Workers[i-1].Work()
			}
		}
		p.good()
		r.same(want, dst.mem, "received")
	}
}

// A task that no worker has begun is recalled at once when it must not be done any more. A
// worker that reaches the recalled task later touches no memory.
func TestErrandsAreRecalled(t *testing.T) {
	const size = 4096
	for _, row := range []struct {
		name string
		end  func(r *rig, p, q *end, src, dst *key)
		want cqe.Syndrome
	}{
		{"source deregistered", func(_ *rig, p, _ *end, src, _ *key) { p.h.dereg(src.key) }, cqe.LocalProtection},
		{"target deregistered", func(_ *rig, _, q *end, _, dst *key) { q.h.dereg(dst.key) }, cqe.RemoteAccess},
		{"queue in error", func(_ *rig, p, _ *end, _, _ *key) { p.toState(control.StateERR) }, cqe.Flush},
		{"queue destroyed", func(_ *rig, p, _ *end, _, _ *key) { p.destroy() }, unharmed},
		{"peer destroyed", func(_ *rig, _, q *end, _, _ *key) { q.destroy() }, cqe.TransportRetry},
		{"peer's client closed", func(r *rig, _, q *end, _, _ *key) { require.NoError(r, q.h.c.Close()) }, cqe.TransportRetry},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, p, q := duo(t, Config{Slice: 1024})
			r.workers(1)
			src, dst := p.h.full(size, 1), q.h.full(size, 2)
			was := slices.Clone(dst.mem)
			p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
			for range 10 {
				r.e.Step()
			}
			require.Equal(t, execution.ClientTasks, r.out())
			row.end(r, p, q, src, dst)
			require.Zero(t, r.out(), "before the answer")
			r.expire()
			require.Equal(t, was, dst.mem)
			if row.want != unharmed {
				r.failed(p.scq.one(), row.want, 0)
			}
			r.e.CollectTasks()
			require.Zero(t, p.h.c.Offloaded)
			require.Equal(t, r.e.DMA.Workers[0].Given, r.e.DMA.Workers[0].Next, "the worker has passed them")
		})
	}
}

// A request that recalls a piece which is being copied is not answered before the copy is
// done.
func TestErrandUnderWayIsAwaited(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 1024})
	r.workers(1)
	src, dst := p.h.full(4096, 1), q.h.full(4096, 2)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 4096))
	for range 10 {
		r.e.Step()
	}
	w := r.e.DMA.Workers[0]
	first := &w.Ring[0]
	// Here the test is the worker.
	require.True(t, first.State.CompareAndSwap(worker.Given, worker.Taken))
	w.Next++
	answered := make(chan struct{})
	go func() {
		q.h.dereg(dst.key)
		close(answered)
	}()
	r.until("the others are taken back", func() bool { return w.Ring[1].State.Load() == worker.Recalled })
	select {
	case <-answered:
		t.Fatal("answered while the memory is written to")
	default:
	}
	first.State.Store(worker.Done)
	<-answered
	r.settle()
	r.failed(p.scq.one(), cqe.RemoteAccess, 0)
}

// Only tasks that touch the key that changes are recalled.
func TestErrandsOfOthersStay(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 1024})
	r.workers(1)
	other, _ := pair(r.host("other"), q.h)
	src, dst := p.h.full(2048, 1), q.h.full(2048, 2)
	from, to := other.h.full(2048, 3), q.h.full(2048, 4)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 2048))
	other.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 2048))
	r.e.Step()
	r.e.Step()
	require.Equal(t, 4, r.out())
	p.h.dereg(src.key)
	require.Equal(t, 2, r.out())
	r.settle()
	other.good()
	r.same(from.mem, to.mem, "of the other")
	r.failed(p.scq.one(), cqe.LocalProtection, 0)
}

// A change of a list's entry recalls the tasks that use the list. Closing a window recalls the
// tasks of another queue that writes through the window.
func TestErrandsThroughListsAreRecalled(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 1024})
	r.workers(1)
	src, dst := p.h.full(4096, 1), q.h.full(4096, 2)
	list := q.h.mkey(2)
	q.post(umr(list), fill(list, mkeyAll, 4096, dst.klm(0, 2048), dst.klm(2048, 2048))...)
	r.settle()
	q.good()
	was := slices.Clone(dst.mem)
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: list}, src.data(0, 4096))
	r.e.Step()
	r.e.Step()
	require.Positive(t, r.out())
	q.h.dereg(dst.key)
	require.Zero(t, r.out())
	r.settle()
	r.failed(p.scq.one(), cqe.RemoteAccess, 0)
	require.Equal(t, was, dst.mem)
}

// A client with many long transfers leaves room for the tasks of other clients.
func TestClientsShareWorkers(t *testing.T) {
	r := newRig(t, Config{Slice: 256})
	r.workers(1)
	h, g := r.host("greedy"), r.host("other")
	src, dst := h.full(4096, 1), h.full(4096, 2)
	for range 3 {
		p, _ := pair(h, h)
		p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 4096))
	}
	for range 50 {
		r.e.Step()
	}
	require.Equal(t, execution.ClientTasks, r.out())
	p, _ := pair(g, g)
	from, to := g.full(1024, 3), g.full(1024, 4)
	p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 1024))
	for range 10 {
		r.e.Step()
	}
	require.Equal(t, worker.Ring, r.out())
	r.settle()
	p.good()
	r.same(from.mem, to.mem, "of the other")
}

// If memory loses its pages while a worker copies, the work request that uses the memory
// fails, and no other.
func TestMemoryGoesAwayUnderWorker(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	const size = 1 << 16
	for _, near := range []bool{false, true} {
		for _, long := range []bool{false, true} {
			r, p, q := duo(t, Config{Slice: 8192})
			r.workers(2)
			if long {
				r.e.DMA.Beyond = size
			}
			other, _ := pair(p.h, q.h)
			h, want := q.h, cqe.RemoteOperation
			if near {
				h, want = p.h, cqe.LocalProtection
			}
			_, base, shrink := h.trusted(size)
			key := h.reg(h.pd, base, size, control.AccessAll&^control.AccessZeroBased)
			to, from := wqe.Raddr{Addr: base, RKey: key}, wqe.Data{ByteCount: size, LKey: key, Addr: base}
			if near {
				to = q.h.full(size, 1).raddr(0)
			} else {
				from = p.h.full(size, 1).data(0, size)
			}
			src, dst := p.h.full(size, 3), q.h.full(size, 4)
			shrink(0)
			p.post(ctrl(wqe.OpRDMAWrite), to, from)
			other.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
			r.settle()
			r.failed(p.scq.one(), want, 0)
			other.good()
			r.same(src.mem, dst.mem, "of the other")
			require.Zero(t, p.h.c.Offloaded)
		}
	}
}

// A worker's fault in the last piece is not overlooked if it is seen in the middle of a visit:
// the WQE is not completed as successful.
func TestFaultInTheLastPiece(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 4096})
	r.workers(1)
	src, dst := p.h.full(100, 1), q.h.full(100, 2)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 100))
	r.e.Step()
	j, w := p.q.Job, r.e.DMA.Workers[0]
	require.NotNil(t, j)
	require.Equal(t, j.Total, j.Moved)
	last := &w.Ring[0]
	// Here the test is the worker.
	require.True(t, last.State.CompareAndSwap(worker.Given, worker.Taken))
	w.Next++
	require.True(t, r.e.ResumeJob(p.q), "the visit begins")
	last.Fault = 0x1234
	last.State.Store(worker.Faulted)
	r.e.Offload(p.q, j, 4096)
	require.Zero(t, j.Offloaded)
	require.False(t, j.Over())
	r.settle()
	r.failed(p.scq.one(), cqe.RemoteOperation, 0)
}

// Giving tasks to workers and collecting them allocates nothing.
func TestWorkersAllocateNothing(t *testing.T) {
	r, p, q := duo(t, Config{Slice: 256})
	r.workers(2)
	src, dst := p.h.full(1000, 1), q.h.full(1000, 0)
	for range 16 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
	}
	p.sent = 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.sent++ // announces the next WQE of the ring, which was executed before
		p.ring()
		for range 8 {
			r.e.Step()
			for _, w := range r.e.DMA.Workers {
				w.Work()
			}
		}
		if _, _, ok := p.scq.next(); !ok {
			t.Fatal("no completion")
		}
	}))
	require.GreaterOrEqual(t, r.e.DMA.Workers[0].Given, uint64(100))
	r.same(src.mem, dst.mem, "written")
}

// Workers that end leave no tasks behind, even if they end before they reach their recalled
// tasks. A client may then have as many tasks of the next workers as before, and its
// unfinished transfer is completed by the device.
func TestWorkersLeaveNothingBehind(t *testing.T) {
	const size = 8192
	r, p, q := duo(t, Config{Slice: 1024})
	r.workers(1)
	src, dst := p.h.full(size, 1), q.h.full(size, 2)
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
	for range 10 {
		r.e.Step()
	}
	require.Equal(t, execution.ClientTasks, p.h.c.Offloaded)
	r.e.ReleaseWorkers(func() {})
	require.Empty(t, r.e.DMA.Workers)
	require.Zero(t, p.h.c.Offloaded)
	r.settle()
	p.good()
	r.same(src.mem, dst.mem, "written")
}

// Worker threads sleep while they have no tasks, are woken by tasks, and end with Run, even in
// the middle of a transfer.
func TestWorkersRun(t *testing.T) {
	roomy(t)
	if runtime.NumCPU() < 2 {
		t.Skip("a worker needs a core that is not the engine's")
	}
	const size = 1 << 20
	r, p, q := duo(t, Config{CPUs: []int{1}, DMACores: []int{0}})
	src, dst := p.h.full(size, 1), q.h.full(size, 2)
	for run := range 2 {
		stop := r.start()
		for i := range 5 {
			if i%2 == 0 {
				r.until("the worker sleeps", func() (asleep bool) {
					r.e.Do(func() { asleep = r.e.DMA.Workers[0].Asleep.Load() })
					return asleep
				})
			}
			clear(dst.mem)
			p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
			require.Equal(t, unharmed, p.scq.await().Syndrome)
			require.True(t, bytes.Equal(src.mem, dst.mem), "transfer %d of run %d, %d", i, run, slices.IndexFunc(dst.mem, func(b byte) bool { return b != 0 }))
		}
		for range 4 {
			p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, size))
		}
		stop()
		require.Empty(t, r.e.DMA.Workers)
		for _, w := range p.scq.all() {
			require.Equal(t, unharmed, w.Syndrome, "an orderly stop executes what was announced")
		}
		p.reset(q)
		q.reset(p)
	}
}

// Keys are destroyed while workers copy: each request succeeds or fails, and the memory of a
// destroyed key is not written.
func TestKeysGoAwayUnderRunningWorkers(t *testing.T) {
	roomy(t)
	if runtime.NumCPU() < 2 {
		t.Skip("a worker needs a core that is not the engine's")
	}
	const size = 512 << 10
	r := newRig(t, Config{CPUs: []int{1}, DMACores: []int{0}})
	h, g := r.host("h"), r.host("g")
	src, dst := h.full(size, 1), g.full(size, 2)
	r.start()
	outcomes := map[cqe.Syndrome]int{}
	for i := range 40 {
		p, q := pair(h, g)
		rkey := g.reg(g.pd, dst.addr, size, control.AccessAll&^control.AccessZeroBased)
		p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: dst.addr, RKey: rkey}, src.data(0, size))
		for range i * 100 {
			cpu.Relax(10)
		}
		g.dereg(rkey)
		for i := range dst.mem {
			dst.mem[i] = 0xab
		}
		outcomes[p.scq.await().Syndrome]++
		require.Equal(t, -1, slices.IndexFunc(dst.mem, func(b byte) bool { return b != 0xab }), "written to after the answer")
		p.destroy()
		q.destroy()
		for _, k := range []*key{src, dst} { // so that the next rings use the memory of these rings
			k.h.used = k.addr - k.h.base + size + fenceSize
			clear(k.h.mem.Bytes()[k.h.used:])
		}
	}
	t.Log(outcomes)
}

// An engine whose workers cannot have their cores does not start.
func TestCoresOfWorkers(t *testing.T) {
	e, err := New(Config{DMACores: []int{1 << 20}})
	require.NoError(t, err)
	require.ErrorIs(t, e.Run(context.Background(), func() { t.Error("started") }), ErrCPUs)
	_, _, err = worker.Start[int]([]int{0, 1 << 9})
	require.ErrorIs(t, err, ErrCPUs, "a core that went away meanwhile")
}

// A worker that sleeps ends at once when it is to end.
func TestHiredWorkersEnd(t *testing.T) {
	workers, end, err := worker.Start[int]([]int{0, 0})
	require.NoError(t, err)
	await.Until(t, "it sleeps", workers[0].Asleep.Load)
	end()
}
