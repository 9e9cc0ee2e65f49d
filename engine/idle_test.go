package engine

import (
	"context"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/engine/internal/loop"
	"github.com/nicless/nicless/engine/internal/mailbox"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/engine/internal/sleep"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// wakes makes the host say hello, ask for FeatureWake and promise to wake the device. wakes
// returns a function that wakes the device as a poster does after it has announced
// work.
func (h *host) wakes() (rouse func()) {
	h.Helper()
	if !shm.CanBarrier() {
		h.Skip("no membarrier here")
	}
	require.NoError(h, shm.JoinBarrier())
	hello := &control.Hello{Magic: control.Magic, Major: control.Major, Features: ^uint64(0)}
	var w control.Welcome
	h.call(control.OpHello, hello, &w)
	require.Equal(h, control.FeatureWake, w.Features)
	payload := control.Append(nil, control.OpWake, 0, 1, &control.Wake{Wakes: 1})[control.HeaderSize:]
	_, reply, err := h.c.Request(control.OpWake, payload, object.RequestMemory{})
	require.NoError(h, err)
	asleep := shm.Word64At(h.c.Status.Bytes(), control.StatusAsleep)
	return func() {
		if asleep.Observe() != 0 {
			require.NoError(h, sleep.Signal(reply.Wake))
		}
	}
}

func (h *host) asleep() bool { return h.c.Page.Asleep.Observe() != 0 }

// slept returns the number of the device's sleep, once the visit to all queues that precedes it is over.
// Otherwise it returns 0.
func (h *host) slept() uint64 {
	sleep := h.c.Page.Asleep.Observe()
	h.e.Mail.Mu.Lock()
	defer h.e.Mail.Mu.Unlock()
	if !h.e.Mail.CallersRun {
		return 0
	}
	return sleep
}

// A sleep that is bounded by the constant never ends only by a wakeup.
const never = time.Hour

// A poster posts thousands of times, at all moments around the device's falling asleep. If the
// device missed a wakeup, it would never find the work.
func TestNoWakeUpIsMissed(t *testing.T) {
	r, p, _ := duo(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	rouse := p.h.wakes()
	for c := range r.e.Clients {
		if c != p.h.c.Client {
			c.Wake.Always = true // the other client posts nothing
		}
	}
	r.start()
	rounds := rounds(500, 5000)
	slept := 0
	for range rounds {
		p.post(ctrl(wqe.OpNop))
		rouse()
		require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
		pause := time.Now().Add(loop.YieldTime - 100*time.Microsecond + rand.N(200*time.Microsecond))
		for time.Now().Before(pause) {
			runtime.Gosched()
		}
		if p.h.asleep() {
			slept++
		}
	}
	// Where cores are scarce, the device may not have slept at all, so one sleep is awaited.
	r.until("the device sleeps", p.h.asleep)
	p.post(ctrl(wqe.OpNop))
	rouse()
	require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
	t.Logf("asleep %d times of %d", slept, rounds)
}

// A device that is woken and finds no work does not spin: it sleeps again after a step or two.
func TestWakeUpWithoutWorkCostsAStep(t *testing.T) {
	r, p, q := duo(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	rouse := p.h.wakes()
	q.h.wakes()
	r.start()
	turn := func() (n int) {
		r.e.DoWith(mailbox.NoWork, func() { n = int(r.d.runner.Loops[0].Sched.Turn) })
		return n
	}
	asleep := func(sleep uint64) (again uint64) { // for so long that the next sleep may begin at once
		r.until("asleep", func() bool { again = p.h.slept(); return again > sleep })
		began := clock.Now()
		r.until("time passes", func() bool { return clock.Duration(clock.Now()-began) > loop.YieldTime })
		return again
	}
	sleep := asleep(0)
	for range 20 {
		before := turn() // which does not wake the device
		rouse()
		sleep = asleep(sleep)
		require.Less(t, turn()-before, 16, "a batch of steps would be 256")
	}
}

// A device that was woken polls all queues before it sleeps again, also if one step does not poll them all.
func TestManyQueuesArePolledBeforeASleep(t *testing.T) {
	roomy(t)
	r, p, q := duo(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	rouse := p.h.wakes()
	q.h.wakes()
	c := p.h.cq(control.CQ{})
	for range 1024 {
		e := p.h.qp(control.QP{NoReceive: 1}, c, c)
		e.up(e)
	}
	r.start()
	turn := func() (n int) {
		r.e.DoWith(mailbox.NoWork, func() { n = int(r.d.runner.Loops[0].Sched.Turn) })
		return n
	}
	r.until("asleep", func() bool { return p.h.slept() != 0 })
	before, sleep := turn(), p.h.slept()
	rouse()
	r.until("asleep again", func() bool { return p.h.slept() > sleep })
	require.Greater(t, turn()-before, 1, "it spins")
}

// Control requests, receives and the end of the engine also end a sleep.
func TestWhatElseEndsASleep(t *testing.T) {
	r, p, q := duo(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	rouse := p.h.wakes()
	q.h.wakes()
	stop := r.start()
	fallAsleep := func() { r.until("asleep", p.h.asleep) }

	fallAsleep()
	p.h.allocPD()

	// A receive ends the wait of a send that has no timer.
	p.post(ctrl(wqe.OpSend))
	rouse()
	fallAsleep()
	q.recv()
	rouse()
	require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)

	fallAsleep()
	stop()
	require.False(t, p.h.asleep(), "it sleeps although it has ended")
}

// A timer that runs out ends a sleep without a wakeup.
func TestTimersRunOutDuringSleep(t *testing.T) {
	r := newRig(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	a, b := r.host("a"), r.host("b")
	a.wakes()
	b.wakes()
	p, _ := pair(a, b)
	p.q.Attr.RNRRetry = 1
	r.start()
	r.until("asleep", a.asleep)
	p.post(ctrl(wqe.OpSend)) // finds no receive
	r.e.Do(func() {})        // wakes the device
	w := p.scq.await()
	require.Equal(t, cqe.StatusRNRRetryExc, w.Status)
}

// While a client with queues does not wake the device, the device takes only naps.
func TestWhoDoesNotWakeIsFound(t *testing.T) {
	r, p, q := duo(t, Config{})
	r.e.Hooks.SleepBound, r.e.Hooks.Uncontended = never, true
	p.h.wakes()
	r.start()
	r.until("asleep", p.h.asleep)
	q.post(ctrl(wqe.OpNop)) // does not wake the device
	require.Equal(t, cqe.StatusSuccess, q.scq.await().Status)
	// The client says that it wakes the device, and then that it does not.
	q.h.wakes()
	q.h.call(control.OpWake, &control.Wake{}, &control.Empty{})
	r.until("asleep", p.h.asleep)
	q.post(ctrl(wqe.OpNop))
	require.Equal(t, cqe.StatusSuccess, q.scq.await().Status)
}

// A client may have the descriptor without a promise: some of its posters wake the device.
func TestDescriptorWithoutPromise(t *testing.T) {
	h := newRig(t, Config{}).host("h")
	h.wakes()
	payload := control.Append(nil, control.OpWake, 0, 1, &control.Wake{Wakes: control.WakeUnpromised})[control.HeaderSize:]
	_, reply, err := h.c.Request(control.OpWake, payload, object.RequestMemory{})
	require.NoError(t, err)
	require.NoError(t, reply.Wake.Close())
	require.False(t, h.c.Wake.Always)
}

func TestWakeIsRefused(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	h.refused(control.CodeUnsupported, "not granted", control.OpWake, &control.Wake{Wakes: 1}, nil)
	h.wakes()
	h.refused(control.CodeInvalid, "wakes 3", control.OpWake, &control.Wake{Wakes: 3}, nil)
	spins := newRig(t, Config{Idle: IdleSpin}).host("h")
	var w control.Welcome
	spins.call(control.OpHello, &control.Hello{Magic: control.Magic, Major: control.Major, Features: control.FeatureWake}, &w)
	require.Zero(t, w.Features)
}

// A client's eventfd is closed with the client. The device's own eventfd is closed when Run
// ends.
func TestBellsGoWithTheirClients(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	before := r.e.Ledger.Taken()[quota.Descriptors]
	h.wakes()
	require.Equal(t, before+1, r.e.Ledger.Taken()[quota.Descriptors])
	wakeFD := h.c.Wake.FD
	for range 2 { // the client's eventfd works in the second Run too
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, r.d.Run(ctx, cancel))
	}
	require.NoError(t, h.c.Close())
	require.Error(t, wakeFD.Close(), "closed already")
	require.Equal(t, before-object.ClientCharge[quota.Descriptors], r.e.Ledger.Taken()[quota.Descriptors])
}

// If there is only one P, the device leaves it to other goroutines while it sleeps.
func TestSleepWithOneP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r, p, q := duo(t, Config{})
	rouse := p.h.wakes()
	q.h.wakes()
	r.start()
	for range 5 {
		r.until("asleep", p.h.asleep)
		p.post(ctrl(wqe.OpNop))
		rouse()
		require.Equal(t, cqe.StatusSuccess, p.scq.await().Status)
	}
}
