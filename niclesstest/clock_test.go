//go:build linux && (amd64 || arm64)

package niclesstest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/trace"
	"github.com/stretchr/testify/require"
)

// slow is a connection whose retries take long: RNR retries 491.52 ms each, and tries of 4.3 s.
var slow = nicless.Connection{RNRRetry: 6, MinRNRTimer: 31, Retry: 7, Timeout: 20}

const (
	rnrTime = 491520 * time.Microsecond // MinRNRTimer 31
	tryTime = 4096 << 20                // Timeout 20: 4.3 s
)

func TestHeldClockStandsStill(t *testing.T) {
	d := NewWith(t, Config{Clock: Held})
	d.Expect("receive-none")
	a, _ := d.Pair(PairConfig{Connection: slow, TwoClients: true})
	a.Post(a.Send(8))
	d.Advance(6*rnrTime - time.Microsecond)
	var c [1]nicless.Completion
	n, err := a.CQ.Poll(c[:])
	require.NoError(t, err)
	require.Zero(t, n, "a microsecond early")
	d.Advance(2 * time.Microsecond)
	require.ErrorIs(t, a.Next().Err(), cqe.RNRRetry)
}

func TestHeldClockWaits(t *testing.T) {
	d := NewWith(t, Config{Clock: Held})
	a, b := d.Pair(PairConfig{Connection: slow})
	a.Post(a.Send(8))
	d.Advance(5 * rnrTime)
	b.Receive(8)
	require.NoError(t, b.Next().Err())
	require.NoError(t, a.Next().Err())
}

func TestAdvanceIsRefused(t *testing.T) {
	r := report(func(t testing.TB) { New(t).Advance(time.Second) })
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "Advance(1s) of a device with the clock Real")
	r = report(func(t testing.TB) { NewWith(t, Config{Clock: Held}).Advance(-1) })
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "does not go back")
}

// In a bubble, a send without a receive fails after exactly the time of its retries, and the program that
// waits for it needs no change.
func TestRNRInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		d.Expect("receive-none")
		a, _ := d.Pair(PairConfig{Connection: slow, TwoClients: true})
		begin := time.Now()
		require.ErrorIs(t, a.Do(a.Send(8)).Err(), cqe.RNRRetry)
		require.InDelta(t, 6*rnrTime, time.Since(begin), float64(time.Microsecond))
	})
}

// A peer that is gone is missed after all tries: 34 s.
func TestTransportRetriesInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		d.Expect("peer-gone")
		a, b := d.Pair(PairConfig{Connection: slow, TwoClients: true})
		require.NoError(t, b.QP.Close())
		begin := time.Now()
		require.ErrorIs(t, a.Do(a.Write(8)).Err(), cqe.TransportRetry)
		require.InDelta(t, 8*tryTime, time.Since(begin), float64(time.Microsecond))
	})
}

// A program that posts its receive after seconds is served at that time, and not before.
func TestLateReceiveInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		a, b := d.Pair(PairConfig{Connection: slow, TwoClients: true})
		begin := time.Now()
		go func() {
			time.Sleep(2 * time.Second)
			_ = b.QP.PostRecv(&nicless.RecvWR{SGE: []nicless.SGE{b.MR.SGE(0, 8)}})
		}()
		require.NoError(t, a.Do(a.Send(8)).Err())
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.NoError(t, b.Next().Err())
	})
}

// A wait with a deadline ends at the deadline, though nothing happens on the device.
func TestDeadlineInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := NewWith(t, Config{Clock: Bubble}).Pair(PairConfig{})
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		begin := time.Now()
		_, err := a.CQ.Wait(ctx, make([]nicless.Completion, 1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(begin))
	})
}

func TestChannelAndEventsInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		d.Expect("key-access")
		c := d.NewClient()
		ch, err := c.CreateChannel()
		require.NoError(t, err)
		defer func() { require.NoError(t, ch.Close()) }()
		a, _ := d.Pair(PairConfig{})
		_ = a
		cq, err := c.CreateCQ(nicless.CQConfig{Channel: ch})
		require.NoError(t, err)
		defer func() { require.NoError(t, cq.Close()) }()
		pd, err := c.AllocPD()
		require.NoError(t, err)
		defer func() { require.NoError(t, pd.Close()) }()
		mr, err := pd.RegisterMemory(64, nicless.LocalWrite)
		require.NoError(t, err)
		defer func() { require.NoError(t, mr.Close()) }()
		var q [2]*nicless.QP
		for i := range q {
			q[i], err = pd.CreateQP(nicless.QPConfig{SendCQ: cq})
			require.NoError(t, err)
			defer func() { require.NoError(t, q[i].Close()) }()
		}
		require.NoError(t, nicless.Pair(q[0], q[1], nicless.Connection{}))

		require.NoError(t, cq.Arm(false))
		begin := time.Now()
		go func() {
			time.Sleep(time.Second)
			_ = q[0].PostSend(&nicless.SendWR{Op: nicless.Write, SGE: []nicless.SGE{mr.SGE(0, 8)},
				RemoteAddr: mr.Addr(), RKey: mr.RKey()})
		}()
		got, err := ch.Wait(t.Context())
		require.NoError(t, err)
		require.Same(t, cq, got)
		var done [1]nicless.Completion
		n, err := cq.Poll(done[:])
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.ErrorIs(t, done[0].Err(), cqe.RemoteAccess)
		ev, err := c.NextEvent(t.Context())
		require.NoError(t, err)
		require.Equal(t, nicless.EventAccessError, ev.Kind)
		require.Equal(t, time.Second, time.Since(begin))
	})
}

// A device without work lets time pass for its glances only. So a wait for a completion that never comes is
// found by synctest, as nothing is left in the bubble that could end it.
func TestDriverSleepsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		d.Expect("receive-none")
		a, b := d.Pair(PairConfig{Connection: nicless.Connection{RNRRetry: 7}}) // for ever
		a.Post(a.Send(8))
		begin := time.Now()
		time.Sleep(10 * time.Second)
		require.Len(t, d.Explanations(), 1, "the wait was explained, as a real device does after half a second")
		require.Equal(t, 10*time.Second, time.Since(begin))
		b.Receive(8)
		require.NoError(t, a.Next().Err())
		require.NoError(t, b.Next().Err())
	})
}

func TestTraceTimesInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		d.Expect("receive-none")
		a, _ := d.Pair(PairConfig{Connection: slow})
		require.Error(t, a.Do(a.Send(8)).Err())
		var at []time.Time
		tr := d.Trace()
		for e := range tr.Kinds(trace.KindDoorbell, trace.KindFail).Events() {
			at = append(at, tr.Clock().Time(e.Time))
		}
		require.Len(t, at, 2)
		require.InDelta(t, 6*rnrTime, at[1].Sub(at[0]), float64(time.Microsecond))
		require.WithinDuration(t, time.Now(), at[1], time.Microsecond)
	})
}

func TestAdvanceInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		d.Expect("receive-none")
		a, _ := d.Pair(PairConfig{Connection: slow})
		a.Post(a.Send(8))
		begin := time.Now()
		d.Advance(time.Minute)
		require.Equal(t, time.Minute, time.Since(begin))
		if c := a.Next(); !errors.Is(c.Err(), cqe.RNRRetry) {
			t.Fatal(c)
		}
	})
}

func TestRealClockInBubbleIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := report(func(t testing.TB) { New(t) })
		require.Len(t, r.errors, 1)
		require.Contains(t, r.errors[0], "take NewWith(t, Config{Clock: Bubble})")
	})
}
