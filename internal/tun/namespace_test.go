//go:build linux && (amd64 || arm64)

package tun

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// inside reports whether the test runs in a user namespace and a network namespace of its own. If
// it does not, inside runs the test again in a process that does, and takes its result.
func inside(t *testing.T) bool {
	t.Helper()
	const mark = "NICLESS_TUN_INSIDE"
	if os.Getenv(mark) == t.Name() {
		return true
	}
	// The limit of this process ends the other, too.
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=0"}
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), mark+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	runtime.LockOSThread() // the signal is sent when this thread ends
	defer runtime.UnlockOSThread()
	said, err := cmd.CombinedOutput()
	if said == nil && err != nil {
		missing(t, "needs user namespaces: %v %v", err, UserNamespaces())
	}
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), "--- PASS: "+t.Name()+" ", "the test ran")
	return false
}

// needDevice skips the test if this system has no TUN at all.
func needDevice(t *testing.T) {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		missing(t, "%v", explainDevice(err))
	}
	unix.Close(fd)
}

func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("in CI it has to be there: "+format, args...)
	}
	t.Skipf(format, args...)
}

// elsewhere runs do on a thread that is in another, new network namespace, until do returns.
func elsewhere(t *testing.T, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			do()
		}
		done <- err
	}()
	require.NoError(t, <-done)
}

// open opens a device that is closed when the test ends.
func open(t *testing.T, c Config) *Device {
	t.Helper()
	d, err := Open(c)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}
