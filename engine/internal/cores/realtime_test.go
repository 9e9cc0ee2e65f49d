package cores

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Threads without a real-time policy stay as they are.
func TestNormalPolicyIsLeftAlone(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	was, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	if realtime(was) {
		t.Skip("the test has a real-time policy")
	}
	undo, warning, _ := LetHelpersRun(false)
	defer undo()
	require.Empty(t, warning)
	is, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	require.Equal(t, was, is)
}

// A thread with a real-time policy gets a lower priority than it had, and has the former one at the
// end. A thread that yields keeps it.
func TestPriorityIsLowered(t *testing.T) {
	type set struct{ policy, priority uint32 }
	for was, want := range map[set]set{
		{unix.SCHED_FIFO, 10}: {unix.SCHED_FIFO, 9}, {unix.SCHED_RR, 2}: {unix.SCHED_RR, 1},
	} {
		var found [3]set // while the thread yields, while it does not, and after undo
		refused := make(chan error)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: was.policy, Priority: was.priority}
			if err := unix.SchedSetAttr(0, attr, 0); err != nil {
				refused <- err
				return
			}
			now := func() (s set) {
				if a, err := unix.SchedGetAttr(0, 0); err == nil {
					s = set{a.Policy, a.Priority}
				}
				return s
			}
			_, _, _ = LetHelpersRun(true)
			found[0] = now()
			undo, _, _ := LetHelpersRun(false)
			found[1] = now()
			undo()
			found[2] = now()
			refused <- nil
		}()
		if err := <-refused; err != nil {
			t.Skipf("no right to a real-time policy: %v", err)
		}
		require.Equal(t, [3]set{was, want, was}, found)
	}
}

// Nothing is below the lowest priority, so the others get one more.
func TestOthersAreRaised(t *testing.T) {
	ids, priorities, refused := make(chan int), make(chan uint32, 1), make(chan error)
	low := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}
	go func() {
		runtime.LockOSThread() // the threads end with their goroutines
		err := unix.SchedSetAttr(0, low, 0)
		go func() {
			runtime.LockOSThread()
			_ = unix.SchedSetAttr(0, low, 0)
			ids <- unix.Gettid()
			<-ids
		}()
		other := <-ids
		if err == nil {
			undo, _, _ := LetHelpersRun(false)
			undo()
			if attr, err := unix.SchedGetAttr(other, 0); err == nil {
				priorities <- attr.Priority
			}
		}
		ids <- 0
		refused <- err
	}()
	if err := <-refused; err != nil {
		t.Skipf("no right to a real-time policy: %v", err)
	}
	require.EqualValues(t, 2, <-priorities)
}

func TestWhomARealtimeThreadStarves(t *testing.T) {
	for _, c := range []struct {
		turns, helpers, others, reserve bool
		want                            string
	}{
		{true, true, true, true, ""},
		{true, true, false, true, ""},
		{true, false, true, true, ""},
		{false, true, true, true, "the lowest real-time priority"},
		{true, false, false, true, "and no core of their own"},
		{true, true, true, false, "keeps no time for others"},
	} {
		warning, cure := starved(c.turns, c.helpers, c.others, c.reserve)
		require.Equal(t, c.want == "", warning == "")
		require.Equal(t, c.want == "", cure == "")
		require.Contains(t, warning, c.want)
	}
	const name = "proc/sys/kernel/sched_rt_runtime_us"
	require.True(t, reserve(fstest.MapFS{}))
	require.True(t, reserve(fstest.MapFS{name: {Data: []byte("950000\n")}}))
	require.False(t, reserve(fstest.MapFS{name: {Data: []byte("-1\n")}}))
}
