package accel_test

import (
	"errors"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/accel"
	"github.com/nicless/nicless/cqe"
	"github.com/stretchr/testify/require"
)

// A lab is an engine, a device and a queue pair that is connected to another queue pair of
// the same program, its peer.
type lab struct {
	ctx    *nicless.Context
	pd     *nicless.PD
	dev    *accel.Device
	stream *accel.Stream
	qp     *nicless.QP
	cq     *nicless.CQ
	q      *accel.Queue
	mem    *accel.Buffer // the device's memory
	far    *accel.Buffer // the peer's memory
	mr     *nicless.MR   // the MR of far
}

func newLab(t testing.TB, size int, cfg accel.Config, change ...func(*nicless.QPConfig)) *lab {
	t.Helper()
	ctx, err := nicless.Open(nicless.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ctx.Close()) })
	l := &lab{ctx: ctx}
	l.pd, err = ctx.AllocPD()
	require.NoError(t, err)
	l.qp, l.cq, l.q = l.queue(t, change...)
	near, err := l.pd.RegisterMemory(size, nicless.FullAccess)
	require.NoError(t, err)
	l.mr, err = l.pd.RegisterMemory(size, nicless.FullAccess)
	require.NoError(t, err)
	l.mem, l.far = accel.NewBuffer(near), accel.NewBuffer(l.mr)
	l.dev, err = accel.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.dev.Close()) })
	l.stream, err = l.dev.NewStream()
	require.NoError(t, err)
	return l
}

// queue makes a queue pair with a peer.
func (l *lab) queue(
	t testing.TB, change ...func(*nicless.QPConfig),
) (*nicless.QP, *nicless.CQ, *accel.Queue) {
	t.Helper()
	cq, err := l.ctx.CreateCQ(nicless.CQConfig{Collapsed: true})
	require.NoError(t, err)
	cfg := nicless.QPConfig{SendCQ: cq, Concurrent: true}
	for _, f := range change {
		f(&cfg)
	}
	qp, err := l.pd.CreateQP(cfg)
	require.NoError(t, err)
	other, err := l.ctx.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	peer, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: other})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(qp, peer, nicless.Connection{}))
	x, err := qp.Export()
	require.NoError(t, err)
	q, err := accel.NewQueue(x)
	require.NoError(t, err)
	return qp, cq, q
}

// run executes a kernel to its end.
func (l *lab) run(t testing.TB, blocks, threads int, k accel.Kernel) error {
	t.Helper()
	require.NoError(t, l.stream.Launch(accel.Grid{Blocks: blocks, Threads: threads}, k))
	return l.stream.Sync()
}

func TestPut(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	copy(l.mem.Bytes(), "eight by")
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		th.Put(l.q, l.far.Ref(64), l.mem.Ref(0), 8)
		if err := th.Quiet(l.q); err != nil {
			panic(err)
		}
	}))
	require.Equal(t, "eight by", string(l.far.Bytes()[64:72]))
}

// Every lane of every block puts its number. Each number arrives once, whatever starts the work.
func TestPutByEveryLane(t *testing.T) {
	for _, d := range []nicless.Doorbells{
		nicless.DoorbellRecord, nicless.DoorbellRegister, nicless.DoorbellGuarded,
	} {
		t.Run(d.String(), func(t *testing.T) { putByEveryLane(t, d) })
	}
}

func putByEveryLane(t *testing.T, d nicless.Doorbells) {
	const blocks, threads = 7, 100
	l := newLab(t, 8*blocks*threads, accel.Config{Multiprocessors: 2},
		func(c *nicless.QPConfig) { c.Doorbells = d })
	for _, put := range map[string]func(*accel.Thread, int){
		"lane":   func(th *accel.Thread, at int) { th.Put(l.q, l.far.Ref(at), l.mem.Ref(at), 8) },
		"warp":   func(th *accel.Thread, at int) { th.PutWarp(l.q, l.far.Ref(at), l.mem.Ref(at), 8) },
		"inline": func(th *accel.Thread, at int) { th.PutInline(l.q, l.far.Ref(at), l.mem.Bytes()[at:at+8]) },
	} {
		clear(l.far.Bytes())
		require.NoError(t, l.run(t, blocks, threads, func(th *accel.Thread) {
			at := 8 * th.Global()
			l.mem.Store(at, uint64(th.Global()+1))
			put(th, at)
			if err := th.Quiet(l.q); err != nil {
				panic(err)
			}
			if got := l.far.Load(at); got != uint64(th.Global()+1) {
				panic(got)
			}
		}))
		require.Equal(t, l.mem.Bytes(), l.far.Bytes())
	}
}

// The lanes make more puts than the ring holds, some lanes are ahead of others, and some end
// early. All puts arrive, those of each lane in order.
func TestPutWarpManyTimes(t *testing.T) {
	const rounds = 200
	l := newLab(t, 2*8*64, accel.Config{})
	require.NoError(t, l.run(t, 1, 64, func(th *accel.Thread) {
		at := 8 * th.Index()
		n := rounds
		if th.Index()%3 == 0 {
			n = rounds / 2
		}
		for i := range n {
			th.PutWarp(l.q, l.far.Ref(at), l.mem.Ref(at), 8)
			if i%50 == 7 { // a single lane may put between two PutWarps
				th.AtomicAdd(l.q, l.far.Ref(at), 1)
			}
		}
		from := 8*64 + at // not the bytes that are on their way
		l.mem.Store(from, uint64(n))
		if n == rounds {
			th.PutWarp(l.q, l.far.Ref(at), l.mem.Ref(from), 8)
		} else {
			th.Put(l.q, l.far.Ref(at), l.mem.Ref(from), 8)
		}
		if err := th.Quiet(l.q); err != nil {
			panic(err)
		}
	}))
	for i := range 64 {
		want := uint64(rounds)
		if i%3 == 0 {
			want = rounds / 2
		}
		require.Equal(t, want, l.far.Load(8*i), "lane %d", i)
	}
}

func TestRequests(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	l.far.Store(0, 40)
	l.far.Store(8, 5)
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		th.AtomicAdd(l.q, l.far.Ref(0), 1)
		th.FetchAdd(l.q, l.far.Ref(0), 1, l.mem.Ref(16))
		th.CompareSwap(l.q, l.far.Ref(8), 5, 6, l.mem.Ref(24))
		th.CompareSwap(l.q, l.far.Ref(8), 5, 7, l.mem.Ref(32))
		th.Fence()
		th.Get(l.q, l.mem.Ref(40), l.far.Ref(0), 16)
		th.PutSignal(l.q, l.far.Ref(64), l.mem.Ref(40), 16, l.far.Ref(128), 3)
		th.WaitUntil(l.far, 128, accel.GE, 3)
		if l.far.Load(64) != 42 || l.far.Load(72) != 6 {
			panic("the signal came before the bytes")
		}
	}))
	require.EqualValues(t, 41, l.mem.Load(16))
	require.EqualValues(t, 5, l.mem.Load(24))
	require.EqualValues(t, 6, l.mem.Load(32))
}

// Two devices hand a number back and forth by signals alone.
func TestSignals(t *testing.T) {
	const rounds = 100
	l := newLab(t, 4096, accel.Config{})
	other, err := accel.New(accel.Config{})
	require.NoError(t, err)
	defer other.Close()
	s, err := other.NewStream()
	require.NoError(t, err)
	_, _, back := l.queue(t)
	require.NoError(t, s.Launch(accel.Grid{Blocks: 1, Threads: 1}, func(th *accel.Thread) {
		for i := range uint64(rounds) {
			th.WaitUntil(l.far, 8, accel.EQ, i+1)
			l.far.Store(16, l.far.Load(0)+1)
			th.PutSignal(back, l.mem.Ref(0), l.far.Ref(16), 8, l.mem.Ref(8), 1)
		}
	}))
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		for i := range uint64(rounds) {
			th.PutSignal(l.q, l.far.Ref(0), l.mem.Ref(0), 8, l.far.Ref(8), 1)
			th.WaitUntil(l.mem, 8, accel.EQ, i+1)
		}
	}))
	require.NoError(t, s.Sync())
	require.EqualValues(t, rounds, l.mem.Load(0))
}

// Host threads and lanes of two devices post to the same queue pair.
func TestHostAndDevicesShareAQueue(t *testing.T) {
	const blocks, threads, hosts, each = 4, 64, 3, 300
	l := newLab(t, 4096, accel.Config{}, func(c *nicless.QPConfig) { c.MaxSendWR = 32; c.SignalAll = true })
	other, err := accel.New(accel.Config{})
	require.NoError(t, err)
	defer other.Close()
	s, err := other.NewStream()
	require.NoError(t, err)
	kernel := func(th *accel.Thread) {
		for range each / 10 {
			th.AtomicAdd(l.q, l.far.Ref(0), 1)
		}
		if err := th.Quiet(l.q); err != nil {
			panic(err)
		}
	}
	grid := accel.Grid{Blocks: blocks, Threads: threads}
	require.NoError(t, s.Launch(grid, kernel))
	require.NoError(t, l.stream.Launch(grid, kernel))
	results := make(chan error)
	sink, err := l.pd.RegisterMemory(8, nicless.LocalWrite)
	require.NoError(t, err)
	for range hosts {
		go func() {
			wr := nicless.SendWR{
				Op: nicless.FetchAdd, SGE: []nicless.SGE{sink.SGE(0, 8)},
				RemoteAddr: l.far.Ref(0).Addr, RKey: l.far.Ref(0).Key, SwapAdd: 1,
			}
			for n := 0; n < each; {
				var c [1]nicless.Completion
				err := l.qp.PostSend(&wr)
				if err == nil {
					n++
				} else if errors.Is(err, nicless.ErrFull) {
					_, err = l.cq.TryPoll(c[:])
				}
				if err != nil {
					results <- err
					return
				}
			}
			results <- nil
		}()
	}
	for range hosts {
		require.NoError(t, <-results)
	}
	require.NoError(t, s.Sync())
	require.NoError(t, l.stream.Sync())
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		if err := th.Quiet(l.q); err != nil {
			panic(err)
		}
	}))
	require.EqualValues(t, hosts*each+2*blocks*threads*(each/10), l.far.Load(0))
}

func TestPutPastTheKey(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	var failed error
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		th.Put(l.q, l.far.Ref(4090), l.mem.Ref(0), 8)
		failed = th.Quiet(l.q)
	}))
	require.ErrorIs(t, failed, cqe.RemoteAccess)
	require.ErrorContains(t, failed, "(key-")
	require.ErrorIs(t, l.q.Err(), cqe.RemoteAccess)
	err := l.run(t, 1, 1, func(th *accel.Thread) {
		for {
			th.Put(l.q, l.far.Ref(0), l.mem.Ref(0), 8)
		}
	})
	require.ErrorIs(t, err, cqe.RemoteAccess, "a full queue that never empties ends the kernel")
}

// When a completion queue overflows, lanes that wait for it end.
func TestOverrun(t *testing.T) {
	l := newLab(t, 4096, accel.Config{})
	cq, err := l.ctx.CreateCQ(nicless.CQConfig{PollOnly: true, Entries: 4})
	require.NoError(t, err)
	qp, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: cq, Concurrent: true, MaxSendWR: 16})
	require.NoError(t, err)
	peer, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(qp, peer, nicless.Connection{}))
	x, err := qp.Export()
	require.NoError(t, err)
	q, err := accel.NewQueue(x)
	require.NoError(t, err)
	var quiet error
	require.NoError(t, l.run(t, 1, 1, func(th *accel.Thread) {
		for range 8 { // no lane polls meanwhile, because the ring has room
			th.Put(q, l.far.Ref(0), l.mem.Ref(0), 8)
		}
		for q.Err() == nil {
			th.Sync() // the only lane does not wait
		}
		quiet = th.Quiet(q)
	}))
	require.ErrorIs(t, quiet, nicless.ErrOverrun)
	err = l.run(t, 1, 1, func(th *accel.Thread) {
		for {
			th.Put(q, l.far.Ref(0), l.mem.Ref(0), 8)
		}
	})
	require.ErrorIs(t, err, nicless.ErrOverrun)
}

// A collapsed CQ that was exported is for the completions of one send queue only.
func TestCollapsedIsOneQueuesAlone(t *testing.T) {
	l := newLab(t, 4096, accel.Config{}) // this exports l.qp, whose SendCQ is l.cq
	_, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: l.cq, Concurrent: true})
	require.ErrorContains(t, err, "is collapsed and was exported with another queue pair")
	err = l.qp.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{l.mr.SGE(0, 8)}})
	require.ErrorContains(t, err, "is collapsed and was exported: receives need another")

	cq, err := l.ctx.CreateCQ(nicless.CQConfig{Collapsed: true})
	require.NoError(t, err)
	one, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: cq, Concurrent: true})
	require.NoError(t, err)
	two, err := l.pd.CreateQP(nicless.QPConfig{SendCQ: cq, Concurrent: true})
	require.NoError(t, err)
	_, err = one.Export()
	require.ErrorContains(t, err, "is collapsed and has the sends of 2 queue pairs")
	require.NoError(t, one.Close())
	_, err = two.Export()
	require.NoError(t, err)
	require.NoError(t, two.Close())
	_, err = l.pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err, "it is free again")
}

// A Fence of any lane applies to the first request of the PutWarp.
func TestFenceBeforePutWarp(t *testing.T) {
	for _, fencer := range []int{0, 17, 31} {
		l := newLab(t, 4096, accel.Config{})
		require.NoError(t, l.run(t, 1, 32, func(th *accel.Thread) {
			if th.Lane() == fencer {
				th.Fence()
			}
			th.PutWarp(l.q, l.far.Ref(8*th.Lane()), l.mem.Ref(8*th.Lane()), 8)
			_ = th.Quiet(l.q)
		}))
		for i, b := range []byte{0x80, 0, 0} {
			require.Equal(t, b, l.qp.SendRing()[64*i+11]&0xe0, "fencer %d, WQE %d", fencer, i)
		}
	}
}

// If the ring is smaller than a warp, PutWarp posts the warp's puts in portions.
func TestPutWarpOnASmallRing(t *testing.T) {
	l := newLab(t, 4096, accel.Config{}, func(c *nicless.QPConfig) {
		c.MaxSendWR, c.MaxSendSGE, c.MaxInline = 8, 1, 8
	})
	require.NoError(t, l.run(t, 1, 32, func(th *accel.Thread) {
		l.mem.Store(8*th.Lane(), uint64(th.Lane()+1))
		th.PutWarp(l.q, l.far.Ref(8*th.Lane()), l.mem.Ref(8*th.Lane()), 8)
		if err := th.Quiet(l.q); err != nil {
			panic(err)
		}
	}))
	require.Equal(t, l.mem.Bytes(), l.far.Bytes())
}
