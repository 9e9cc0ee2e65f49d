package verbs

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Capabilities in a user namespace of a program's own allow nothing in the network namespace of
// the host.
func TestLowPorts(t *testing.T) {
	may := func(flags uintptr) bool {
		t.Helper()
		p := exec.Command("sleep", "60")
		p.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags == 0 {
			p.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		} else {
			p.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		}
		if err := p.Start(); err != nil {
			t.Skipf("no namespaces: %v", err)
		}
		defer func() {
			_ = p.Process.Kill()
			_ = p.Wait()
		}()
		return mayBindLow(int32(p.Process.Pid), 1000)
	}
	require.False(t, may(syscall.CLONE_NEWUSER))
	require.True(t, may(syscall.CLONE_NEWUSER|syscall.CLONE_NEWNET))
	if os.Getuid() == 0 {
		require.False(t, may(0), "without capabilities")
	}
	require.True(t, mayBindLow(1, 0))
}
