//go:build linux && (amd64 || arm64)

package recovery

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
)

// Paths that queue pairs use are never dropped, and others only when there are too many.
func TestPathsAreBounded(t *testing.T) {
	var p Paths
	kept := p.Join(0)
	kept.Resent = 3
	for n := uint32(1); n < 3*mostIdle; n++ {
		p.Join(n).Leave()
		require.LessOrEqual(t, len(p.byNumber), mostIdle)
	}
	require.EqualValues(t, 3, p.Counts()[0].Resent)
	again := p.Join(0)
	require.Same(t, kept, again)
}

// An agreement is confirmed from time to time while packets are lost. It ends after three questions without
// an answer, and an answer renews it.
func TestAgreementIsConfirmed(t *testing.T) {
	var p Paths
	w, ms := p.Join(0), clock.Cycles(time.Millisecond)
	now := 1000 * ms
	number := func(mad [MADSize]byte, ok bool) uint64 {
		require.True(t, ok)
		_, n, ok := ParseMAD(mad[:])
		require.True(t, ok)
		return n
	}
	w.Answered(number(w.Query(now)), 0, now+ms)
	require.True(t, w.Agreed)
	for range 5 { // two questions are lost each time
		now += 110 * ms
		_, ok := w.Confirm(now)
		require.True(t, ok)
		_, ok = w.Confirm(now + 1)
		require.False(t, ok, "there is time for the answer")
		now += 10 * ms
		_, ok = w.Confirm(now)
		require.True(t, ok)
		now += 10 * ms
		w.Answered(number(w.Confirm(now)), 0, now)
		_, ok = w.Confirm(now + 90*ms)
		require.False(t, ok, "it was confirmed")
		require.True(t, w.Agreed)
	}
	now += 110 * ms
	for range mostOpen {
		_, ok := w.Confirm(now)
		require.True(t, ok)
		require.True(t, w.Agreed)
		now += 10 * ms
	}
	again := number(w.Confirm(now))
	require.False(t, w.Agreed)
	w.Answered(again, 0, now+ms)
	require.True(t, w.Agreed)
}

// A round trip that has become longer than the time between two questions does not end an agreement: the
// answer to the first question counts when others have been sent since.
func TestLateAnswerConfirms(t *testing.T) {
	var p Paths
	w, ms := p.Join(0), clock.Cycles(time.Millisecond)
	now := 1000 * ms
	ask := func() uint64 {
		mad, ok := w.Confirm(now)
		require.True(t, ok)
		_, n, _ := ParseMAD(mad[:])
		return n
	}
	mad, _ := w.Query(now)
	_, n, _ := ParseMAD(mad[:])
	w.Answered(n, 0, now+ms)
	now += 110 * ms
	first := ask()
	for range mostOpen - 1 {
		now += 10 * ms
		ask()
	}
	w.Answered(first, 0, now)
	now += 10 * ms
	_, ok := w.Confirm(now)
	require.False(t, ok, "it was confirmed")
	require.True(t, w.Agreed)
	now += 110 * ms
	require.NotEqual(t, first, ask(), "the next has another number")
}

// A window shrinks to no less than Least packets, and grows to Full.
func TestLimit(t *testing.T) {
	l := NewLimit(100, 7)
	for range 20 {
		l.Shrink()
	}
	require.EqualValues(t, Least, l.Window)
	for range 10_000 {
		l.Grow(1)
		require.LessOrEqual(t, l.Window, l.Full)
	}
	require.Equal(t, l.Full, l.Window)
}
