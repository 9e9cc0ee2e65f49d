package engine

import (
	"runtime/debug"
	"testing"

	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/shm"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A lender is a device whose thread sleeps, and which lets posters run steps meanwhile. Nothing else steps
// it.
type lender struct {
	*rig
	p, q  *end
	woken int // how often the thread was woken since it fell asleep
}

// lending returns a lender with two connected queue pairs.
func lending(t testing.TB, cfg Config) *lender {
	t.Helper()
	l := &lender{}
	l.rig, l.p, l.q = duo(t, cfg)
	t.Cleanup(l.awake)
	return l
}

// sleep makes the thread sleep until the device clock until.
func (l *lender) sleep(until uint64) {
	l.e.Mail.Open(func() { l.woken++ })
	l.e.Mail.StopCallers()
	require.True(l, l.e.Mail.AllowCallers(false))
	l.e.Mail.Lend(until)
	l.woken = 0
}

// awake ends the sleep. From then on the device has no thread.
func (l *lender) awake() {
	l.e.Mail.StopCallers()
	l.e.Mail.Shut()
}

// steps returns the steps of the host's goroutines.
func (h *host) steps() *nic.Steps {
	h.Helper()
	s := h.c.Device.Runner.Lend(h.c.Client)
	require.NotNil(h, s)
	return s
}

// succeeded requires that n completions are there, without a step.
func (c *poller) succeeded(n int) {
	c.h.Helper()
	list := c.all()
	require.Len(c.h, list, n)
	for _, w := range list {
		require.Equal(c.h, cqe.StatusSuccess, w.Status)
	}
}

const noTime = ^uint64(0) >> 1 // a device clock that does not come

func TestPosterExecutesItsWork(t *testing.T) {
	l := lending(t, Config{})
	sends := l.p.h.steps().Sends(l.p.num)
	from, to := l.p.h.full(64, 1), l.q.h.full(64, 2)
	l.sleep(noTime)
	l.p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
	require.True(t, sends())
	l.p.scq.succeeded(1)
	l.same(from.mem, to.mem, "the target")
	require.True(t, sends(), "there is nothing to do")
	require.Zero(t, l.woken)
}

// While the thread is awake, or another borrower works, a poster executes nothing and wakes the thread.
func TestPosterLeavesTheDeviceToOthers(t *testing.T) {
	l := lending(t, Config{})
	steps := l.p.h.steps()
	sends := steps.Sends(l.p.num)
	l.p.post(ctrl(wqe.OpNop))
	all := []func() bool{sends, steps.Receives(l.p.num), steps.Shared, steps.Look}
	refused := func(why string) {
		for _, step := range all {
			require.False(t, step(), why)
		}
		require.Empty(t, l.p.scq.all())
	}
	refused("the thread has not slept yet")
	l.e.Mail.AllowCallers(true)
	refused("the thread does not lend in this sleep")
	l.sleep(noTime)
	l.e.Mail.Mu.Lock()
	refused("another caller works")
	l.e.Mail.Mu.Unlock()
	l.e.Mail.StopCallers()
	refused("the thread is awake")
	l.sleep(noTime)
	require.True(t, sends())
	l.p.scq.succeeded(1)
}

// A SEND that waits for a receive is executed by the goroutine that posts the receive. The thread is woken
// only if the timer of the SEND runs out earlier than the thread wakes by itself.
func TestPosterOfAReceiveExecutesTheSend(t *testing.T) {
	l := lending(t, Config{})
	sends, received := l.p.h.steps().Sends(l.p.num), l.q.h.steps().Receives(l.q.num)
	from, to := l.p.h.full(64, 1), l.q.h.full(64, 2)
	l.p.q.Attr.RNRRetry = 2
	l.sleep(clock.Now())
	l.p.post(ctrl(wqe.OpSend), from.data(0, 64))
	require.True(t, sends())
	require.Empty(t, l.p.scq.all())
	require.Zero(t, l.woken, "the thread wakes before the timer runs out")
	l.q.recv(to.data(0, 64))
	require.True(t, received())
	l.p.scq.succeeded(1)
	l.q.rcq.succeeded(1)

	l.sleep(noTime)
	l.p.post(ctrl(wqe.OpSend), from.data(0, 64))
	require.True(t, sends())
	require.Equal(t, 1, l.woken, "the thread would sleep for longer than the timer runs")
	require.True(t, sends())
	require.Equal(t, 1, l.woken, "one call is enough")
	l.q.recv(to.data(0, 64))
	require.True(t, received())
	l.p.scq.succeeded(1)
}

// A receive for which nothing waits needs no step and no thread.
func TestReceiveWithoutSendWakesNobody(t *testing.T) {
	l := lending(t, Config{})
	received := l.q.h.steps().Receives(l.q.num)
	l.sleep(noTime)
	before := l.e.Sched.Turn
	l.q.recv(l.q.h.full(64, 2).data(0, 64))
	require.True(t, received())
	require.Equal(t, []uint32{before, 0}, []uint32{l.e.Sched.Turn, uint32(l.woken)})
}

// A receive of a queue pair that has failed is flushed by its poster: that is how programs drain a queue.
func TestPosterFlushesItsReceive(t *testing.T) {
	l := lending(t, Config{})
	received := l.q.h.steps().Receives(l.q.num)
	l.q.toState(control.StateERR)
	l.settle()
	l.sleep(noTime)
	l.q.recv(l.q.h.full(64, 2).data(0, 64))
	require.True(t, received())
	require.Equal(t, cqe.StatusFlush, l.q.rcq.one().Status)
	require.Zero(t, l.woken)
}

// A turn is bounded: what is left of a long message is work of the thread.
func TestLongWorkIsLeftToTheThread(t *testing.T) {
	const size, slice = 1 << 18, 1 << 12
	l := lending(t, Config{Slice: slice})
	sends := l.p.h.steps().Sends(l.p.num)
	from, to := l.p.h.full(size, 1), l.q.h.full(size, 2)
	l.sleep(noTime)
	l.p.post(ctrl(wqe.OpRDMAWrite), to.raddr(0), from.data(0, size))
	require.True(t, sends())
	require.Equal(t, 1, l.woken)
	require.Empty(t, l.p.scq.all())
	l.e.Mail.StopCallers()
	l.settle()
	require.Equal(t, cqe.StatusSuccess, l.p.scq.one().Status)
	l.same(from.mem, to.mem, "the target")
}

// A WQE that gives another queue work is executed with that work, on the goroutine of its poster.
func TestPosterExecutesWhatItsWorkEnables(t *testing.T) {
	r := newRig(t, Config{})
	h := r.host("h")
	l := &lender{rig: r}
	t.Cleanup(l.awake)
	managed := h.qp(control.QP{Managed: 1}, h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 4}))
	starter := h.qp(control.QP{}, h.cq(control.CQ{LogSize: 4}), h.cq(control.CQ{LogSize: 4}))
	managed.up(managed)
	starter.up(starter)
	sends := h.steps().Sends(starter.num)
	managed.write(ctrl(wqe.OpNop))
	managed.ring()
	l.sleep(noTime)
	starter.post(ctrl(wqe.OpSendEn), wqe.Wait{Index: 1, Number: managed.num})
	require.True(t, sends())
	starter.scq.succeeded(1)
	managed.scq.succeeded(1)
	require.Zero(t, l.woken)
}

// Memory that has lost its pages ends one work request, also on the goroutine of a poster, on which such a
// fault ends the program before and after. If the turn ends with the fault, the thread goes on.
func TestFaultOfMemoryOnThePostersGoroutine(t *testing.T) {
	l := lending(t, Config{})
	_, base, shrink := l.p.h.trusted(1 << 16)
	k := l.p.h.reg(l.p.h.pd, base, 1<<16, control.AccessLocalWrite)
	far := l.q.h.full(64, 1)
	sends := l.p.h.steps().Sends(l.p.num)
	shrink(0)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(false))
	bound := l.e.Bound
	l.sleep(noTime)
	index := l.p.post(ctrl(wqe.OpRDMAWrite), far.raddr(0), wqe.Data{ByteCount: 64, LKey: k, Addr: base})
	require.True(t, sends())
	require.False(t, debug.SetPanicOnFault(false), "faults of memory are as before")
	require.Equal(t, bound, l.e.Bound)
	if l.woken == 0 { // a look, as a queue that is watched needs it, goes on by itself
		l.failed(l.p.scq.one(), cqe.LocalProtection, index)
	}
	require.True(t, l.e.Mail.Borrow(), "the device is given back")
	l.e.Mail.Return(false)
	l.e.Mail.StopCallers()
	l.settle()
	if l.woken > 0 {
		l.failed(l.p.scq.one(), cqe.LocalProtection, index)
	}
	require.Empty(t, l.p.scq.all())
}

// A queue pair that is gone leaves a step that does nothing.
func TestStepOfAQueueThatIsGone(t *testing.T) {
	l := lending(t, Config{})
	sends := l.p.h.steps().Sends(l.p.num)
	never := l.p.h.steps().Sends(l.q.num + 1<<20)
	l.sleep(noTime)
	require.True(t, sends())
	l.p.destroy()
	l.sleep(noTime)
	require.True(t, sends())
	require.True(t, never())
	require.Zero(t, l.woken)
}

// The status page follows the work of posters.
func TestStatusOfBorrowedSteps(t *testing.T) {
	l := lending(t, Config{})
	sends := l.p.h.steps().Sends(l.p.num)
	l.sleep(noTime)
	l.e.PublishCycles = 0
	l.p.post(ctrl(wqe.OpNop))
	require.True(t, sends())
	require.Equal(t, uint64(1), shm.Word64At(l.p.h.c.Status.Bytes(), control.CounterWQEs.Offset()).Observe())
}

func TestBorrowedStepsAllocateNothing(t *testing.T) {
	l := lending(t, Config{})
	sends := l.p.h.steps().Sends(l.p.num)
	from, to := l.p.h.full(64, 1), l.q.h.full(64, 2)
	l.sleep(noTime)
	const runs = 10
	var ends []uint32
	for range runs + 1 { // one more to warm up
		l.p.write(silent(wqe.OpRDMAWrite), to.raddr(0), from.data(0, 64))
		ends = append(ends, uint32(l.p.sent))
	}
	executed := 0
	require.Zero(t, testing.AllocsPerRun(runs, func() {
		shm.BE32At(l.p.rec, 4).Publish(ends[executed])
		sends()
		executed++
	}))
	require.Equal(t, uint64(runs+1), l.p.q.SQ.WQEs)
}

func TestConfigOfPostersThatStep(t *testing.T) {
	for _, cfg := range []Config{{Idle: IdleSpin}, {Idle: IdleMonitor}, {Cores: []int{0, 1}}} {
		cfg.PostersStep = true
		_, err := New(cfg)
		require.ErrorContains(t, err, "PostersStep")
	}
	_, err := New(Config{PostersStep: true})
	require.NoError(t, err)
	r := newRig(t, Config{Idle: IdleSpin})
	c := r.host("h").c
	require.Nil(t, c.Device.Runner.Lend(c.Client), "a thread that never sleeps has nothing to lend")
}

// While the thread lends the device, a client that posts from elsewhere wakes it, and it works for that
// client.
func TestThreadTakesOver(t *testing.T) {
	r, p, q := duo(t, Config{PostersStep: true})
	r.e.Hooks.SleepBound = never
	sends := p.h.steps().Sends(p.num)
	p.h.wakes()
	rouse := q.h.wakes()
	r.start()
	for range 100 {
		p.post(ctrl(wqe.OpNop))
		r.until("the thread lends the device", sends)
		require.Equal(t, cqe.StatusSuccess, p.scq.one().Status)
		q.post(ctrl(wqe.OpNop))
		rouse()
		require.Equal(t, cqe.StatusSuccess, q.scq.await().Status)
	}
}
