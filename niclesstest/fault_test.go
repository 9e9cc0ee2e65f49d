//go:build linux && (amd64 || arm64)

package niclesstest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cqe"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// completes is a rule that makes one WQE of a queue pair fail.
func completes(e *End, nth uint64, s cqe.Syndrome) fault.Rule {
	return fault.Rule{Match: fault.Match{QP: fault.Number(e.QP.QPN()), Nth: nth},
		Complete: &fault.Complete{Syndrome: fault.Syndrome(s)}}
}

func TestFault(t *testing.T) {
	clocks(t, func(t *testing.T, cfg Config) {
		d := NewWith(t, cfg)
		a, b := d.Pair(PairConfig{TwoClients: true})
		f := d.Fault(fault.Rules{Rules: []fault.Rule{completes(a, 3, cqe.RemoteOperation)}})
		for range 2 {
			require.NoError(t, a.Do(a.Write(8)).Err())
			require.NoError(t, b.Do(b.Write(8)).Err(), "the rule is for the other queue pair")
		}
		require.ErrorIs(t, a.Do(a.Write(8)).Err(), cqe.RemoteOperation)
		counts, err := f.Counts()
		require.NoError(t, err)
		require.Equal(t, []uint64{1}, counts)
	})
}

// Rules of two calls act side by side, and each set ends alone.
func TestFaultsSideBySide(t *testing.T) {
	d := New(t)
	a, b := d.Pair(PairConfig{TwoClients: true})
	first := d.Fault(fault.Rules{Rules: []fault.Rule{completes(a, 1, cqe.RemoteAccess)}})
	d.Fault(fault.Rules{Rules: []fault.Rule{completes(b, 1, cqe.LocalProtection)}})
	require.NoError(t, first.Close())
	require.NoError(t, a.Do(a.Write(8)).Err())
	require.ErrorIs(t, b.Do(b.Write(8)).Err(), cqe.LocalProtection)
}

func TestBadFault(t *testing.T) {
	r := report(func(t testing.TB) {
		New(t).Fault(fault.Rules{Rules: []fault.Rule{{Name: "no action"}}})
	})
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "niclesstest: nicless: faults: ")
	require.Contains(t, r.errors[0], "no action")
	r = report(func(t testing.TB) { New(t).FaultText("rules: [{stal: 5ms}]") })
	require.Len(t, r.errors, 1)
	require.Contains(t, r.errors[0], "niclesstest: rules:1:10: ")
	require.Contains(t, r.errors[0], "stal")
}

func TestFaultText(t *testing.T) {
	d := New(t)
	a, _ := d.Pair(PairConfig{})
	f := d.FaultText(`rules: [{match: {opcode: RDMA_WRITE, nth: 3}, complete: {syndrome: remote-access}}]`)
	for range 2 {
		require.NoError(t, a.Do(a.Write(8)).Err())
		require.NoError(t, a.Do(a.Read(8)).Err())
	}
	require.ErrorIs(t, a.Do(a.Write(8)).Err(), cqe.RemoteAccess)
	counts, err := f.Counts()
	require.NoError(t, err)
	require.Equal(t, []uint64{1}, counts)
}

// Lost requests are sent again after the time of the connection, and given up after all tries: 34 seconds.
func TestLossInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		a, b := d.Pair(PairConfig{TwoClients: true, Connection: slow})
		f := d.Fault(fault.Rules{Rules: []fault.Rule{
			{RNR: 4, Match: fault.Match{QP: fault.Number(a.QP.QPN()), Nth: 1}},
			{LoseAnswer: 2, Match: fault.Match{QP: fault.Number(b.QP.QPN()), Nth: 1}},
			{LoseRequest: fault.All, Match: fault.Match{QP: fault.Number(a.QP.QPN()), Nth: 2}},
		}})
		took := func(want time.Duration, e *End, wr *nicless.SendWR) (c nicless.Completion) {
			begin := time.Now()
			c = e.Do(wr)
			require.InDelta(t, want, time.Since(begin), float64(time.Microsecond))
			return c
		}
		b.Receive(8)
		require.NoError(t, took(4*rnrTime, a, a.Send(8)).Err())
		require.NoError(t, b.Next().Err())
		require.NoError(t, took(2*tryTime, b, b.Write(8)).Err())
		require.ErrorIs(t, took(8*tryTime, a, a.Write(8)).Err(), cqe.TransportRetry)
		counts, err := f.Counts()
		require.NoError(t, err)
		require.Equal(t, []uint64{1, 1, 1}, counts)
	})
}

// A WQE that a rule holds back for an hour is executed after exactly an hour of the bubble.
func TestStallInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		a, _ := d.Pair(PairConfig{})
		d.Fault(fault.Rules{Rules: []fault.Rule{{Stall: fault.Duration(time.Hour)}}})
		begin := time.Now()
		require.NoError(t, a.Do(a.Write(8)).Err())
		require.InDelta(t, time.Hour, time.Since(begin), float64(time.Microsecond))
	})
}

// A rule says after which time it acts, and the clock is the held one.
func TestFaultAfterAWhile(t *testing.T) {
	d := NewWith(t, Config{Clock: Held})
	a, _ := d.Pair(PairConfig{})
	rule := completes(a, 0, cqe.RemoteOperation)
	rule.Match.After = fault.Duration(time.Minute)
	d.Fault(fault.Rules{Rules: []fault.Rule{rule}})
	d.Advance(time.Minute - time.Microsecond)
	require.NoError(t, a.Do(a.Write(8)).Err())
	d.Advance(2 * time.Microsecond)
	require.ErrorIs(t, a.Do(a.Write(8)).Err(), cqe.RemoteOperation)
}

// A client that a rule kills leaves nothing behind, and its peer finds that it is gone.
func TestKilledClient(t *testing.T) {
	for _, clock := range []Clock{Real, Held} {
		d := NewWith(t, Config{Clock: clock})
		d.Allow("peer-gone")
		a, b := d.Pair(PairConfig{TwoClients: true, Connection: nicless.Connection{Retry: nicless.NoRetry}})
		f := d.Fault(fault.Rules{Rules: []fault.Rule{{Kill: true, Match: fault.Match{QP: fault.Number(b.QP.QPN())}}}})
		b.Post(b.Write(8))
		await.Until(t, "the client is gone", func() bool {
			_, err := b.Client.AllocPD()
			return errors.Is(err, nicless.ErrDeviceGone)
		})
		if clock == Held {
			a.Post(a.Write(8))
			d.Advance(time.Second)
			require.ErrorIs(t, a.Next().Err(), cqe.TransportRetry)
		} else {
			require.ErrorIs(t, a.Do(a.Write(8)).Err(), cqe.TransportRetry)
		}
		counts, err := f.Counts()
		require.NoError(t, err)
		require.Equal(t, []uint64{1}, counts)
	}
}

// A port that is down for ten seconds delays a work request by so much, and one that is down for a minute
// fails it when all tries have run out.
func TestOutageInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewWith(t, Config{Clock: Bubble})
		a, _ := d.Pair(PairConfig{TwoClients: true, Connection: slow})
		outage := func(down time.Duration) (end func() error) {
			f := d.Fault(fault.Rules{Rules: []fault.Rule{{Port: &fault.Port{Down: fault.Duration(down)}}}})
			return f.Close
		}
		end := outage(10 * time.Second)
		begin := time.Now()
		require.NoError(t, a.Do(a.Write(8)).Err())
		require.InDelta(t, 10*time.Second, time.Since(begin), float64(time.Microsecond))
		require.NoError(t, end())

		outage(time.Minute)
		d.Expect("port-down")
		begin = time.Now()
		require.ErrorIs(t, a.Do(a.Write(8)).Err(), cqe.TransportRetry)
		require.InDelta(t, 8*tryTime, time.Since(begin), float64(time.Microsecond))
	})
}
