package mapholder

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// trace makes a process stop when it is about to end. stuck waits until the process has stopped,
// checks that the process still has a memory map, and lets it end.
func trace(t *testing.T, pid int) (stuck func()) {
	t.Helper()
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := unix.PtraceSeize(pid); err != nil {
		t.Skipf("ptrace: %v", err)
	}
	const exits = 0x40 // PTRACE_O_TRACEEXIT
	require.NoError(t, unix.PtraceInterrupt(pid))
	var s unix.WaitStatus
	_, err := unix.Wait4(pid, &s, unix.WALL, nil)
	require.NoError(t, err)
	require.NoError(t, unix.PtraceSetOptions(pid, exits))
	require.NoError(t, unix.PtraceCont(pid, 0))
	return func() {
		for {
			_, err := unix.Wait4(pid, &s, unix.WALL, nil)
			require.NoError(t, err)
			if s.Stopped() && s.TrapCause() == unix.PTRACE_EVENT_EXIT {
				break
			}
			require.False(t, s.Exited() || s.Signaled(), "it ended too early: %v", s)
			require.NoError(t, unix.PtraceCont(pid, 0))
		}
		mapsLate(t, pid)
		require.NoError(t, unix.PtraceCont(pid, 0))
		for !s.Exited() && !s.Signaled() {
			_, err := unix.Wait4(pid, &s, unix.WALL, nil)
			require.NoError(t, err)
		}
	}
}
