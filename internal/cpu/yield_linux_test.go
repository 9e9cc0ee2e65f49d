package cpu

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The result of Uniprocessor does not change when a thread is pinned to one core after the start.
func TestPinnedThreadIsNoUniprocessor(t *testing.T) {
	before := Uniprocessor()
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var set, one unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err == nil {
			for core := range 1024 {
				if set.IsSet(core) {
					one.Set(core)
					break
				}
			}
			_ = unix.SchedSetaffinity(0, &one)
		}
		done <- Uniprocessor()
	}()
	require.Equal(t, before, <-done)
}
