package engine

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// newShards is newRig for a device of several shards, two unless cfg names cores. Each client
// stays in the shard that it was assigned to when it was made. New clients are assigned to
// the shards in turn.
func newShards(t testing.TB, cfg Config) *rig {
	t.Helper()
	if cfg.Cores == nil {
		cfg.Cores = []int{0, 1}
	}
	cfg.Stay = true
	r := newRig(t, cfg)
	r.d.runner.Hooks.Unpinned = true
	return r
}

// shuffle makes the rig step the shards in random order. Clients do not move by themselves.
// Half of the times that a shard needs the lock of another shard, it finds the lock taken.
func (r *rig) shuffle(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	r.pick = func() int { return rng.IntN(len(r.d.runner.Loops)) }
	r.e.Settings.Stay = true
	for _, l := range r.d.runner.Loops {
		l.Refuse = func() bool { return rng.IntN(2) == 0 }
	}
}

func TestCoresRefused(t *testing.T) {
	for want, c := range map[string]Config{
		"core 1 is named twice":  {Cores: []int{0, 1, 1}},
		"at least one is needed": {Cores: []int{}},
		"CPUs [2] and Cores [0]": {CPUs: []int{2}, Cores: []int{0}},
		"DMACores [2]":           {DMACores: []int{2}, Cores: []int{0, 1}},
	} {
		_, err := New(c)
		require.ErrorIs(t, err, ErrCPUs)
		require.ErrorContains(t, err, want)
	}
}

// If one shard cannot have its core, all threads end before any request is served, and the
// caller's thread is as it was before.
func TestCoreOfALaterShardRefused(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	first := 0
	for !before.IsSet(first) {
		first++
	}
	e, err := New(Config{Cores: []int{first, 1000}})
	require.NoError(t, err)
	err = e.Run(t.Context(), func() { t.Error("started") })
	require.ErrorIs(t, err, ErrCPUs)
	require.ErrorContains(t, err, "core 1000")
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	require.Equal(t, before, after)
	e.Do(func() {}) // returns only if no lock is held
}

func TestShardsRunAndEnd(t *testing.T) {
	r := newShards(t, Config{Cores: []int{0, 1, 2}})
	for range 3 { // an engine can be run several times
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, r.d.Run(ctx, cancel))
	}
}

// A new client is assigned to the shard with the least load. A client that is connected to a
// peer in another shard moves to that shard, unless another connection ties it.
func TestClientsComeTogether(t *testing.T) {
	r := newShards(t, Config{})
	r.e.Settings.Stay = false
	a, b, c, d := r.host("a"), r.host("b"), r.host("c"), r.host("d")
	shard := func(h *host) int { return h.c.Shard.Number }
	require.Equal(t, []int{0, 1, 0, 1}, []int{shard(a), shard(b), shard(c), shard(d)})
	p, q := pair(a, b)
	require.Equal(t, shard(a), shard(b))
	s, u := pair(c, d)
	require.Equal(t, shard(c), shard(d))
	require.NotEqual(t, shard(a), shard(c), "the two pairs are apart")
	v, w := pair(a, c)
	require.NotEqual(t, shard(a), shard(c), "both are tied")
	for _, x := range []*end{p, q, s, u, v, w} {
		x.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{})
	}
	r.settle()
	for _, x := range []*end{p, q, s, u, v, w} {
		x.good()
	}
	for _, l := range r.d.runner.Loops {
		require.Equal(t, 3, len(l.Running))
		require.Len(t, l.Clients, 2)
	}
	// A client without other connections may move again.
	v.destroy()
	w.destroy()
	require.NoError(t, b.c.Close())
	x, _ := pair(a, c)
	require.Equal(t, shard(a), shard(c))
	x.post(ctrl(wqe.OpNop))
	r.settle()
	x.good()
}

// When a client moves, its waiting queues, its unfinished transfer and its armed queue move
// with it.
func TestMoveInTheMiddle(t *testing.T) {
	r := newShards(t, Config{Slice: 64})
	r.d.runner.Loops[0].Sched.Few, r.d.runner.Loops[1].Sched.Few = 0, 0
	a, b := r.host("a"), r.host("b")
	p, q := pair(a, b)
	s, u := pair(a, b)
	c := a.cq(control.CQ{LogSize: 4})
	id, event := a.channel()
	armed := a.cq(control.CQ{LogSize: 4, Channel: id})
	w := a.qp(control.QP{}, armed, c)
	w.up(w)
	src, dst := a.full(1000, 1), b.full(1000, 2)
	move := func(h *host, to int) { r.e.Do(func() { r.d.runner.Move(h.c.Client, r.d.runner.Shards[to]) }) }
	p.post(ctrl(wqe.OpRDMAWrite), dst.raddr(0), src.data(0, 1000))
	s.post(ctrl(wqe.OpSend), src.data(0, 8)) // waits for a receive
	for range 3 {
		r.d.Step()
	}
	require.NotNil(t, p.q.Job)
	require.Len(t, r.stalled(), 1)
	armed.arm(0, false)
	for i := range 6 {
		move(a, i%3/2)
		move(b, i%2)
		r.d.Step()
	}
	r.settle()
	p.good()
	r.same(src.mem, dst.mem, "the transfer")
	u.recv(dst.data(0, 8))
	w.post(ctrl(wqe.OpNop))
	r.settle()
	s.good()
	w.good()
	_, ok := event()
	require.True(t, ok, "the event of its armed queue")
	require.NotNil(t, q)
}

// Datagrams of one burst whose receivers are in different shards arrive in order.
func TestDatagramsAcrossShards(t *testing.T) {
	r := newShards(t, Config{Cores: []int{0, 1, 2}, Slice: 64})
	r.shuffle(7)
	hosts := []*host{r.host("a"), r.host("b"), r.host("c")}
	var ends []*end
	var boxes []*key
	for _, h := range hosts {
		c := h.cq(control.CQ{LogSize: 6})
		p := h.qp(control.QP{Type: control.QPTypeUD, LogSQ: 5}, c, h.cq(control.CQ{LogSize: 6}))
		p.up(p)
		ends, boxes = append(ends, p), append(boxes, h.full(16*256, 9))
	}
	src := hosts[0].full(15*150, 1)
	for i := range 15 {
		q, box := ends[i%3], boxes[i%3]
		q.recv(box.data(i*256, 256))
		ends[0].write(ctrl(wqe.OpSend), q.to(), src.data(i*150, 150))
	}
	ends[0].ring()
	r.settle()
	require.Len(t, ends[0].scq.all(), 15)
	for i := range 15 {
		r.same(src.mem[i*150:][:150], boxes[i%3].mem[i*256+object.GRHSize:][:150], "datagram")
	}
	for _, p := range ends {
		require.Len(t, p.rcq.all(), 5)
	}
}

// A receive of an SRQ that was taken for a transfer is put back if the requester's shard ends
// the transfer, although at that time this shard may not touch the SRQ.
func TestSharedReceiveGoesBackAcrossShards(t *testing.T) {
	r := newShards(t, Config{Slice: 64})
	a, b := r.host("a"), r.host("b")
	s := b.srq(control.SRQ{})
	box := b.full(1000, 1)
	s.put(0, box.data(0, 1000))
	s.post(1)
	full := a.cq(control.CQ{LogSize: 0})
	p, q := a.qp(control.QP{}, full, full), s.on(control.QPTypeRC, b.cq(control.CQ{LogSize: 4}))
	p.up(q)
	q.up(p)
	other := a.qp(control.QP{}, full, full)
	other.up(other)
	p.post(ctrl(wqe.OpSend), a.full(1000, 2).data(0, 1000))
	r.d.Step()
	require.NotNil(t, p.q.Job)
	require.Zero(t, s.s.Ready())
	a.c.Loop().Refuse = func() bool { return true } // as if b's shard held its lock
	other.post(ctrl(wqe.OpNop))
	other.post(ctrl(wqe.OpNop)) // finds no room, so all queue pairs of the CQ go to error
	for i := 0; p.state() != control.StateERR; i++ {
		require.Less(t, i, 100)
		a.c.Loop().Step()
	}
	require.Zero(t, s.s.Ready())
	require.Len(t, a.c.Loop().DueReceives, 1)
	a.c.Loop().Refuse = nil
	r.settle()
	require.Equal(t, uint16(1), s.s.Ready())
	require.Empty(t, a.c.Loop().DueReceives)
}

// A shard that always finds the other shard's lock taken continues with its own work for some
// time, and then waits for the lock.
func TestPatienceWithAnotherShardEnds(t *testing.T) {
	r := newShards(t, Config{})
	p, _ := pair(r.host("a"), r.host("b"))
	own, _ := pair(p.h, p.h)
	l := p.h.c.Loop()
	asked := 0
	l.Refuse = func() bool { asked++; return true }
	p.post(ctrl(wqe.OpNop))
	own.post(ctrl(wqe.OpNop))
	l.Step()
	own.good()
	r.until("the other's turn", func() bool {
		l.Step()
		_, _, ok := p.scq.next()
		return ok
	})
	require.Greater(t, asked, 1)
}

// A shard that makes work for queues of another shard wakes that shard. A queue that waits for
// a peer in another shard is tried again, although no poster wakes the queue's own shard.
func TestShardsWakeEachOther(t *testing.T) {
	r := newShards(t, Config{})
	for _, l := range r.d.runner.Loops {
		l.Hooks.SleepBound, l.Hooks.Uncontended = never, true
	}
	a, b := r.host("a"), r.host("b")
	p, q := pair(a, b)
	s, u := pair(a, b)
	wakeA, wakeB := a.wakes(), b.wakes()
	r.start()
	asleep := func() {
		r.until("both asleep", func() bool { return a.asleep() && b.asleep() })
	}
	asleep()
	p.post(ctrl(wqe.OpSend))
	wakeA()
	q.recv() // before or after the send is checked
	wakeB()
	require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
	require.Equal(t, cqe.StatusSuccess, q.rcq.await().Status)

	asleep()
	s.post(ctrl(wqe.OpSend))
	wakeA()
	r.until("it waits", func() (ok bool) {
		r.e.Do(func() { ok = s.q.Stall.Kind != object.NoStall })
		return ok
	})
	u.recv()
	wakeB()
	require.Equal(t, cqe.StatusSuccess, s.scq.await().Status)
	require.Equal(t, cqe.StatusSuccess, u.rcq.await().Status)

	asleep()
	q.recv()
	wakeB()
	asleep()
	p.post(ctrl(wqe.OpRDMAWrite), wqe.Raddr{RKey: 0xbad00}, a.full(8, 1).data(0, 8))
	wakeA()
	require.Equal(t, cqe.RemoteAccess, p.scq.await().Syndrome)
	require.Equal(t, cqe.Flush, q.rcq.await().Syndrome, "nobody but the other shard can have woken it")

	// A WAIT ends when the other shard writes the completion that it waits for.
	own, _ := pair(b, b)
	u.recv()
	c := ctrl(wqe.OpWait)
	c.OpMod = wqe.OpModWaitCQ
	own.post(c, wait(u.rcq, 2))
	wakeB()
	asleep()
	s.post(ctrl(wqe.OpSend))
	wakeA()
	require.Equal(t, cqe.StatusSuccess, u.rcq.await().Status)
	require.Equal(t, cqe.StatusSuccess, own.scq.await().Status)
}

// If another shard finds a completion queue full, all queue pairs that use the queue go to
// error, even if their own shard sleeps.
func TestOverrunFromAnotherShard(t *testing.T) {
	r := newShards(t, Config{})
	for _, l := range r.d.runner.Loops {
		l.Hooks.SleepBound, l.Hooks.Uncontended = never, true
	}
	a, b := r.host("a"), r.host("b")
	small := b.cq(control.CQ{LogSize: 0})
	c := a.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{}, c, c), b.qp(control.QP{}, small, small)
	p.up(q)
	q.up(p)
	other := b.qp(control.QP{}, b.cq(control.CQ{LogSize: 4}), small)
	other.up(other)
	wakeA, wakeB := a.wakes(), b.wakes()
	q.recv()
	q.recv()
	other.toState(control.StateSQD)
	other.post(ctrl(wqe.OpNop)) // would be executed in RTS, and is flushed in error
	r.start()
	wakeB()
	r.until("both asleep", func() bool { return a.asleep() && b.asleep() })
	p.post(ctrl(wqe.OpSend))
	p.post(ctrl(wqe.OpSend))
	wakeA()
	require.Equal(t, unharmed, c.await().Syndrome)
	require.Equal(t, cqe.RemoteOperation, c.await().Syndrome)
	require.Equal(t, cqe.Flush, other.scq.await().Syndrome)
}

// An orderly stop of several shards finishes or flushes each crossing, and completes each WQE
// once.
func TestStopAcrossShards(t *testing.T) {
	r := newShards(t, Config{Cores: []int{0, 1, 2}, Burst: 2, Slice: 256})
	hosts := []*host{r.host("a"), r.host("b"), r.host("c")}
	var movers, waiters []*end
	var src, dst []*key
	for i, h := range hosts {
		to := hosts[(i+1)%3]
		p, _ := pair(h, to)
		movers, src, dst = append(movers, p), append(src, h.full(4096, 1)), append(dst, to.full(4096, 2))
		w, _ := pair(h, to)
		waiters = append(waiters, w)
		w.post(ctrl(wqe.OpSend)) // waits, because there is no receive
	}
	r.settle()
	require.Len(t, r.stalled(), 3)
	for i, p := range movers {
		p.write(ctrl(wqe.OpNop))
		p.write(ctrl(wqe.OpRDMAWrite), dst[i].raddr(0), src[i].data(0, 4096))
		p.ring()
	}
	r.stopped()
	for i, p := range movers {
		list := p.scq.all()
		require.Len(t, list, 2)
		for _, w := range list {
			require.Equal(t, unharmed, w.Syndrome)
		}
		r.same(src[i].mem, dst[i].mem, "the long transfer")
		require.Equal(t, cqe.Flush, waiters[i].scq.one().Syndrome)
		require.Equal(t, uint64(control.EngineGone), hosts[i].c.Page.State.Observe())
	}
	r.stopped()
	for i := range movers {
		movers[i].scq.none()
		waiters[i].scq.none()
	}
}

// A WQE in the register of a queue pair whose peer is in another shard is executed when the
// record announces it, and only once.
func TestFlameAcrossShards(t *testing.T) {
	r := newShards(t, Config{})
	a, b := r.host("a"), r.host("b")
	c := a.cq(control.CQ{LogSize: 4})
	p, q := a.qp(control.QP{BlueFlame: 1}, c, c), b.qp(control.QP{}, b.cq(control.CQ{LogSize: 4}), b.cq(control.CQ{LogSize: 4}))
	p.up(q)
	q.up(p)
	src, dst := a.full(400, 1), b.full(400, 2)
	for i := range 40 {
		p.write(ctrl(wqe.OpRDMAWrite), dst.raddr(8*i), src.data(8*i, 8))
		p.postBlueFlame()
		r.d.Step()
		p.ring()
		r.settle()
		require.Equal(t, uint16(i), c.one().Counter)
	}
	r.same(src.mem[:320], dst.mem[:320], "written")
}
