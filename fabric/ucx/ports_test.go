//go:build linux && (amd64 || arm64)

package ucx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// listening returns the TCP sockets of a process that listen, as lines of /proc/PID/net/tcp and tcp6.
func listening(t *testing.T, pid int) (list []string) {
	t.Helper()
	own := map[string]bool{}
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && strings.HasPrefix(to, "socket:[") {
			own[strings.Trim(to, "socket:[]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for _, line := range strings.Split(string(text), "\n") {
			if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && own[f[9]] {
				list = append(list, line)
			}
		}
	}
	return list
}

// libucx listens nowhere, although its TCP transport would at a port of each device: there any program could
// end the process, or write into its memory. All connections begin at the port of the carrier.
func TestNoPortsOfUCX(t *testing.T) {
	a, b, _ := pair(t, Config{}, Config{})
	require.NotEmpty(t, listening(t, os.Getpid()), "this is how the carrier's own port is seen")
	for _, s := range []side{a, b} {
		pid, why := s.Process()
		require.NotZero(t, pid, why)
		require.Empty(t, listening(t, pid))
	}
	exchange(t, a, b, 1)
}
