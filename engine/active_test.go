package engine

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// manyQPs makes n queue pairs, each connected to itself. They are divided evenly among new
// clients, each of which has one completion queue. clients is the number of clients.
func (r *rig) manyQPs(n, clients int) (ends []*end) {
	r.Helper()
	hosts, cqs := make([]*host, clients), make([]*poller, clients)
	for i := range hosts {
		hosts[i] = r.host(fmt.Sprint(i))
		cqs[i] = hosts[i].cq(control.CQ{LogSize: 8, Flags: control.CQIgnoreOverrun})
	}
	for i := range n {
		c := cqs[i%clients]
		p := hosts[i%clients].qp(control.QP{NoReceive: 1}, c, c)
		p.up(p)
		ends = append(ends, p)
	}
	return ends
}

// patrolled returns which watch of each client that has some was polled last.
func (r *rig) patrolled() map[*object.Client]int {
	at := make(map[*object.Client]int)
	for c := range r.e.Clients {
		if len(c.Sched.Watches) > 0 {
			at[c] = c.Sched.Patrolled
		}
	}
	return at
}

// cold steps until every queue is cold.
func (r *rig) cold() {
	r.Helper()
	for range 3 * object.MostIdleVisits {
		if r.e.Sched.Warm == 0 {
			return
		}
		r.e.Step()
	}
	r.Fatalf("%d queues are still warm", r.e.Sched.Warm)
}

// stepsUntil steps until done returns true, and returns the number of steps. The parameter
// most bounds the number of steps; if done still returns false then, the test fails.
func (r *rig) stepsUntil(most int, done func() bool) int {
	r.Helper()
	for n := range most {
		if done() {
			return n
		}
		r.e.Step()
	}
	require.True(r, done(), "not after %d steps", most)
	return most
}

// The work of a cold queue is executed within one lap of the patrol and one step, wherever
// the queue is in the patrol's list. The work of a warm queue is executed in the next step.
// Both still hold after the queue has turned cold again.
func TestColdQueueIsNoticed(t *testing.T) {
	const n = 400
	r := newRig(t, Config{})
	ends := r.manyQPs(n, 4)
	for range 2 {
		r.cold()
		require.Empty(t, r.e.Sched.Active)
		for i := range 10 {
			p := ends[i*37]
			p.post(ctrl(wqe.OpNop))
			steps := r.stepsUntil(n/loop.PatrolPolls+2, func() bool { return p.q.SQ.Done == uint64(p.sent) })
			p.scq.one()
			require.Equal(t, i+1, r.e.Sched.Warm)
			for range 3 {
				p.post(ctrl(wqe.OpNop))
				r.e.Step()
				p.scq.one()
			}
			t.Logf("%d steps", steps)
		}
	}
}

// A step polls as many records of cold queues when there are 10,000 of them as when there are
// 100.
func TestStepLooksAtAsManyRecords(t *testing.T) {
	roomy(t)
	most := rounds(1_000, 10_000)
	for _, n := range []int{100, most} {
		r := newRig(t, Config{})
		p := r.manyQPs(n, min(n/20, 100))[0]
		r.cold()
		p.post(ctrl(wqe.OpNop))
		r.stepsUntil(n, func() bool { return r.e.Sched.Warm == 1 })
		for range 100 {
			p.post(ctrl(wqe.OpNop))
			before := r.patrolled()
			r.e.Sched.Worked = 0 // so that the length of the last step is not known
			r.e.Step()
			p.scq.all()
			polls := 0
			for c, at := range r.patrolled() {
				polls += (before[c] - at + len(c.Sched.Watches)) % len(c.Sched.Watches)
			}
			require.Equal(t, min(loop.PatrolPolls, polls), polls)
			require.Positive(t, polls)
			require.Equal(t, 1, r.e.Sched.Warm)
		}
	}
}

// After PatrolQuiet steps without work the patrol polls all queues within another PatrolQuiet
// steps.
func TestPatrolIsFastWhenItIsQuiet(t *testing.T) {
	const n = 20 * loop.PatrolQuiet
	r := newRig(t, Config{})
	p := r.manyQPs(n, 20)[7]
	r.cold()
	for range loop.PatrolQuiet + 1 {
		r.e.Step()
	}
	p.post(ctrl(wqe.OpNop))
	r.stepsUntil(loop.PatrolQuiet+1, func() bool { return p.q.SQ.Done == 1 })
}

// A batch of steps that ends when there is nothing to do polls every queue at its end.
func TestHastyStepsLookAtAll(t *testing.T) {
	r := newRig(t, Config{})
	ends := r.manyQPs(300, 3)
	r.cold()
	for _, p := range ends {
		p.post(ctrl(wqe.OpNop))
	}
	require.Positive(t, r.e.Steps(true))
	require.Equal(t, len(ends), r.e.Sched.Warm)
}

// If queues are removed in the middle of a lap of the patrol, the patrol still polls all
// remaining queues by the end of the lap.
func TestRemovalDuringAPatrol(t *testing.T) {
	const n = 48
	for gone := range many(n) {
		for _, at := range []int{1, 5, 9} {
			r := newRig(t, Config{})
			ends := r.manyQPs(n, 4)
			r.cold()
			for c := range r.e.Clients {
				c.Sched.Patrolled = 0
			}
			for _, p := range ends {
				p.post(ctrl(wqe.OpNop))
			}
			for range at {
				r.e.Step()
			}
			also := (gone + at) % n
			ends[gone].destroy()
			ends[also].toState(control.StateRST)
			for range n/loop.PatrolPolls - at {
				r.e.Step()
			}
			for i, p := range ends {
				if i != gone && i != also {
					require.True(t, p.q.Sched.Warm != 0 || p.q.SQ.Done == 1, "%d", i)
				}
			}
		}
	}
}

// Work that arrives without a record update is executed in the next step, even if the queue
// is cold.
func TestWorkWithoutARecord(t *testing.T) {
	setup := func(t *testing.T) *scene {
		s := newScene(t, Config{})
		s.manyQPs(200, 2)
		return s
	}
	t.Run("error", func(t *testing.T) {
		s := setup(t)
		s.q.recv()
		s.cold()
		s.q.toState(control.StateERR)
		s.e.Step()
		require.Len(t, s.q.rcq.all(), 1)
		s.cold()
		s.q.recv() // announces work by the receive record
		s.stepsUntil(204/loop.PatrolPolls+2, func() bool { return s.q.q.RQ.Done == 2 })
		require.Len(t, s.q.rcq.all(), 1)
		s.cold()
		s.q.post(ctrl(wqe.OpNop))
		s.stepsUntil(204/loop.PatrolPolls+2, func() bool { return s.q.q.SQ.Done == 1 })
		require.Len(t, s.q.scq.all(), 1)
	})
	t.Run("announced before RTS", func(t *testing.T) {
		s := setup(t)
		c := s.p.h.cq(control.CQ{LogSize: 4})
		p := s.p.h.qp(control.QP{}, c, c)
		p.modify(p.toInit())
		p.modify(p.toRTR(p.num))
		p.post(ctrl(wqe.OpNop))
		s.cold()
		p.modify(p.toRTS())
		s.e.Step()
		c.one()
	})
	t.Run("SQD and back", func(t *testing.T) {
		s := setup(t)
		s.p.toState(control.StateSQD)
		s.p.post(ctrl(wqe.OpNop))
		s.cold()
		s.p.scq.none()
		s.p.toState(control.StateRTS)
		s.e.Step()
		s.p.scq.one()
	})
	t.Run("receive for a send that waits", func(t *testing.T) {
		s := setup(t)
		s.p.post(ctrl(wqe.OpSend))
		s.cold()
		require.Len(t, stalledQueues(s.e), 1)
		s.q.recv()
		s.e.Step() // ends the wait
		s.e.Step()
		s.p.scq.one()
		s.q.rcq.one()
	})
	t.Run("SEND_EN", func(t *testing.T) {
		s := setup(t)
		c := s.p.h.cq(control.CQ{LogSize: 4})
		p := s.p.h.qp(control.QP{Managed: 1}, c, c)
		p.up(p)
		p.post(ctrl(wqe.OpNop))
		s.cold()
		s.p.post(ctrl(wqe.OpSendEn), wqe.Wait{Number: p.num, Index: 1})
		s.stepsUntil(204/loop.PatrolPolls+2, func() bool { return p.q.SQ.Enabled == 1 })
		s.e.Step()
		c.one()
	})
}

// A record with an impossible value does not keep a queue warm for long, whether the queue is
// stalled or not.
func TestNonsenseStaysCold(t *testing.T) {
	s := newScene(t, Config{})
	s.e.Sched.Few = 0
	s.cold()
	s.p.record(4, 0x1234)
	for range 100 {
		s.e.Step()
		require.Zero(t, s.e.Sched.Warm)
	}
	s.p.record(4, 0)
	s.p.post(ctrl(wqe.OpSend))
	s.settle()
	require.Len(t, stalledQueues(s.e), 1)
	s.p.post(ctrl(wqe.OpNop))
	for range 10 {
		s.e.Step()
		require.Zero(t, s.p.q.Sched.Warm)
	}
	s.q.recv()
	s.settle()
	require.Len(t, s.p.scq.all(), 2)
}

// A client with hundreds of busy queues gets no more of a step than a client with a single
// busy queue, and its queues get equal shares.
func TestFairBetweenClients(t *testing.T) {
	const n = 300
	r := newRig(t, Config{Burst: 4})
	many := r.manyQPs(n, 1)
	one := r.manyQPs(1, 1)[0]
	fill := func(p *end) {
		for p.sent-uint16(p.q.SQ.Done) < 8 {
			p.write(silent(wqe.OpNop))
		}
		p.ring()
	}
	all := func() (sum int) {
		for _, p := range many {
			sum += int(p.q.SQ.Done)
		}
		return sum
	}
	round := func() {
		for _, p := range many {
			fill(p)
		}
		fill(one)
		r.e.Step()
	}
	for range n {
		round()
	}
	mine, others := int(one.q.SQ.Done), all()
	for range 10 * n {
		round()
	}
	mine, others = int(one.q.SQ.Done)-mine, all()-others
	require.Equal(t, 4*10*n, mine, "its burst in each step")
	require.InDelta(t, mine, others, 4*16, "and the others together have as much")
	least, most := many[0].q.SQ.Done, many[0].q.SQ.Done
	for _, p := range many {
		least, most = min(least, p.q.SQ.Done), max(most, p.q.SQ.Done)
	}
	require.LessOrEqual(t, most-least, uint64(8*4))
}

// If a client keeps hundreds of queues warm with one WQE now and then, a step makes only a
// few idle visits to these queues.
func TestWarmCrowdIsLookedAtInPortions(t *testing.T) {
	const n = 500
	r := newRig(t, Config{})
	many := r.manyQPs(n, 1)
	one := r.manyQPs(1, 1)[0]
	for i := range 2000 {
		p := many[i*7%n]
		p.post(silent(wqe.OpNop))
		one.post(ctrl(wqe.OpNop))
		before := r.vain(many)
		r.e.Step()
		one.scq.one()
		if i > 10 {
			require.LessOrEqual(t, r.vain(many)-before, loop.RivalVisits)
		}
	}
}

func (r *rig) vain(ends []*end) (n int) {
	for _, p := range ends {
		n += int(p.q.Sched.IdleVisits)
	}
	return n
}

// Steps allocate nothing when queues turn warm or cold.
func TestWarmingAllocatesNothing(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the detector allocates")
	}
	r := newRig(t, Config{})
	ends := r.manyQPs(200, 20)
	r.cold()
	require.Zero(t, testing.AllocsPerRun(2, func() {
		for _, p := range ends {
			p.sent++
			p.ring()
		}
		for range 200 {
			r.e.Step()
		}
	}))
}

// An idle queue pair takes less than 2 KiB of the device's memory.
func TestIdleQueueIsSmall(t *testing.T) {
	roomy(t)
	if shm.RaceEnabled {
		t.Skip("the detector counts too")
	}
	const n = 2000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	r := newRig(t, Config{})
	r.manyQPs(1, 1)
	before := heap()
	r.manyQPs(n, 1)
	each := int(heap()-before-roomySize) / n
	t.Logf("%d bytes each, with what the test keeps", each)
	require.Less(t, each, 2048)
	runtime.KeepAlive(r)
}

// A few queues are visited in every step, however long they have been idle.
func TestFewQueuesStayWarm(t *testing.T) {
	r, p, _ := duo(t, Config{})
	for range 2 * object.MostIdleVisits {
		r.e.Step()
	}
	p.post(ctrl(wqe.OpNop))
	require.Equal(t, 1, r.e.Step())
}
