package usage

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSchedstat(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"":                   0,
		"12 34":              0, // cut off, so the number may be longer
		"12 34 5\n":          34,
		"0 0 0\n":            0,
		"9 123456789012 1\n": 123456789012,
	} {
		require.Equal(t, want, parseWaited([]byte(text)), text)
	}
}

// begin returns a Meter that measures the test's thread.
func begin(t *testing.T) *Meter {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	m := &Meter{}
	m.Begin(clock.Now())
	t.Cleanup(m.End)
	return m
}

// sleep waits in the kernel, which counts as a voluntary context switch of the thread.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}

// touch causes page faults.
func touch(t *testing.T) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, 16*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	for i := 0; i < len(b); i += os.Getpagesize() {
		b[i] = 1
	}
	require.NoError(t, unix.Munmap(b))
}

// A wait together with page faults counts as a delay by memory, with the wait's length. A wait
// without page faults, page faults without a wait, a short wait, and a wait that is excluded
// do not count.
func TestJudge(t *testing.T) {
	const bound, wait = 20 * time.Millisecond, 50 * time.Millisecond
	m := begin(t)
	if m.schedstat == nil {
		t.Skip("the kernel has no schedstat")
	}
	judge := func(f func()) (Delay, bool) {
		since := clock.Now()
		m.Sample(since, true)
		f()
		return m.Check(since, clock.Now(), bound)
	}
	d, ok := judge(func() { touch(t); sleep(wait) })
	require.True(t, ok, d)
	require.GreaterOrEqual(t, d.Took, bound)
	require.GreaterOrEqual(t, d.faults, int64(16))
	require.Positive(t, d.waits)
	require.Contains(t, d.String(), "page faults ")
	require.Equal(t, d.waits, d.Attrs()[7])

	_, ok = judge(func() { touch(t); sleep(0) })
	require.False(t, ok, "a short wait")
	withoutFaults(t, judge, func() { sleep(wait) })
	_, ok = judge(func() {
		touch(t)
		began := clock.Now()
		sleep(wait)
		require.Positive(t, m.Exclude(clock.Now()-began))
	})
	require.False(t, ok, "a wait that is excluded")
}

// withoutFaults checks f, which causes no page faults. It repeats this until the Go runtime
// causes none at the same time either.
func withoutFaults(t *testing.T, judge func(func()) (Delay, bool), f func()) {
	t.Helper()
	for range 100 {
		if d, ok := judge(f); d.faults == 0 {
			require.False(t, ok, "a wait without page faults")
			return
		}
	}
	t.Error("page faults each time")
}

// A sample that is not full does not change the time of the last full sample.
func TestFullSamples(t *testing.T) {
	m := begin(t)
	first := m.full.at
	m.Sample(first+1, false)
	require.Equal(t, first, m.full.at)
	m.Sample(first+2, true)
	require.Equal(t, first+2, m.full.at)
	later := first + 2 + clock.Cycles(fullTime) + 1
	m.Sample(later, false)
	require.Equal(t, later, m.full.at)
	m.Expire()
	m.Sample(later+1, false)
	require.Equal(t, later+1, m.full.at)
}

func TestSampleDoesNotAllocate(t *testing.T) {
	m := begin(t)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Sample(clock.Now(), true) }))
}
