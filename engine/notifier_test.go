package engine

import (
	"os"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/eventsocket"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A watchedClient is a client that has its completion channel watched.
type watchedClient struct {
	*host
	id     uint32
	out    *object.Notifier
	events *os.File
	c      *poller
	p      *end
}

// newWatchedClient returns a client of another user than the device's: as far as its channel is concerned.
func newWatchedClient(t *testing.T) *watchedClient {
	w := &watchedClient{host: newRig(t, Config{}).host("many")}
	f, ans := w.socketAnd(control.OpCreateChannel)
	w.events, w.id = f, ans.(*control.Channel).ID
	w.out = w.host.c.Channels[w.id].Out
	require.True(t, w.out.Kin)
	w.out.Kin, w.out.Seen = false, 0
	w.c = w.cq(control.CQ{LogSize: 8, Channel: w.id, Handle: 0x77})
	w.p = w.qp(control.QP{}, w.c, w.c)
	w.p.up(w.p)
	return w
}

// complete makes a completion for which the client has armed.
func (w *watchedClient) complete() {
	w.Helper()
	w.c.arm(uint32(w.c.ci), false)
	w.e.ObserveArm(w.e.CQs[w.c.num])
	w.p.post(ctrl(wqe.OpNop))
	w.settle()
	w.c.one()
}

// event waits for an event.
func (w *watchedClient) event() uint64 {
	w.Helper()
	var b [8]byte
	await.Deadline(w, w.events)
	n, err := w.events.Read(b[:])
	require.NoError(w, err)
	require.Equal(w, 8, n)
	return eventsocket.HandleOf(b)
}

// fire sends an event of a queue, after the pause of a socket that was full.
func (w *watchedClient) fire(c *poller) {
	w.Helper()
	w.until("the channel has room", func() bool {
		w.e.StepClock = 0
		return w.e.Send(w.e.CQs[c.num], object.LateCompletion)
	})
}

// watch has the channel watched by n watchers.
func (w *watchedClient) watch(n int) {
	w.Helper()
	const each = 200 // duplicates of the descriptor, each of which every epoll instance watches
	var copies []int
	for range each {
		fd, err := unix.FcntlInt(w.events.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(w, err)
		w.Cleanup(func() { _ = unix.Close(fd) })
		copies = append(copies, fd)
	}
	for range n / each {
		ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		require.NoError(w, err)
		w.Cleanup(func() { _ = unix.Close(ep) })
		for _, fd := range copies {
			require.NoError(w, unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN}))
		}
	}
	require.NoError(w, unix.SetNonblock(int(w.events.Fd()), true)) // Fd has changed that
}

// However many watchers a client has for its event socket, the device's thread does not spend its
// time on them: a send takes milliseconds here, so a closer makes each.
func TestWatchersDelayTheirClientOnly(t *testing.T) {
	w := newWatchedClient(t)
	w.watch(50_000)
	const events = 20
	for range events {
		w.complete()
		require.Equal(t, uint64(0x77), w.event())
	}
	w.until("the closer is ready", func() bool { return !w.out.Queued.Load() })
	q := w.e.CQs[w.c.num]
	require.Zero(t, q.Sent)
	require.EqualValues(t, events, q.SentAside.Load())
}

// The device's thread sends while a quick send shows that few wait, and only then.
func TestWhoSends(t *testing.T) {
	w := newWatchedClient(t)
	q := w.e.CQs[w.c.num]
	by := func(sent, aside uint32, why string) {
		t.Helper()
		w.complete()
		w.event()
		w.until("the closer is ready", func() bool { return !w.out.Queued.Load() })
		require.Equal(t, [2]uint32{sent, aside}, [2]uint32{q.Sent, q.SentAside.Load()}, why)
	}
	by(0, 1, "nothing is known")
	hour := clock.Cycles(time.Hour)
	w.out.Shown.Store(clock.Now() + hour)
	by(1, 1, "a closer's send was quick")
	w.out.Shown.Store(0)
	w.out.Seen = clock.Now() + hour
	by(2, 1, "a send was quick")
	w.out.Shown.Store(0)
	w.out.Seen = clock.Now() - clock.Cycles(object.QuickCounts)
	by(2, 2, "that was long ago")
	w.out.Shown.Store(clock.Now() + hour)
	w.out.RecordSend(clock.Now() - 2*clock.Cycles(object.QuickSend))
	by(2, 3, "the last one was slow")

	w.out.Kin = true // who may stop the device is believed for longer
	w.out.Shown.Store(0)
	w.out.Seen = clock.Now() - hour
	by(3, 3, "it is one of the device's user")
	w.d.runner.Hooks.SendsNow = false
	w.out.RecordSend(clock.Now() - 2*clock.Cycles(object.QuickSend))
	by(3, 4, "the last one was slow, and counts here too")
}

// Clients of another user are not trusted.
func TestWhoIsKin(t *testing.T) {
	r := newRig(t, Config{})
	me := uint32(os.Geteuid())
	for _, row := range []struct {
		uid uint32
		kin bool
	}{{me, true}, {0, true}, {me + 1, false}} {
		c, err := r.d.nic().NewHosted("c", row.uid, nic.Hosted{})
		require.NoError(t, err)
		n, yours, err := c.NewNotifier()
		require.NoError(t, err)
		require.Equal(t, row.kin, n.Kin)
		require.Equal(t, row.kin, n.Quick(clock.Now()))
		n.Close()
		require.NoError(t, yours.Close())
		require.NoError(t, c.Close())
	}
}

// A closer that finds the socket full keeps the event, and another one sends it when there is room.
func TestClosersKeepEvents(t *testing.T) {
	w := newWatchedClient(t)
	filler := make([]byte, 8)
	for unix.Send(w.out.FD, filler, unix.MSG_DONTWAIT) == nil {
	}
	w.complete()
	w.until("the socket is full", func() bool {
		w.out.Mu.Lock()
		defer w.out.Mu.Unlock()
		return w.out.Kept != nil
	})
	for w.event() == 0 {
	}
	w.until("the closer is ready", func() bool { return !w.out.Queued.Load() })
	require.EqualValues(t, 1, w.e.CQs[w.c.num].SentAside.Load())
	require.Zero(t, w.out.Lost.Load())
}

// While a send takes long, further events wait in order, and a queue for whose event there is no room stays
// armed. Events of a queue that is taken back do not arrive, and do not count.
func TestEventsWaitForTheirSocket(t *testing.T) {
	w := newWatchedClient(t)
	q := w.e.CQs[w.c.num]
	other := w.cq(control.CQ{LogSize: 4, Channel: w.id, Handle: 0x78})
	w.out.Mu.Lock() // as a closer in the middle of a send
	for range object.NoticesQueued + 3 {
		w.complete()
	}
	w.until("a closer waits", func() bool { return w.out.Queued.Load() })
	require.EqualValues(t, object.NoticesQueued, w.host.c.Count[control.CounterEvents])
	require.Zero(t, w.host.c.Count[control.CounterExplained])
	require.True(t, q.Armed)
	require.Equal(t, object.LateCompletion, q.Late)
	w.e.Disarm(q) // as Retract does
	require.Zero(t, w.host.c.Channels[w.id].Late)

	q.Retracted.Store(true)
	w.out.Mu.Unlock()
	w.until("the queue is empty", func() bool { return !w.out.Queued.Load() })
	require.Zero(t, q.SentAside.Load())
	w.fire(other)
	require.Equal(t, uint64(0x78), w.event(), "nothing before it")

	reader, err := unix.Dup(int(w.events.Fd()))
	require.NoError(t, err)
	file := os.NewFile(uintptr(reader), "reader")
	defer file.Close()
	w.fire(other)
	w.until("it is in the socket", func() bool { return w.e.CQs[other.num].SentAside.Load()+w.e.CQs[other.num].Sent == 2 })
	require.Equal(t, uint32(1), w.host.c.Retract(other.num, file), "one was read, and one taken back")
	require.Equal(t, uint32(0), w.host.c.Retract(w.c.num, file))

	// Losses that a closer found are reported with the next event.
	w.out.Lost.Store(5)
	before := w.host.c.Count[control.CounterExplained]
	w.fire(other)
	require.Equal(t, before+1, w.host.c.Count[control.CounterExplained])
	require.Zero(t, w.out.Lost.Load())
}

// Without watchers, the device's thread sends without allocating.
func TestSendingAllocatesNothing(t *testing.T) {
	w := newWatchedClient(t)
	q := w.e.CQs[w.c.num]
	var b [8]byte
	w.out.Kin, w.out.Seen = true, 1
	fd := int(w.events.Fd())
	require.Zero(t, testing.AllocsPerRun(100, func() {
		w.e.Send(q, 0x77)
		_, _ = unix.Read(fd, b[:])
	}))
}
