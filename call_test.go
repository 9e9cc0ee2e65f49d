package nicless

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A slowEngine is an engine that answers a request only when the test allows it.
type slowEngine struct {
	asked  chan control.Op // receives each request, before it is answered
	answer chan struct{}   // the test sends one value for each answer
	pds    uint32
}

func newSlowEngine(t *testing.T) (*slowEngine, *Context) {
	t.Helper()
	uar, err := shm.Create("uar", 4*4096)
	require.NoError(t, err)
	t.Cleanup(func() { _ = uar.Close() })
	status, err := shm.CreateSealed("status", 4096)
	require.NoError(t, err)
	t.Cleanup(func() { _ = status.Close() })
	events, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = errors.Join(unix.Close(events[0]), unix.Close(events[1])) })
	e := &slowEngine{asked: make(chan control.Op, 10), answer: make(chan struct{}, 10)}
	path := pretend(t, func(h control.Header) ([]byte, []int) {
		say := func(m control.Message) []byte { return control.Append(nil, h.Op, control.FlagAnswer, h.Tag, m) }
		switch h.Op {
		case control.OpHello:
			return say(&welcome), []int{int(uar.File().Fd()), int(status.File().Fd())}
		case control.OpOpenEvents:
			return say(&control.Empty{}), []int{events[1]}
		}
		e.asked <- h.Op
		<-e.answer
		if h.Op == control.OpAllocPD {
			e.pds++
			return say(&control.PD{PDN: e.pds}), nil
		}
		return say(&control.Empty{}), nil
	})
	c, err := Dial(path)
	require.NoError(t, err)
	t.Cleanup(func() { close(e.answer); _ = c.Close() })
	return e, c
}

// An abandoned call returns at once, and so does an abandoned call that waits for the
// first one. When the engine answers, the object that it made is closed, and the next
// call gets its own answer.
func TestAbandonedCall(t *testing.T) {
	e, c := newSlowEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	begun := make(chan struct{}, 2)
	for range 2 {
		all.Go(func() {
			pd, err := Call(ctx, func() (*PD, error) { begun <- struct{}{}; return c.AllocPD() })
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, pd)
		})
	}
	<-begun
	<-begun
	require.Equal(t, control.OpAllocPD, <-e.asked)
	cancel()
	all.Wait() // the engine has not answered yet

	_, err := Call(ctx, c.AllocPD)
	require.EqualError(t, err, "nicless: abandoned: context canceled")
	require.Empty(t, e.asked, "not even asked")

	counts := map[control.Op]int{}
	e.answer <- struct{}{}
	for range 3 { // the other AllocPD, and two DeallocPDs
		counts[<-e.asked]++
		e.answer <- struct{}{}
	}
	require.Equal(t, map[control.Op]int{control.OpAllocPD: 1, control.OpDeallocPD: 2}, counts)
	e.answer <- struct{}{}
	pd, err := Call(t.Context(), c.AllocPD)
	require.NoError(t, err)
	require.Equal(t, uint32(3), pd.num)
}

// After Do has abandoned a Close, the object counts as closed.
func TestAbandonedClose(t *testing.T) {
	e, c := newSlowEngine(t)
	e.answer <- struct{}{}
	pd, err := c.AllocPD()
	require.NoError(t, err)
	require.Equal(t, control.OpAllocPD, <-e.asked)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, Do(ctx, pd.Close), context.DeadlineExceeded)
	_, err = pd.RegisterMemory(1, 0)
	require.ErrorIs(t, err, ErrClosed)
}

// With a context that cannot end, or that has not ended, Call does the same as f.
func TestCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), ctx} {
		v, err := Call(ctx, func() (int, error) { return 7, ErrBusy })
		require.Equal(t, 7, v)
		require.ErrorIs(t, err, ErrBusy)
		require.NoError(t, Do(ctx, func() error { return nil }))
		require.PanicsWithValue(t, "of f", func() { _ = Do(ctx, func() error { panic("of f") }) })
		require.Panics(t, func() { _, _ = Call[int](ctx, nil) })
		exited := make(chan bool)
		go func() {
			defer close(exited)
			_ = Do(ctx, func() error { runtime.Goexit(); return nil })
			exited <- false
		}()
		_, returned := <-exited
		require.False(t, returned)
	}
}

// An abandoned call leaves nothing in the engine, at whatever moment it is abandoned.
func TestAbandonedCallsLeaveNothing(t *testing.T) {
	c, err := Open(Config{})
	require.NoError(t, err)
	defer c.Close()
	pd, err := c.AllocPD()
	require.NoError(t, err)
	cq, err := c.CreateCQ(CQConfig{})
	require.NoError(t, err)
	made, left := 0, 0
	for i := range 300 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*2*time.Microsecond)
		qp, err := Call(ctx, func() (*QP, error) { return pd.CreateQP(QPConfig{SendCQ: cq}) })
		if err == nil {
			made++
			require.NoError(t, qp.Close())
		} else {
			left++
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		mr, err := Call(ctx, func() (*MR, error) { return pd.RegisterMemory(4096, FullAccess) })
		if err == nil {
			require.NoError(t, mr.Close())
		}
		cancel()
	}
	t.Log(made, "made,", left, "abandoned")
	await.Until(t, "what abandoned calls have made is gone", func() bool { return pd.Close() == nil && cq.Close() == nil })
}

// DialContext can be given up while no process accepts the connection, and while no
// process answers.
func TestDialContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = DialContext(ctx, path)
	require.ErrorIs(t, err, context.DeadlineExceeded) // the end of the time for answers is another error

	_, err = DialContext(t.Context(), filepath.Join(t.TempDir(), "nobody"))
	require.ErrorIs(t, err, unix.ENOENT)
}
