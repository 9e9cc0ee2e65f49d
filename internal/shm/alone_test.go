package shm

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Who pins a thread to one core is not alone for that.
func TestAPinnedThreadIsNotAlone(t *testing.T) {
	before := Alone()
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		var set, one unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err == nil {
			for cpu := range 1024 {
				if set.IsSet(cpu) {
					one.Set(cpu)
					break
				}
			}
			_ = unix.SchedSetaffinity(0, &one)
		}
		done <- Alone()
	}()
	require.Equal(t, before, <-done)
}
