package shm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cpu"
)

// A store after Monitor ends the wait, whatever the limit of the wait is. Without such a store
// each wait ends at its limit, and the longest wait at the limit of Linux.
func TestWaitingForALineEnds(t *testing.T) {
	w := BE32At(make([]byte, 64), 0)
	for range 100 {
		w.Monitor()
		cpu.MonitorWait(10_000)
		cpu.TimedPause(10_000)
	}
	w.Monitor()
	w.Publish(1)
	cpu.MonitorWait(1 << 31)
	require.Equal(t, uint32(1), w.Observe())
}
