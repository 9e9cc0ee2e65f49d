package cores

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Cores count as contended only after a long gap between two checks in which the thread was
// preempted. They count as contended for a while, and for longer if the thread is preempted
// again soon.
func TestContention(t *testing.T) {
	ms := clock.Cycles(time.Millisecond)
	count := int64(0)
	preempt := func() { count++ }
	now := uint64(1 << 40)
	c := NewContention()
	c.count, c.preemptions = func() int64 { return count }, count
	c.cores = 1 << 20
	require.False(t, c.Check(now))
	preempt()
	now += ms / 2
	require.False(t, c.Check(now), "a short gap")
	c.preemptions = count
	now += 5 * ms
	require.False(t, c.Check(now), "a gap without a preemption")
	preempt()
	c.Worked()
	now += 5 * ms
	require.False(t, c.Check(now), "a gap in which it worked")
	c.Slept()
	now += 5 * ms
	require.False(t, c.Check(now), "a gap in which it slept")
	now += 5 * ms
	require.True(t, c.Check(now))
	require.True(t, c.Contended())

	for hold := holdTime; hold <= holdMost; hold *= 2 {
		now += clock.Cycles(hold) - ms/2
		require.True(t, c.Check(now), "%v", hold)
		now += ms
		require.False(t, c.Check(now), "%v", hold)
		preempt()
		now += 2 * ms
		require.True(t, c.Check(now), "it was right to wait for %v", hold)
	}
	now += 3 * clock.Cycles(holdMost)
	require.False(t, c.Check(now-ms/2))
	preempt()
	require.True(t, c.Check(now+ms))
	require.Equal(t, holdTime, c.hold, "long afterwards")

	c.cores = -1 // fewer cores than runnable threads
	for range 10 {
		now += clock.Cycles(2 * holdTime)
		require.True(t, c.Check(now))
	}
}

// A nap comes after checksPerNap checks without work. The longer there was no work, the longer
// the nap is.
func TestNaps(t *testing.T) {
	var c Contention
	const longest = 50 * time.Microsecond
	for idle, want := range map[time.Duration]time.Duration{
		0:                                shortestNap,
		napShare * 20 * time.Microsecond: 20 * time.Microsecond,
		time.Second:                      longest,
	} {
		for range checksPerNap / 2 {
			require.Zero(t, c.Nap(idle, longest))
		}
		c.Worked()
		for range checksPerNap {
			require.Zero(t, c.Nap(idle, longest))
		}
		require.Equal(t, want, c.Nap(idle, longest))
	}
}

// The counts of preemptions and of runnable threads come from the kernel. Two threads that
// spin on one core preempt each other.
func TestKernelCountsPreemptions(t *testing.T) {
	require.Positive(t, runnable())
	var allowed unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &allowed))
	core := 0
	for !allowed.IsSet(core) {
		core++
	}
	// One P would take turns between the goroutines, and the kernel would see only one thread.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(3, runtime.GOMAXPROCS(0))))
	spin := func(done func() bool) {
		runtime.LockOSThread() // not unlocked, so the thread ends with its goroutine
		if PinWorker(core) != nil {
			return
		}
		for !done() {
		}
	}
	var over, found atomic.Bool
	var all sync.WaitGroup
	defer all.Wait()
	defer over.Store(true)
	all.Go(func() { spin(over.Load) })
	all.Go(func() {
		runtime.LockOSThread()
		defer ShortenSlice()()
		before := preemptions()
		spin(func() bool {
			if preemptions() > before {
				found.Store(true)
			}
			return found.Load() || over.Load()
		})
	})
	await.Until(t, "one preempts the other", found.Load)
}
