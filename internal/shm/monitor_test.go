package shm

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the package believes of the processor is what the kernel says of it.
func TestCanMonitorAsTheKernelSays(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	// The kernel's word for it; a hypervisor that hides it hides it from both.
	require.Equal(t, strings.Contains(string(info), " waitpkg"), CanMonitor())
	require.NotEmpty(t, Processor())
}

// Where the processor lacks the instructions, executing one would end the program.
// Where it has them, each ends by itself: the last one by Linux's limit.
func TestWaitingForALineEnds(t *testing.T) {
	b := make([]byte, 64)
	w := BE32At(b, 0)
	begin := time.Now()
	for range 100 {
		w.Monitor()
		AwaitLine(10_000)
		Rest(10_000)
	}
	require.Less(t, time.Since(begin), 5*time.Second)
	w.Monitor()
	w.Publish(1)
	AwaitLine(1 << 31)
	require.Equal(t, uint32(1), w.Observe())
}
