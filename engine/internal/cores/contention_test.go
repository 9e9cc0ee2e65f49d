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
	defer c.Close()
	c.count, c.preemptions = func() int64 { return count }, count
	c.cores, c.all, c.runnable = 2, false, func() int { return 2 }
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

	c.cores, c.runnable = 2, func() int { return 3 }
	for range 10 {
		now += clock.Cycles(2 * holdTime)
		require.True(t, c.Check(now))
	}
}

// A thread that has a core for itself is not preempted, although others wait for each other. So it counts the
// threads that want to run: not often, and only if it may run on all cores.
func TestCount(t *testing.T) {
	ms := clock.Cycles(time.Millisecond)
	now, counts, want := uint64(1<<40), 0, 2
	c := Contention{count: func() int64 { return 0 }, cores: 2, all: true}
	c.runnable = func() int { counts++; return want }
	count := func(after time.Duration) bool {
		now += clock.Cycles(after)
		c.Count(now)
		return c.Check(now)
	}
	require.False(t, count(0), "as many threads as cores")
	want = 3
	require.False(t, count(countEvery), "too many, once")
	want = 2
	require.False(t, count(countEvery))
	want = 3
	require.False(t, count(countEvery))
	require.False(t, count(countEvery/2), "counted too soon")
	require.Equal(t, 4, counts)
	require.True(t, count(countEvery), "twice in a row")
	for range 1000 {
		now += clock.Cycles(countEvery)
		require.True(t, c.Check(now))
	}
	want = 2
	now += clock.Cycles(countEvery) - ms
	require.True(t, c.Check(now), "not counted yet")
	require.False(t, c.Check(now+ms), "enough cores")

	c.all, want = false, 3
	require.False(t, count(time.Second))
	require.False(t, count(time.Second), "the threads may be on other cores")
}

// Naps get longer while posters end them, and short again when a timer ends one too late.
func TestNapsThatPostersEnd(t *testing.T) {
	var c Contention
	nap := func(wakeable bool) time.Duration {
		checks := checksPerNap
		if wakeable && c.wakes > 0 {
			checks = checksPerWake
		}
		for range checks {
			require.Zero(t, c.Nap(0, NapTime, wakeable))
		}
		return c.Nap(0, NapTime, wakeable)
	}
	woken := func(n int) {
		for range n {
			c.Napped(true)
			c.Worked()
		}
	}
	require.Equal(t, shortestNap, nap(true))
	woken(wakesPerDouble)
	require.Equal(t, 2*trustedNap, nap(true))
	require.Equal(t, shortestNap, nap(false), "a timer runs")
	woken(wakesPerDouble)
	require.Equal(t, 4*trustedNap, nap(true))
	woken(1000 * wakesPerDouble)
	require.Equal(t, longestNap, nap(true))
	c.count = func() int64 { return 0 }
	c.Napped(false)
	c.Check(1 << 40) // no work
	c.Worked()
	require.Equal(t, longestNap, nap(true), "the timer was not too late")
	c.Napped(false)
	c.Worked()
	require.Equal(t, shortestNap, nap(true))
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
			require.Zero(t, c.Nap(idle, longest, false))
		}
		c.Worked()
		for range checksPerNap {
			require.Zero(t, c.Nap(idle, longest, false))
		}
		require.Equal(t, want, c.Nap(idle, longest, false))
	}
}

// The count of runnable threads comes from the kernel, and costs the engine no memory.
func TestKernelCountsThreads(t *testing.T) {
	threads := openRunnable()
	defer threads.close()
	require.Positive(t, threads.count())
	require.Zero(t, testing.AllocsPerRun(100, func() { threads.count() }))
	var none runnableThreads
	require.Zero(t, none.count())
}

// The count of preemptions comes from the kernel. Two threads that spin on one core preempt each other.
func TestKernelCountsPreemptions(t *testing.T) {
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
