package cores

import (
	"math"
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/nicless/nicless/internal/clock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// asRealtime runs f on a thread with a real-time policy, or skips the test if there is no right to one.
func asRealtime(t *testing.T, f func()) {
	t.Helper()
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		if err == nil {
			f()
		}
		refused <- err
	}()
	if err := <-refused; err != nil {
		t.Skipf("no right to a real-time policy: %v", err)
	}
}

// sleeps returns how often the calling thread has given up its core by itself.
func sleeps() (n int64) {
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &use) == nil {
		n = use.Nvcsw
	}
	return n
}

// A thread with a real-time policy sleeps when a pause is due, and not before. Others never do, nor does one
// that yields.
func TestPauses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if attr, err := unix.SchedGetAttr(0, 0); err != nil || realtime(attr) {
		t.Skip("the test has a real-time policy")
	}
	p, warning, _ := NewPauser(false)
	require.Equal(t, Pauser{}, p)
	require.Empty(t, warning)
	var yielding Pauser
	var slept int64
	var notDue, later bool
	asRealtime(t, func() {
		yielding, _, _ = NewPauser(true)
		p, _, _ = NewPauser(false)
		before, began := sleeps(), clock.Now()
		// A pause may be over before the kernel has put the thread to sleep, if that takes 20 us.
		for tries := 0; slept == 0 && tries < 1000; tries++ {
			p.next = 0
			p.Pause()
			slept = sleeps() - before
		}
		later = p.next >= began+clock.Cycles(pauseEvery)
		p.next = math.MaxUint64
		p.Pause()
		notDue = p.next == math.MaxUint64
	})
	require.False(t, yielding.realtime)
	require.Positive(t, slept) // Go's runtime may wait, too
	require.True(t, later && notDue)
}

// One pause of longEvery is long.
func TestLongPauses(t *testing.T) {
	var p Pauser
	for i := range 3 * longEvery {
		want := pauseTime
		if i%longEvery == longEvery-1 {
			want = longTime
		}
		require.Equal(t, want, p.duration(), "pause %d", i)
	}
}

func TestWhomARealtimeThreadStarves(t *testing.T) {
	for _, c := range []struct {
		helpers, others, reserve bool
		want                     string
	}{
		{true, true, true, ""},
		{true, false, true, ""},
		{false, true, true, ""},
		{false, false, true, "and no core of their own"},
		{true, true, false, "keeps no time for others"},
	} {
		warning, cure := starved(c.helpers, c.others, c.reserve)
		require.Equal(t, c.want == "", warning == "")
		require.Equal(t, c.want == "", cure == "")
		require.Contains(t, warning, c.want)
	}
	const name = "proc/sys/kernel/sched_rt_runtime_us"
	require.True(t, reserve(fstest.MapFS{}))
	require.True(t, reserve(fstest.MapFS{name: {Data: []byte("950000\n")}}))
	require.False(t, reserve(fstest.MapFS{name: {Data: []byte("-1\n")}}))
}
