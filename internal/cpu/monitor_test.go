package cpu

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The package and the kernel agree on what the processor can do. A hypervisor that hides
// WAITPKG hides it from both.
func TestCanMonitorAsTheKernelSays(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip(err)
	}
	require.Equal(t, strings.Contains(string(info), " waitpkg"), CanMonitor())
	require.NotEmpty(t, Name())
}

// On a processor without the instructions, executing one would end the program.
func TestWaitsEnd(t *testing.T) {
	var word uint32
	for range 100 {
		Monitor(&word)
		MonitorWait(10_000)
		TimedPause(10_000)
		Relax(1)
	}
}

func TestCacheSize(t *testing.T) { require.GreaterOrEqual(t, CacheSize(), 64<<10) }
