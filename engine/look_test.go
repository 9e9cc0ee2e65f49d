package engine

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/execution"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// leftIn returns how much of c is left to look at in this pass.
func leftIn(sh *loop.Loop, c *object.Client) int {
	if p := &c.Pass; p.Number == sh.Pass.Number {
		return p.Queues + p.Stalled + p.Arms
	}
	return len(c.Sched.Watches) + len(c.Sched.Stalled) + len(c.Arms.CQs)
}

func leftOfAll(sh *loop.Loop) (n int) {
	for c := range sh.Clients {
		n += leftIn(sh, c)
	}
	return n
}

// However many CQs some clients have, one look polls a bounded number of them, a client with few
// queues is looked at within a few looks, and the pass ends within a bounded number of looks.
func TestLookIsBounded(t *testing.T) {
	roomy(t)
	n := rounds(1000, 4000)
	const hoarders = 5
	r := newRig(t, Config{})
	r.hoard(hoarders, n)
	h := r.host("h")
	id, _ := h.channel()
	c := h.cq(control.CQ{Channel: id})
	p := h.qp(control.QP{NoReceive: 1}, c, c)
	p.up(p)
	r.settle()
	for _, polls := range []int{loop.SoonPolls, loop.LookPolls} {
		r.e.BeginPass()
		all := leftOfAll(r.e)
		require.Greater(t, all, hoarders*n)
		fair, looks := 0, 0
		for before := all; ; looks++ {
			f := r.e.Look(polls, false)
			require.Zero(t, f.Done)
			left := leftOfAll(r.e)
			require.LessOrEqual(t, before-left, polls)
			require.Less(t, left, before, "each look continues the pass, however long it takes")
			before = left
			if leftIn(r.e, h.c.Client) > 0 {
				fair = looks + 1
			}
			if f.Ended {
				require.Zero(t, left)
				break
			}
			require.Positive(t, left)
		}
		// A look that other programs interrupt ends early, but not before one client has had its turn.
		turn := max(loop.LookTurn, n/object.TurnShare)
		require.LessOrEqual(t, fair, hoarders+1, "each of the others has one turn before, of %d", turn)
		require.LessOrEqual(t, looks, all/loop.LookTurn+hoarders+1)
	}
}

// A stalled queue of one client is tried within some steps and looks, although other clients have
// thousands of stalled queues.
func TestRetriesAreFair(t *testing.T) {
	roomy(t)
	n := rounds(300, 1500)
	r := newRig(t, Config{})
	for range 3 {
		h := r.host("hoarder")
		c := h.cq(control.CQ{LogSize: 2})
		for range n {
			p := h.qp(control.QP{LogSQ: 1, LogRQ: 1}, c, c)
			p.up(p)
			p.post(ctrl(wqe.OpSend)) // waits for a receive
		}
	}
	r.settle()
	a := r.host("a")
	p, q := pair(a, a)
	for range 4 {
		p.post(ctrl(wqe.OpSend))
		r.stepsUntil(200, func() bool { return len(a.c.Sched.Stalled) == 1 })
		q.recv()
		turn := object.TurnOf(n, 1)
		steps := r.stepsUntil(3*turn/execution.RetriesPerStep+8, func() bool { return len(a.c.Sched.Stalled) == 0 })
		t.Logf("%d steps", steps)
		r.stepsUntil(200, func() bool { return p.q.SQ.Done == uint64(p.sent) })
		require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
		q.rcq.one()
	}
}

// A cold queue of one client is found within some steps although other clients have thousands.
func TestPatrolIsFair(t *testing.T) {
	roomy(t)
	n := rounds(300, 1500)
	r := newRig(t, Config{})
	const hoarders = 4
	r.manyQPs(hoarders*n, hoarders)
	p := r.manyQPs(1, 1)[0]
	r.cold()
	for range 10 {
		p.post(ctrl(wqe.OpNop))
		r.stepsUntil(hoarders*max(n/object.TurnShare, loop.PatrolPolls)/loop.PatrolPolls+3, func() bool { return p.q.SQ.Done == uint64(p.sent) })
		p.scq.one()
		r.cold()
	}
}

// If queues, stalled queues and CQs end in the middle of a pass, or clients come and go, the pass still
// looks at all others, and ends.
func TestPassSurvivesRemoval(t *testing.T) {
	r := newRig(t, Config{})
	hosts := r.hoard(4, 100)
	var ends []*end
	var armed []*poller
	for _, h := range hosts {
		id, _ := h.channel()
		c := h.cq(control.CQ{LogSize: 6, Channel: id})
		for range 40 {
			p := h.qp(control.QP{NoReceive: 1}, c, c)
			p.up(p)
			ends = append(ends, p)
		}
		armed = append(armed, c)
	}
	r.cold()
	r.e.BeginPass()
	f := r.e.Look(60, false)
	require.Zero(t, f.Done)
	require.False(t, f.Ended)
	require.NoError(t, hosts[3].c.Close())
	late := r.host("late")
	for i, p := range ends[:60] {
		if i%3 == 0 {
			p.destroy()
		}
	}
	for i, p := range ends[:120] {
		if i%3 != 0 || i >= 60 {
			p.post(ctrl(wqe.OpNop))
		}
	}
	for _, c := range armed[:3] {
		c.arm(1, false)
	}
	require.Contains(t, r.e.Clients, late.c.Client)
	// The pass may have looked at a queue before its work was announced. The next pass finds it.
	for passes, looks := 0, 0; passes < 2; looks++ {
		require.Less(t, looks, 1000)
		if f := r.e.Look(60, false); f.Ended {
			passes++
		}
	}
	for i, p := range ends[:120] {
		if i%3 != 0 || i >= 60 {
			require.EqualValues(t, 1, p.q.SQ.Done, "%d", i)
		}
	}
	for _, c := range armed[:3] {
		require.EqualValues(t, 1<<28, hostCQ(c).ArmSeen)
	}
}

func hostCQ(c *poller) *object.CQ { return c.h.c.CQs[c.num] }

// How long a nap is depends neither on the number of queues nor on how long the last look took.
func TestNapsAreBounded(t *testing.T) {
	r := newRig(t, Config{})
	i := loop.NewIdler(r.d.runner.Loops[0], false)
	none, second := ^uint64(0), clock.Cycles(time.Second)
	require.Equal(t, loop.NapTime, i.SleepFor(false, false, 0, none))
	require.LessOrEqual(t, i.SleepFor(false, true, second-1, none), time.Millisecond)
	require.Equal(t, loop.LateNap, i.SleepFor(false, false, 2*second, none))
	require.LessOrEqual(t, i.SleepFor(true, false, second-1, none), time.Millisecond)
	require.Equal(t, loop.SleepTime, i.SleepFor(true, true, 0, none))
	require.Equal(t, loop.LateSleep, i.SleepFor(true, true, 2*second, none))
	require.Equal(t, loop.LastSleep, i.SleepFor(true, true, 11*second, none))
	require.LessOrEqual(t, i.SleepFor(true, true, 0, clock.Cycles(time.Microsecond)), 2*time.Microsecond)
	require.Zero(t, i.SleepFor(true, true, 2*second, 0))
}

// Looks and polls for arms allocate nothing, also if queues stall and events are sent.
func TestLookAllocatesNothing(t *testing.T) {
	if shm.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newRig(t, Config{})
	a := r.host("a")
	list, event := a.readies(4, 0) // so few that all events fit into the socket
	r.hoard(3, 300)
	c := a.cq(control.CQ{LogSize: 4})
	p := a.qp(control.QP{LogSQ: 1, LogRQ: 1}, c, c)
	p.up(p)
	p.post(ctrl(wqe.OpSend)) // waits for a receive
	r.settle()
	sn := uint32(0)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		sn++
		for _, c := range list {
			a.c.CQs[c.num].Notified = 0 // so that there is news for the arm
			c.armBoth(sn)
		}
		for range 40 {
			r.e.Step()
			r.e.Look(loop.SoonPolls, false)
		}
	}))
	n := 0
	for _, ok := event(); ok; _, ok = event() {
		n++
	}
	require.Greater(t, n, 20)
}

// If the records and arm words of a client have lost their pages, each fault ends one look. Every queue
// faults at most once, so the passes end; the queues of another client are looked at; and no fault makes a
// nap longer.
func TestLooksThatFault(t *testing.T) {
	const n = 60
	r := newRig(t, Config{})
	bad, good := r.host("bad"), r.host("good")
	mem, base, shrink := bad.trusted(1 << 20)
	bad.mem, bad.base, bad.used = mem, base, 0
	id, _ := bad.channel()
	var faulty []*end
	for range n {
		c := bad.cq(control.CQ{Channel: id})
		p := bad.qp(control.QP{NoReceive: 1}, c, c)
		p.up(p)
		faulty = append(faulty, p)
	}
	c := good.cq(control.CQ{LogSize: 8})
	var sound []*end
	for range n {
		p := good.qp(control.QP{NoReceive: 1}, c, c)
		p.up(p)
		sound = append(sound, p)
	}
	r.cold()
	shrink(0)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	r.e.BeginPass()
	for _, p := range sound {
		p.post(ctrl(wqe.OpNop))
	}
	busy, looks := 0, 0
	for passes := 0; passes < 2; looks++ {
		require.Less(t, looks, 20*n, "the passes end")
		f := r.e.Look(loop.SoonPolls, false)
		if f.Done > 0 {
			busy++
		}
		if f.Ended {
			passes++
		}
	}
	t.Logf("%d looks, %d with work or faults", looks, busy)
	// A queue pair faults in RTS and again when it is flushed, a CQ once. Work is found once and executed
	// once.
	require.LessOrEqual(t, busy, 5*n)
	for quiet := 0; quiet < 2; { // and then never again
		f := r.e.Look(loop.SoonPolls, false)
		require.Zero(t, f.Done)
		if f.Ended {
			quiet++
		}
	}
	for i, p := range sound {
		require.EqualValues(t, 1, p.q.SQ.Done, "queue %d of the other client", i)
		require.Equal(t, control.StateRTS, p.state())
	}
	for _, p := range faulty {
		require.NotEqual(t, control.StateRTS, p.state())
	}
	i := loop.NewIdler(r.d.runner.Loops[0], false)
	require.Equal(t, loop.NapTime, i.SleepFor(false, false, 0, ^uint64(0)))
}
