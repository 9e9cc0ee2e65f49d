package sleep

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const never = time.Hour

// each runs a test with a Sleeper of either kind: of a thread that sleeps in the kernel, and
// of one that leaves its P to others.
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

// A sleep ends with its time, or with a wake-up. A wake-up before the sleep ends it at once,
// and several of them end one sleep.
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

// Each eventfd wakes the thread, by any descriptor of it, until it is removed.
func TestEventFDsOfOthers(t *testing.T) {
	each(t, func(t *testing.T, s *Sleeper) {
		for range 20 { // more than are taken at a time
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

// Close gives the thread its timer slack back, and Wake does nothing afterwards.
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
