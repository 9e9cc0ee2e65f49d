package unixsock

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestLockHolder(t *testing.T) {
	locks := []byte("1: POSIX  ADVISORY  WRITE 7 fe:00:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 fe:00:999 0 EOF\n" +
		"3: FLOCK  ADVISORY  WRITE 16707 fe:00:99 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 9 fe:00:98 0 EOF\n4: FLOCK\n\n")
	require.Equal(t, 16707, lockHolder(locks, unix.Mkdev(0xfe, 0), 99))
	require.Zero(t, lockHolder(locks, unix.Mkdev(0xfe, 1), 99), "another device")
	require.Zero(t, lockHolder(locks, unix.Mkdev(0xfe, 0), 98), "a process that waits")
}

const fileToLock = "NICLESS_TEST_LOCK"

// TestHoldLock is the child of holdLock: it holds a lock until its standard input ends.
func TestHoldLock(t *testing.T) {
	path := os.Getenv(fileToLock)
	if path == "" {
		t.Skip("only as a child of other tests")
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0o666))
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, _ = os.Stdout.WriteString("!")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// holdLock makes another process hold a lock. Unless uid is 0, the process has another user.
func holdLock(t *testing.T, path string, uid uint32) (pid int) {
	t.Helper()
	// Use this path, because another user may have no access to the file's directory.
	c := exec.Command("/proc/self/exe", "-test.run=^TestHoldLock$")
	c.Env = append(os.Environ(), fileToLock+"="+path)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	end, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Wait() })
	t.Cleanup(func() { _ = end.Close() })
	b := make([]byte, 1)
	_, err = out.Read(b)
	require.NoError(t, err)
	require.Equal(t, "!", string(b))
	return c.Process.Pid
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := LockPath(path, "engine")
	require.NoError(t, err)
	_, err = LockPath(path, "engine")
	require.ErrorContains(t, err, "no engine can listen at "+path+": process "+strconv.Itoa(os.Getpid()))
	sock, err := Listen(path, 0o600)
	require.NoError(t, err)
	defer sock.Close()
	_, err = LockPath(path, "engine")
	require.ErrorContains(t, err, "another engine is listening at "+path+": process "+strconv.Itoa(os.Getpid()))
	require.NotContains(t, err.Error(), "XDG_RUNTIME_DIR")
	l.Unlock()
	require.NoFileExists(t, path+".lock")
	l, err = LockPath(path, "engine")
	require.NoError(t, err)
	l.Unlock()
}

// The process that holds the lock is named.
func TestLockOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	pid := holdLock(t, path+".lock", 0)
	_, err := LockPath(path, "server")
	require.EqualError(t, err, "no server can listen at "+path+": process "+strconv.Itoa(pid)+" of user "+strconv.Itoa(os.Geteuid())+
		`, "/proc/self/exe -test.run=^TestHoldLock$", holds `+path+".lock")
}

// An error about another user's lock says that the lock is another user's, and says how to avoid
// such users.
func TestLockOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to hold a lock as another user")
	}
	dir, err := os.MkdirTemp("", "nicless") // other users have no access to t.TempDir
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	path := filepath.Join(dir, "s")
	pid := holdLock(t, path+".lock", 1234)
	_, err = LockPath(path, "engine")
	// If fs.protected_regular is set, the lock file cannot even be opened.
	if !errors.Is(err, fs.ErrPermission) {
		require.ErrorContains(t, err, "process "+strconv.Itoa(pid)+" of user 1234")
	}
	require.ErrorContains(t, err, path+".lock belongs to user 1234: choose a path in a directory of your own, such as $XDG_RUNTIME_DIR")

	name := filepath.Join(dir, "closed.lock") // other users have no access to this file
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Chown(name, 1234, 1234))
	asUser(t, 4321, func() { _, err = LockPath(filepath.Join(dir, "closed"), "engine") })
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorContains(t, err, "belongs to user 1234: choose")
}

// asUser calls f on a thread that has another effective uid.
func asUser(t *testing.T, uid int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	set := func(euid int) {
		_, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(euid), ^uintptr(0))
		require.Zero(t, errno)
	}
	set(uid)
	// runs after set(0), so that no other goroutine gets a thread with this uid
	defer runtime.UnlockOSThread()
	defer set(0)
	f()
}
