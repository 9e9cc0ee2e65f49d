package sleep

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const never = time.Hour

// each runs a test twice: with a Sleeper whose thread sleeps in the kernel, and with a Sleeper
// whose thread leaves its P to other goroutines.
func each(t *testing.T, test func(t *testing.T, s *Sleeper)) {
	for name, procs := range map[string]int{"several Ps": 2, "one P": 1} {
		t.Run(name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			s, err := New()
			require.NoError(t, err)
			defer s.Close()
			require.Equal(t, procs == 1, s.file != nil)
			test(t, s)
		})
	}
}

// A sleep ends when its time is over, or by a wakeup. A wakeup before the sleep ends the sleep
// at once. Several wakeups before a sleep end only that one sleep.
func TestWake(t *testing.T) {
	each(t, func(t *testing.T, s *Sleeper) {
		require.False(t, s.Sleep(time.Microsecond))
		for range 3 {
			s.Wake()
		}
		require.True(t, s.Sleep(never))
		require.False(t, s.Sleep(time.Microsecond), "its events are taken")
		for range 100 {
			go s.Wake()
			require.True(t, s.Sleep(never))
		}
	})
}

// Each eventfd wakes the thread until it is removed, no matter which of its descriptors is
// written to.
func TestEventFDsOfOthers(t *testing.T) {
	each(t, func(t *testing.T, s *Sleeper) {
		for range 20 { // more events than takeEvents takes in one call
			e, err := NewEventFD()
			require.NoError(t, err)
			defer e.Close()
			require.NoError(t, s.Add(e))
			theirs, err := DupEventFD(e)
			require.NoError(t, err)
			defer theirs.Close()
			require.NoError(t, Signal(theirs))
			defer s.Remove(e)
		}
		require.True(t, s.Sleep(never))
		require.True(t, s.Sleep(never), "there were more")
		require.False(t, s.Sleep(time.Microsecond))

		e, err := NewEventFD()
		require.NoError(t, err)
		defer e.Close()
		require.NoError(t, s.Add(e))
		theirs, err := DupEventFD(e)
		require.NoError(t, err)
		require.NoError(t, Signal(theirs))
		require.True(t, s.Sleep(never))
		s.Remove(e)
		require.NoError(t, Signal(theirs))
		require.NoError(t, theirs.Close())
		require.False(t, s.Sleep(time.Microsecond), "it was removed")
	})
}

// Close restores the thread's timer slack. After Close, Wake does nothing.
func TestClose(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slack := func() int {
		ns, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		require.NoError(t, err)
		return ns
	}
	before := slack()
	s, err := New()
	require.NoError(t, err)
	require.Equal(t, 1, slack())
	s.Close()
	require.Equal(t, before, slack())
	s.Wake()
}
