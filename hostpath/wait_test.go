package hostpath_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
)

func TestWaitEndsWithItsContext(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	var c [4]nicless.Completion
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	n, err := b.cq.Wait(canceled, c[:])
	require.Zero(t, n)
	require.ErrorIs(t, err, context.Canceled)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = b.cq.Wait(short, c[:])
	require.ErrorIs(t, err, context.DeadlineExceeded)
	n, err = b.cq.Wait(t.Context(), nil)
	require.Equal(t, []any{0, nil}, []any{n, err})

	require.NoError(t, b.a.PostSend(&nop))
	n, err = b.cq.Wait(t.Context(), c[:]) // it still can
	require.Equal(t, []any{1, nil}, []any{n, err})
}

func TestWaitOfPollOnly(t *testing.T) {
	b := open(t, nicless.CQConfig{PollOnly: true}, nicless.QPConfig{})
	var c [4]nicless.Completion
	_, err := b.cq.Wait(t.Context(), c[:])
	require.ErrorContains(t, err, "PollOnly")
}

// A lateContext ends when the test says so, and calls back when the test says
// so: what the runtime may do at any time, made to happen at the worst.
type lateContext struct {
	context.Context
	ended atomic.Bool
	f     func()
	asked chan struct{}          // closed once Wait is about to sleep
	onErr atomic.Pointer[func()] // called once, after Err has looked
}

func newLateContext() *lateContext {
	return &lateContext{Context: context.Background(), asked: make(chan struct{})}
}

func (c *lateContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *lateContext) Err() (err error) {
	if c.ended.Load() {
		err = context.Canceled
	}
	if f := c.onErr.Swap(nil); f != nil {
		(*f)()
	}
	return err
}

// AfterFunc is what context.AfterFunc uses. Stopping it comes too late.
func (c *lateContext) AfterFunc(f func()) (stop func() bool) {
	c.f = f
	close(c.asked)
	return func() bool { return false }
}

// end ends the context and has those called back who asked for it.
func (c *lateContext) end() {
	c.ended.Store(true)
	c.f()
}

type waited struct {
	n   int
	err error
}

func (b *bench) wait(ctx context.Context) <-chan waited {
	done := make(chan waited, 1)
	go func() {
		var c [4]nicless.Completion
		n, err := b.cq.Wait(ctx, c[:])
		done <- waited{n, err}
	}()
	return done
}

// The end of one call's context, noticed late, does not end the next call.
func TestWaitAfterALateEnd(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	first := newLateContext()
	done := b.wait(first)
	<-first.asked
	require.NoError(t, b.a.PostSend(&nop))
	require.Equal(t, waited{1, nil}, <-done)

	second := newLateContext()
	done = b.wait(second)
	<-second.asked
	first.end() // now, while the second sleeps
	select {
	case w := <-done:
		t.Fatalf("the second call ended with the first's context: %v", w)
	case <-time.After(5 * time.Millisecond):
	}
	require.NoError(t, b.a.PostSend(&nop))
	require.Equal(t, waited{1, nil}, <-done)
}

// A sleeper is woken for each of many completions, whenever they come.
func TestNoWakeUpIsLost(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	rounds := 3000
	if shm.RaceEnabled {
		rounds = 500
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	next := make(chan int)
	go func() {
		defer close(next)
		var c [4]nicless.Completion
		for got := 0; got < rounds; {
			n, err := b.cq.Wait(ctx, c[:])
			if err != nil {
				t.Errorf("after %d: %v", got, err)
				return
			}
			for range n {
				next <- got
				got++
			}
		}
	}()
	for i := range rounds {
		if i%3 == 0 { // at times when the waiter sleeps, too
			for end := time.Now().Add(time.Duration(i%50) * time.Microsecond); time.Now().Before(end); {
			}
		}
		require.NoError(t, b.a.PostSend(&nop))
		if got, ok := <-next; !ok || got != i {
			t.Fatalf("completion %d, want %d", got, i)
		}
	}
}

// Poster, poller and engine at work together; every message arrives once, in
// order, with its bytes.
func TestConcurrent(t *testing.T) {
	b := open(t, nicless.CQConfig{Entries: 512}, nicless.QPConfig{MaxSendWR: 32, MaxRecvWR: 32, SignalAll: true})
	total := uint64(20_000)
	if shm.RaceEnabled {
		total = 2000
	}
	const slot = 64
	recv := func(i uint64) error {
		return b.b.PostRecv(&nicless.RecvWR{ID: i, SGE: []nicless.SGE{b.mr.SGE(int(i%32)*slot, slot)}})
	}
	for i := range uint64(32) {
		require.NoError(t, recv(i))
	}
	var all sync.WaitGroup
	all.Add(1)
	go func() {
		defer all.Done()
		var payload [16]byte
		for i := uint64(0); i < total; {
			payload[0], payload[7] = byte(i), byte(i>>8)
			switch err := b.a.PostSend(&nicless.SendWR{ID: i, Op: nicless.SendImm, Imm: uint32(i), Data: payload[:]}); err {
			case nil:
				i++
			case nicless.ErrFull:
				runtime.Gosched()
			default:
				t.Error(err)
				return
			}
		}
	}()
	var sent, received uint64
	var list [16]nicless.Completion
	for sent < total || received < total {
		n, err := b.cq.Wait(t.Context(), list[:])
		require.NoError(t, err)
		for i := range list[:n] {
			c := &list[i]
			if err := c.Err(); err != nil {
				t.Fatal(err)
			}
			if c.Requester() {
				if c.ID != sent {
					t.Fatalf("send %d completed, want %d", c.ID, sent)
				}
				sent++
				continue
			}
			m := b.mr.Bytes()[c.ID%32*slot:]
			if c.ID != received || c.Imm != uint32(received) || c.ByteLen != 16 || m[0] != byte(received) || m[7] != byte(received>>8) {
				t.Fatalf("receive %d: %+v", received, c)
			}
			received++
			if err := recv(received + 31); err != nil {
				t.Fatal(err)
			}
		}
	}
	all.Wait()
}

// Posting and polling allocate nothing.
func TestNoAllocations(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	var c [4]nicless.Completion
	wr := nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled, SGE: []nicless.SGE{b.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr() + 64, RKey: b.mr.RKey()}
	list := []nicless.SendWR{wr, wr}
	poll := func(want int) {
		for want > 0 {
			n, err := b.cq.Poll(c[:])
			if err != nil {
				t.Fatal(err)
			}
			want -= n
			runtime.Gosched() // the engine's turn, on the one core that is measured on
		}
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := b.a.PostSend(&wr); err != nil {
			t.Fatal(err)
		}
		poll(1)
		if n, err := b.a.PostSendList(list); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		poll(2)
	}))
}
