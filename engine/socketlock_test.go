package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const lockToHold = "NICLESS_TEST_LOCK" // the file that holdLock's child locks

// TestLockHolder is the child of holdLock: it holds a lock until its standard input
// ends.
func TestLockHolder(t *testing.T) {
	path := os.Getenv(lockToHold)
	if path == "" {
		locks := []byte("1: POSIX  ADVISORY  WRITE 7 fe:00:99 0 EOF\n2: FLOCK  ADVISORY  WRITE 8 fe:00:999 0 EOF\n" +
			"3: FLOCK  ADVISORY  WRITE 16707 fe:00:99 0 EOF\n3: -> FLOCK  ADVISORY  WRITE 9 fe:00:98 0 EOF\n4: FLOCK\n\n")
		require.Equal(t, 16707, lockHolder(locks, unix.Mkdev(0xfe, 0), 99))
		require.Zero(t, lockHolder(locks, unix.Mkdev(0xfe, 1), 99))
		require.Zero(t, lockHolder(locks, unix.Mkdev(0xfe, 0), 98), "who waits")
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666)
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0o666))
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, _ = os.Stdout.WriteString("!")
	_, _ = os.Stdin.Read(make([]byte, 1))
}

// holdLock has another process hold a lock, as another user unless uid is 0.
func holdLock(t *testing.T, path string, uid uint32) (pid int) {
	t.Helper()
	var attr syscall.SysProcAttr
	if uid != 0 {
		attr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	pid, out := asChild(t, "TestLockHolder", lockToHold+"="+path, attr)
	b := make([]byte, 1)
	_, err := out.Read(b)
	require.NoError(t, err)
	require.Equal(t, "!", string(b))
	return pid
}

// The process that holds the lock of a socket is named.
func TestLockIsHeldBySomebody(t *testing.T) {
	e := newRig(t, Config{}).e
	path := filepath.Join(t.TempDir(), "s")
	pid := holdLock(t, path+".lock", 0)
	_, err := e.Listen(path, 0o600)
	require.EqualError(t, err, "engine: no engine can listen at "+path+": process "+strconv.Itoa(pid)+" of user "+strconv.Itoa(os.Geteuid())+
		`, "/proc/self/exe -test.run=^TestLockHolder$", holds `+path+".lock")
}

// An engine that listens holds its lock.
func TestLockIsHeldByAnEngine(t *testing.T) {
	e := newRig(t, Config{}).e
	path := filepath.Join(t.TempDir(), "s")
	l, err := e.Listen(path, 0o600)
	require.NoError(t, err)
	defer l.close()
	_, err = e.Listen(path, 0o600)
	require.ErrorContains(t, err, "another engine is listening at "+path+": process "+strconv.Itoa(os.Getpid()))
	require.NotContains(t, err.Error(), "XDG_RUNTIME_DIR")
}

// An error about another user's lock says so, and how to avoid such users.
func TestLockOfAnotherUser(t *testing.T) {
	needRoot(t)
	e := newRig(t, Config{}).e
	dir, err := os.MkdirTemp("", "nicless")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o777|os.ModeSticky))
	path := filepath.Join(dir, "s")
	pid := holdLock(t, path+".lock", 1234)
	_, err = e.Listen(path, 0o600)
	// Where fs.protected_regular is set it cannot even be opened.
	if !errors.Is(err, fs.ErrPermission) {
		require.ErrorContains(t, err, "process "+strconv.Itoa(pid)+" of user 1234")
	}
	require.ErrorContains(t, err, path+".lock belongs to user 1234: choose a path in a directory of your own, such as $XDG_RUNTIME_DIR")

	name := filepath.Join(dir, "closed.lock") // which its owner has closed to others
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Chown(name, 1234, 1234))
	as(t, 4321, func() { _, err = lockSocket(filepath.Join(dir, "closed")) })
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "belongs to user 1234: choose")
}
