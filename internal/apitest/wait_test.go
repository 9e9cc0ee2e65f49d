package apitest

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
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
	n, err = b.cq.Wait(t.Context(), c[:]) // waiting still works
	require.Equal(t, []any{1, nil}, []any{n, err})
}

func TestWaitOfPollOnly(t *testing.T) {
	b := open(t, nicless.CQConfig{PollOnly: true}, nicless.QPConfig{})
	var c [4]nicless.Completion
	_, err := b.cq.Wait(t.Context(), c[:])
	require.ErrorContains(t, err, "PollOnly")
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

// The end of one call's context does not end the next call, however soon the next call
// follows.
func TestWaitAfterAnEnd(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	for range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		done := b.wait(ctx)
		require.NoError(t, b.a.PostSend(&nop))
		cancel()
		first := <-done
		if first.err == nil {
			require.Equal(t, 1, first.n)
			require.NoError(t, b.a.PostSend(&nop))
		} else {
			require.ErrorIs(t, first.err, context.Canceled)
		}
		require.Equal(t, waited{1, nil}, <-b.wait(t.Context()))
	}
}

// A goroutine that sleeps in Wait is woken for each of many completions, whenever they come.
func TestNoWakeUpIsLost(t *testing.T) {
	b := open(t, nicless.CQConfig{}, nicless.QPConfig{})
	rounds := 3000
	if shm.RaceEnabled {
		rounds = 500
	}
	ctx := await.Context(t)
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
		if i%3 == 0 { // sometimes when the waiter is already asleep
			for end := time.Now().Add(time.Duration(i%50) * time.Microsecond); time.Now().Before(end); {
			}
		}
		require.NoError(t, b.a.PostSend(&nop))
		if got, ok := <-next; !ok || got != i {
			t.Fatalf("completion %d, want %d", got, i)
		}
	}
}

// Poster, poller and engine work at the same time. Every message arrives once, in order,
// with its bytes.
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
			runtime.Gosched() // lets the engine run, because AllocsPerRun uses one core
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

// Wait on a queue that has overflowed first returns the completions that are in the queue,
// and then ErrOverrun.
func TestWaitOnAnOverrunQueue(t *testing.T) {
	b := open(t, nicless.CQConfig{Entries: 2}, nicless.QPConfig{})
	_, err := b.a.PostSendList([]nicless.SendWR{nop, nop, nop, nop})
	require.NoError(t, err)
	await.Until(t, "the queue pair is in the error state", func() bool {
		a, err := b.a.Query()
		return err == nil && a.State == 6 // ERR: the third completion found no room
	})
	require.Equal(t, waited{2, nil}, <-b.wait(t.Context()))
	require.ErrorIs(t, (<-b.wait(t.Context())).err, nicless.ErrOverrun)
	require.ErrorIs(t, (<-b.wait(t.Context())).err, nicless.ErrOverrun)
}
