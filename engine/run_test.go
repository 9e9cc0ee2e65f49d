package engine

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/completion"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// start runs the engine until the test ends or stop is called.
func (r *rig) start() (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- r.d.Run(ctx, func() { close(started) }) }()
	<-started
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r, <-done)
	})
	r.Cleanup(stop)
	return stop
}

// quickLooks is how often until polls before it sleeps between two polls. Together they take about a
// millisecond, in which a thread that has a core of its own has long answered.
const quickLooks = 10_000

// until calls f again and again until it reports true. On a machine whose cores are busy it leaves them to
// the engine's threads after some looks.
func (r *rig) until(what string, f func() bool, state ...func() any) {
	r.Helper()
	for range quickLooks {
		if f() {
			return
		}
		runtime.Gosched()
	}
	await.Until(r, what, f, state...)
}

// await returns the next completion of a running engine.
func (c *poller) await() (w cqe.WC) {
	c.h.Helper()
	c.h.until("a completion", func() (ok bool) {
		w, _, ok = c.next()
		return ok
	})
	return w
}

func TestRun(t *testing.T) {
	r, p, q := duo(t, Config{})
	stop := r.start()
	src, dst := p.h.full(1000, 1), q.h.full(1000, 2) // makes control requests while the engine runs
	for i := range uint16(100) {
		p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
		require.Equal(t, i, p.scq.await().Counter)
	}
	r.same(src.mem, dst.mem, "written")
	stop()
	// The next request runs on its caller's goroutine.
	p.h.full(10, 1)
	r.start()
	p.post(ctrl(wqe.OpNop))
	p.scq.await()
}

func TestRunOnCores(t *testing.T) {
	e, err := New(Config{CPUs: []int{0}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	require.NoError(t, e.Run(ctx, cancel))
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	require.Equal(t, before, after, "the thread goes back to the program as it was")
	for _, cpu := range []int{-1, 1 << 20} {
		e, err := New(Config{CPUs: []int{cpu}})
		require.NoError(t, err)
		err = e.Run(t.Context(), func() { t.Error("started") })
		require.ErrorContains(t, err, "core")
	}
}

func TestConfigRefused(t *testing.T) {
	for want, c := range map[string]Config{
		"engine: Burst -1; at least 1, or 0 for 32":             {Burst: -1},
		"engine: Slice 63; at least 64, or 0 for 65536":         {Slice: 63},
		"engine: Slice -1; at least 64, or 0 for 65536":         {Slice: -1},
		"engine: Limits.Regions -1; at least 1, or 0 for 4096":  {Limits: Limits{Regions: -1}},
		"engine: Limits.PDs -2; at least 1, or 0 for 4096":      {Limits: Limits{PDs: -2}},
		"engine: Limits.MRs -1; at least 1, or 0 for 65536":     {Limits: Limits{MRs: -1}},
		"engine: Limits.CQs -1; at least 1, or 0 for 16384":     {Limits: Limits{CQs: -1}},
		"engine: Limits.QPs -1; at least 1, or 0 for 16384":     {Limits: Limits{QPs: -1}},
		"engine: Limits.Channels -1; at least 1, or 0 for 1024": {Limits: Limits{Channels: -1}},
	} {
		_, err := New(c)
		require.EqualError(t, err, want)
	}
}

// Many goroutines call Do while Run begins and ends. Each function runs once, and never two
// at a time.
func TestDoIsExclusive(t *testing.T) {
	r := newRig(t, Config{})
	n := 0 // touched only inside Do
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 2000 {
				r.e.Do(func() { n++ })
			}
		}()
	}
	finished := make(chan struct{})
	go func() { all.Wait(); close(finished) }()
	for running := true; running; {
		ctx, cancel := context.WithCancel(context.Background())
		require.NoError(t, r.d.Run(ctx, cancel))
		select {
		case <-finished:
			running = false
		default:
		}
	}
	r.e.Do(func() { require.Equal(t, 8000, n) })
}

// trusted returns a region of h that is backed by a file, and a function that shrinks the
// file to fewer bytes.
func (h *host) trusted(size int) (mem *shm.Region, base uint64, shrink func(size int64)) {
	h.Helper()
	f, err := os.Create(filepath.Join(h.TB.(*testing.T).TempDir(), "pool"))
	require.NoError(h, err)
	require.NoError(h, f.Truncate(int64(size)))
	path := f.Name()
	mem, err = shm.Attach(f, true)
	require.NoError(h, err)
	h.Cleanup(func() { _ = mem.Close() })
	base = 0x1_0000_0000
	h.addRegion(base, mem)
	return mem, base, func(size int64) { require.NoError(h, os.Truncate(path, size)) }
}

// If memory loses its pages while the device uses it, that is a fault of one queue pair.
// The engine lives, and other queue pairs go on.
func TestMemoryGoesAway(t *testing.T) {
	t.Run("one shard", func(t *testing.T) { memoryGoesAway(t, newRig) })
	t.Run("across shards", func(t *testing.T) { memoryGoesAway(t, newShards) })
}

func memoryGoesAway(t *testing.T, newRig func(testing.TB, Config) *rig) {
	const size = 1 << 16
	for _, row := range []struct {
		name  string
		post  func(p, q *end, base uint64, key func(h *host) uint32)
		host  func(p, q *end) *host // returns the host whose memory loses its pages
		wants cqe.Syndrome
	}{
		{"gather", func(p, q *end, base uint64, key func(h *host) uint32) {
			p.post(ctrl(wqe.OpRDMAWrite), q.h.full(64, 1).raddr(0), wqe.Data{ByteCount: 64, LKey: key(p.h), Addr: base + 5000})
		}, func(p, _ *end) *host { return p.h }, cqe.LocalProtection},
		{"WRITE", func(p, q *end, base uint64, key func(h *host) uint32) {
			p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: base + 5000, RKey: key(q.h)}, p.h.full(64, 1).data(0, 64))
		}, func(_, q *end) *host { return q.h }, cqe.RemoteOperation},
		{"READ", func(p, q *end, base uint64, key func(h *host) uint32) {
			p.post(ctrl(wqe.OpRDMARead), wqe.Raddr{Addr: base + 5000, RKey: key(q.h)}, p.h.full(64, 1).data(0, 64))
		}, func(_, q *end) *host { return q.h }, cqe.RemoteOperation},
		{"long WRITE", func(p, q *end, base uint64, key func(h *host) uint32) {
			p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{Addr: base, RKey: key(q.h)}, p.h.full(size, 1).data(0, size))
		}, func(_, q *end) *host { return q.h }, cqe.RemoteOperation},
		{"SEND", func(p, q *end, base uint64, key func(h *host) uint32) {
			q.recv(wqe.Data{ByteCount: 64, LKey: key(q.h), Addr: base + 5000})
			p.post(ctrl(wqe.OpSend), p.h.full(64, 1).data(0, 64))
		}, func(_, q *end) *host { return q.h }, cqe.RemoteOperation},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, Config{Slice: 4096})
			p, q := pair(r.host("p"), r.host("q"))
			s, _ := pair(p.h, q.h)
			h := row.host(p, q)
			_, base, shrink := h.trusted(size)
			key := h.reg(h.pd, base, size, control.AccessAll&^control.AccessZeroBased)
			shrink(0)
			r.start()
			row.post(p, q, base, func(*host) uint32 { return key })
			r.failed(p.scq.await(), row.wants, 0)
			p.post(ctrl(wqe.OpNop))
			r.failed(p.scq.await(), cqe.Flush, 1)
			s.post(ctrl(wqe.OpNop))
			require.Equal(t, cqe.StatusSuccess, s.scq.await().Status)
		})
	}
}

// Rings and records lose their pages: those of a queue pair that works, or those of a queue
// pair that waits for its peer. A queue pair that cannot even report an error is given up:
// it goes to RST.
func TestRingsGoAway(t *testing.T) {
	t.Run("one shard", func(t *testing.T) { ringsGoAway(t, newRig) })
	t.Run("across shards", func(t *testing.T) { ringsGoAway(t, newShards) })
}

func ringsGoAway(t *testing.T, newRig func(testing.TB, Config) *rig) {
	for _, what := range []string{"send queue", "record", "completion queue", "peer's receive queue", "peer's record, waiting", "arm word"} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, Config{})
			if r.e.Several && what == "peer's receive queue" {
				t.Skip("its own shard may come first, and find that the record is gone")
			}
			h, far := r.host("h"), r.host("far")
			s, _ := pair(h, far)
			owner := h
			if strings.HasPrefix(what, "peer") {
				owner = far
			}
			mem, base, shrink := owner.trusted(1 << 16)
			// The next objects that owner makes are in the file.
			heap, old, used := owner.mem, owner.base, owner.used
			inFile := func(yes bool) {
				if yes {
					owner.mem, owner.base, owner.used = mem, base, 0
				} else {
					owner.mem, owner.base, owner.used = heap, old, used
				}
			}
			var c, d *poller
			var p, q *end
			makeCQs := func() {
				m := control.CQ{LogSize: 4}
				if what == "arm word" {
					m.Channel, _ = h.channel()
				}
				c, d = h.cq(m), far.cq(control.CQ{LogSize: 4})
			}
			switch what {
			case "completion queue", "arm word":
				inFile(true)
				makeCQs()
				inFile(false)
				p, q = h.qp(control.QP{}, c, c), far.qp(control.QP{}, d, d)
			default:
				makeCQs()
				used = owner.used
				inFile(true)
				p, q = h.qp(control.QP{}, c, c), far.qp(control.QP{}, d, d)
				inFile(false)
			}
			p.up(q)
			q.modify(q.toInit())
			q.modify(q.toRTR(p.num)) // in RTR its own send record is not read
			if what != "peer's record, waiting" {
				q.modify(q.toRTS())
			}
			switch what {
			case "peer's record, waiting":
				// If the peer's own shard finds the fault first, the peer is given up. Then
				// only the timer reports it to the sender; see TestRecordOfAPeerGoesAway.
				p.q.Attr.Timeout = 1
				p.post(ctrl(wqe.OpSend))
				r.settle()
				require.Len(t, stalledQueues(r.e), 1)
			case "peer's receive queue":
				k := far.full(64, 1)
				q.recv(k.data(0, 64))
				p.post(ctrl(wqe.OpSend), h.full(64, 1).data(0, 64))
			case "arm word":
			default:
				p.post(ctrl(wqe.OpNop))
			}
			shrink(0)
			r.start()
			want := control.StateRST
			switch what {
			case "completion queue":
				want = control.StateERR // the completion could not be written
			case "peer's receive queue", "peer's record, waiting":
				require.NotEqual(t, unharmed, c.await().Syndrome)
				want = control.StateERR
			case "arm word":
				r.until("given up", func() (gone bool) {
					r.e.Do(func() { gone = r.e.Arm.CQs == 0 })
					return gone
				})
				want = control.StateRTS
			}
			r.until("the state", func() (ok bool) {
				r.e.Do(func() { ok = p.state() == want })
				return ok
			})
			s.post(ctrl(wqe.OpNop))
			require.Equal(t, cqe.StatusSuccess, s.scq.await().Status)
			require.NoError(t, h.c.Close())
		})
	}
}

// A record in another shard loses its page while a send waits for a receive there. The send
// ends, whichever shard finds the fault. The sender's shard makes the fault an error of
// both queue pairs. The peer's own shard, which diagnoses its queue pairs one after
// another, cannot report the error and gives the peer up. To the sender, the peer then
// looks like one that has been reset, and its retries run out.
func TestRecordOfAPeerGoesAway(t *testing.T) {
	for _, row := range []struct {
		name  string
		first int // index of the shard that finds the fault
		wants cqe.Syndrome
	}{
		{"found by the sender's shard", 0, cqe.RemoteOperation},
		{"found by the peer's shard", 1, cqe.TransportRetry},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newShards(t, Config{})
			h, far := r.host("h"), r.host("far")
			c, d := h.cq(control.CQ{LogSize: 4}), far.cq(control.CQ{LogSize: 4})
			mem, base, shrink := far.trusted(1 << 16)
			far.mem, far.base, far.used = mem, base, 0 // so that the queue pair is in the file
			p, q := h.qp(control.QP{}, c, c), far.qp(control.QP{}, d, d)
			p.up(q)
			q.modify(q.toInit())
			q.modify(q.toRTR(p.num))
			p.post(ctrl(wqe.OpSend))
			r.settle()
			require.Len(t, r.stalled(), 1)
			shrink(0)
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			shards := []*loop.Loop{r.d.runner.Loops[row.first], r.d.runner.Loops[1-row.first]}
			for _, l := range shards {
				// Each batch ends at a step that finds nothing, or at a fault.
				for range 2 * completion.ArmRoundSteps {
					l.Steps(true)
				}
			}
			require.EqualValues(t, control.StateRST, q.state())
			r.expire()
			r.failed(c.one(), row.wants, 0)
			require.EqualValues(t, control.StateERR, p.state())
		})
	}
}

// A request that meets a fault of memory is refused, and the engine lives.
func TestRequestFaults(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	_, base, shrink := h.trusted(1 << 16)
	id, _ := h.channel()
	shrink(0)
	r.start()
	err := h.try(control.OpCreateCQ, &control.CQ{Buf: base, DBRec: base + 4096, LogSize: 4, LogCQE: 6, Channel: id}, &control.CQN{}, nil)
	require.ErrorIs(t, err, &control.Error{Code: control.CodeMemory})
	h.allocPD()
}

// A fault ends a step and its client's turn. The next step continues with the other
// clients. So every other client has a turn between any two faults of one client.
func TestFaultsKeepTheDeviceFromNobody(t *testing.T) {
	const bad = 5
	r := newRig(t, Config{})
	h := r.host("h")
	heap, base, used := h.mem, h.base, h.used
	mem, at, shrink := h.trusted(1 << 16)
	h.mem, h.base, h.used = mem, at, 0
	c := h.cq(control.CQ{LogSize: 4})
	for range bad {
		p := h.qp(control.QP{}, c, c)
		p.up(p)
	}
	h.mem, h.base, h.used = heap, base, used
	g := r.host("g")
	p, q := pair(g, g)
	waits, peer := pair(g, g)
	waits.post(ctrl(wqe.OpSend))
	r.settle()
	require.Len(t, stalledQueues(r.e), 1)
	shrink(0)
	p.post(ctrl(wqe.OpNop))
	peer.recv()
	turn := r.e.Sched.Turn
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for i := range uint32(2 * bad) { // each queue pair faults twice and is then given up
		require.Zero(t, r.e.Steps(true), "fault %d", i)
		require.Equal(t, turn+i, r.e.Sched.Turn, "the step is not at its end")
		p.scq.none()
		require.Positive(t, r.e.Step())
		require.Equal(t, turn+i+1, r.e.Sched.Turn)
		p.good()
		require.Empty(t, stalledQueues(r.e))
		p.post(ctrl(wqe.OpNop))
	}
	require.Equal(t, control.StateRTS, q.state())
	r.settle()
	p.good()
	require.Len(t, r.e.Running, 4)
	waits.good()
}
