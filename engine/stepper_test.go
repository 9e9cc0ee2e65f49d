package engine

import (
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/internal/clock"
	"github.com/nicless/nicless/wqe"
	"github.com/stretchr/testify/require"
)

// A caller that drives the device learns when to call again: when the first timer runs out. Nothing happens
// before.
func TestStepAllNamesTheNextTimer(t *testing.T) {
	s := newScene(t, Config{})
	p, q, d := s.p, s.q, s.d.nic()
	now := uint64(1 << 40)
	d.Hold(now)
	done, next := d.StepAll(7)
	require.Zero(t, done)
	require.Equal(t, ^uint64(0), next, "no timer runs")
	require.EqualValues(t, 7, p.q.Client.Page.Asleep.Observe(), "posters have something to wake")

	p.q.Attr.RNRRetry, q.q.Attr.MinRNRTimer = 2, 31
	interval := clock.Cycles(491520 * time.Microsecond)
	p.post(ctrl(wqe.OpSend), s.local.data(0, 8))
	_, next = d.StepAll(8)
	require.Equal(t, interval, next)
	require.Equal(t, object.NotReady, p.q.Stall.Kind)

	now += interval - 1
	d.Hold(now)
	_, next = d.StepAll(9)
	require.EqualValues(t, 1, next, "the first retry")
	require.EqualValues(t, 1, p.q.Stall.Left)
	now += 1
	d.Hold(now)
	_, next = d.StepAll(10)
	require.Equal(t, interval, next)
	require.Zero(t, p.q.Stall.Left)
	d.Hold(now + interval)
	_, next = d.StepAll(11)
	require.Equal(t, ^uint64(0), next)
	require.EqualValues(t, 1, p.q.SQ.CQ.Next, "the send has failed")
}
