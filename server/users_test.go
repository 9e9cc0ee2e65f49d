package server

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Connections under the uids of other users.

// needRoot skips a test that takes on other users' uids.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to connect as other users")
	}
}

// as calls f on a thread with another effective uid. SO_PEERCRED reports that uid.
func as(t testing.TB, uid int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	set := func(euid int) {
		_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(euid), ^uintptr(0))
		require.Zero(t, errno)
	}
	set(uid)
	// Runs after set(0), so that no other goroutine gets a thread with this uid.
	defer runtime.UnlockOSThread()
	defer set(0)
	f()
}

// dialAs is dial by another user.
func (r *rig) dialAs(uid int, path string) (c *caller) {
	r.Helper()
	as(r, uid, func() { c = r.dial(path) })
	return c
}

// serveAll is serve for all users.
func (r *rig) serveAll() (path string) {
	r.Helper()
	path = r.publicPath()
	r.serveAt(path, 0o666)
	return path
}

// publicPath returns a path at which all users can connect to a socket.
func (r *rig) publicPath() string {
	r.Helper()
	dir, err := os.MkdirTemp("", "nicless") // other users have no access to t.TempDir
	require.NoError(r, err)
	r.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(r, os.Chmod(dir, 0o755))
	return filepath.Join(dir, "s")
}

// asChild runs a test of this program in another process until the calling test ends, and returns the output
// of that process. variable marks the child.
func asChild(t *testing.T, test, variable string, attr syscall.SysProcAttr) (pid int, out io.Reader) {
	t.Helper()
	// /proc/self/exe, because another user may have no access to the test program's directory.
	c := exec.Command("/proc/self/exe", "-test.run=^"+test+"$")
	c.Env = append(os.Environ(), variable)
	c.Dir = "/"
	c.Stderr = os.Stderr
	attr.Pdeathsig = syscall.SIGKILL
	c.SysProcAttr = &attr
	end, err := c.StdinPipe()
	require.NoError(t, err)
	out, err = c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Wait() })
	t.Cleanup(func() { _ = end.Close() })
	return c.Process.Pid, out
}
