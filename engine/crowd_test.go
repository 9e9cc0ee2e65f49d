package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A crowd is known by a pause of the device's that somebody else's turn explains,
// and by nothing else; it is held for true for a while, for longer where that
// was right.
func TestCrowd(t *testing.T) {
	ms := clock.Cycles(time.Millisecond)
	turns := int64(0) // that others have had
	put := func() { turns++ }
	now := uint64(1 << 40)
	c := newCrowd()
	c.count, c.preempted = func() int64 { return turns }, turns
	c.cores = 1 << 20
	require.False(t, c.look(now))
	put()
	now += ms / 2
	require.False(t, c.look(now), "a short pause")
	c.preempted = turns
	now += 5 * ms
	require.False(t, c.look(now), "a pause without another's turn")
	put()
	c.seen = 0 // it did something in between
	now += 5 * ms
	require.False(t, c.look(now))
	now += 5 * ms
	require.True(t, c.look(now))

	for hold := crowdTime; hold <= crowdMost; hold *= 2 {
		now += clock.Cycles(hold) - ms/2
		require.True(t, c.look(now), "%v", hold)
		now += ms
		require.False(t, c.look(now), "%v", hold)
		put()
		now += 2 * ms
		require.True(t, c.look(now), "it was right to wait for %v", hold)
	}
	now += 3 * clock.Cycles(crowdMost)
	require.False(t, c.look(now-ms/2))
	put()
	require.True(t, c.look(now+ms))
	require.Equal(t, crowdTime, c.hold, "long afterwards")

	c.cores = -1 // fewer than who wants to run
	for range 10 {
		now += clock.Cycles(2 * crowdTime)
		require.True(t, c.look(now))
	}

	require.Equal(t, crowdNap, c.nap(0))
	require.Equal(t, 20*time.Microsecond, c.nap(crowdShare*20*time.Microsecond))
	require.Equal(t, napTime, c.nap(time.Second))
}

// What the kernel is asked is what it answers: two threads that spin on one core
// put each other off it.
func TestWhatTheKernelSaysOfCrowds(t *testing.T) {
	require.Positive(t, runnable())
	var allowed unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	core := 0
	for !allowed.IsSet(core) {
		core++
	}
	spin := func(done func() bool) {
		runtime.LockOSThread() // the thread goes with its goroutine
		var one unix.CPUSet
		one.Set(core)
		if unix.SchedSetaffinity(0, &one) != nil {
			return
		}
		for !done() {
		}
	}
	before, end := int64(0), time.Now().Add(20*time.Second)
	over := make(chan struct{})
	found := make(chan bool)
	go spin(func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	})
	go func() {
		runtime.LockOSThread()
		defer shortTurns()()
		before = preemptions()
		spin(func() bool { return preemptions() > before || time.Now().After(end) })
		found <- preemptions() > before
	}()
	require.True(t, <-found)
	close(over)
}

func TestShortTurns(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	undo := shortTurns()
	is, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	require.Contains(t, []uint64{was.Runtime, uint64(turn)}, is.Runtime) // older kernels ignore it
	require.Equal(t, was.Nice, is.Nice)
	undo()
	is, err = unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	require.Equal(t, was, is)
}
