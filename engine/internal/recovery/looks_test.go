package recovery

import (
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
)

// A look is complete after the sockets were empty, and everything was taken that was in the ring then.
// Packets that come later do not delay it.
func TestLookAtARing(t *testing.T) {
	var k Looks
	k.Begin(100)
	require.False(t, k.Sees(7, true), "the carrier has not looked")
	k.Emptied(7, 64)
	require.False(t, k.Sees(7, false))
	k.Emptied(50, 64)
	require.False(t, k.Sees(70, false), "others keep the ring full")
	require.Zero(t, k.Complete)
	k.Begin(200)
	require.True(t, k.Sees(71, false))
	require.EqualValues(t, 100, k.Complete)
	k.Begin(300)
	require.False(t, k.Sees(500, true), "the carrier has not looked again")
	k.Emptied(500, 64)
	require.True(t, k.Sees(500, true))
	require.EqualValues(t, 300, k.Complete)
	require.EqualValues(t, 2, k.Number)
}

// The wait for a look ends after the attribute timeout, and not before a second of this end's own time. The
// stops of a thread that is slow are not waited, but it is called only a few times.
func TestAwait(t *testing.T) {
	for _, patience := range []time.Duration{time.Millisecond, 4 * time.Second} {
		for _, stop := range []time.Duration{0, time.Minute} {
			var a Absence
			now, calls, waited := clock.Cycles(time.Hour), 0, uint64(0)
			began := now
			for {
				since, again := a.Await(now, clock.Cycles(patience))
				require.Equal(t, began, since)
				if again == 0 {
					break
				}
				calls++
				waited += again - now
				now = again + clock.Cycles(stop)
			}
			require.Equal(t, clock.Cycles(max(patience, time.Second)), waited)
			require.Less(t, calls, 20)
		}
	}
}

// Before a probe, the wait for a look takes as long as the peer was silent at most.
func TestAwaitProbe(t *testing.T) {
	silence := clock.Cycles(time.Millisecond)
	var a Absence
	for now := clock.Cycles(time.Hour); now < clock.Cycles(2*time.Hour); now += clock.Cycles(time.Minute) {
		since, again := a.AwaitProbe(now, silence)
		require.Equal(t, now, since)
		began := now
		for again != 0 {
			now = again
			since, again = a.AwaitProbe(now, silence)
			require.Equal(t, began, since)
		}
		require.Equal(t, began+silence, now)
		a.Probed()
	}
}

// If the attribute timeout passes while a probe waits for a look, it counts after a look that begins later.
func TestTimeoutWaitsForALookOfItsOwn(t *testing.T) {
	ms := clock.Cycles(time.Millisecond)
	var a Absence
	now := clock.Cycles(time.Hour)
	_, again := a.AwaitProbe(now, 2*ms)
	require.NotZero(t, again)
	since, again := a.Await(now+ms, 10*ms)
	require.Equal(t, now+ms, since)
	require.NotZero(t, again)
	since, _ = a.Await(again, 10*ms)
	require.Equal(t, now+ms, since)
}

// Time by which timers were late is given once, and no more than the attribute timeout.
func TestBack(t *testing.T) {
	ms := clock.Cycles(time.Millisecond)
	var a Absence
	a.Late(ms)
	require.Zero(t, a.Back(100*ms), "a thread that runs")
	a.Late(3 * ms)
	a.Late(4 * ms)
	require.Equal(t, 7*ms, a.Back(100*ms))
	a.Late(50 * ms)
	require.Zero(t, a.Back(100*ms))
	a.Restart()
	a.Late(500 * ms)
	require.Equal(t, 100*ms, a.Back(100*ms))
}
