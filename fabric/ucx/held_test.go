//go:build linux && (amd64 || arm64)

package ucx

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Both processes stand still for longer than a peer may be silent, as when the machine does: this is no
// reason for either to give up the other. On a machine that is busy one may get a core so much later than the
// other that it is silent indeed, so there are several attempts.
func TestProcessesAreHeldUp(t *testing.T) {
	const dead, attempts = 500 * time.Millisecond, 5
	said := new(lines)
	log := slog.New(slog.NewTextHandler(said, nil))
	a, b, _ := pair(t, Config{Dead: dead, Log: log}, Config{Dead: dead, Log: log})
	for n := range byte(attempts) {
		exchange(t, a, b, n)
		before := said.count("the peer is silent")
		var pids []int
		for _, s := range []side{a, b} {
			pid, why := s.Process()
			require.NotZero(t, pid, why)
			require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
			pids = append(pids, pid)
		}
		stopped := time.Now()
		await.Until(t, "more time has passed than a peer may be silent", func() bool { return time.Since(stopped) > 2*dead })
		for _, pid := range pids {
			require.NoError(t, unix.Kill(pid, unix.SIGCONT))
		}
		exchange(t, a, b, n)
		if said.count("the peer is silent") == before {
			return
		}
	}
	require.Fail(t, "a process that was held up takes its peer for dead")
}
