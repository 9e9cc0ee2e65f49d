package programs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program of rdma_cm hears of the end of its engine by DEVICE_REMOVAL for each id, also of one that was
// killed, destroys its ids, and ends by itself.
func TestDeviceRemoval(t *testing.T) {
	t.Parallel()
	path := check(t, "removal")
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		for _, how := range []string{"block", "poll", "fork"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				if how != "block" || name != "killed" {
					long(t)
				}
				l := newLab(t)
				p := l.start(path, how)
				p.says("removal: waits")
				l.engine.killed = true
				require.NoError(t, l.engine.cmd.Process.Signal(signal))
				<-l.engine.done
				require.Contains(t, p.succeeds(), "removal: ok")
			})
		}
	}
}
