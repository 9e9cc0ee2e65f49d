package unixsock

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func listening(t *testing.T) (*net.UnixListener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, path
}

func dial(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix(network, nil, &net.UnixAddr{Name: path, Net: network})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestListenMode(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o640, 0o666} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := Listen(path, mode)
		require.NoError(t, err)
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm())
		Close(l)
		require.NoFileExists(t, path)
		_, err = l.AcceptUnix()
		// another goroutine is in Close; accept waits until that has ended
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

func TestListenErrors(t *testing.T) {
	_, path := listening(t)
	_, err := Listen(path, 0o600)
	require.ErrorIs(t, err, unix.EADDRINUSE)
	_, err = Listen(filepath.Join(t.TempDir(), "no", "such", "directory"), 0o600)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Listen(filepath.Join(t.TempDir(), strings.Repeat("x", 200)), 0o600)
	require.Error(t, err)
}

// Before PassRights no connection can hold a descriptor, whether the connection was accepted or
// not.
func TestListenersPassNoRights(t *testing.T) {
	l, path := listening(t)
	if PassesRights(l) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which came with Linux 6.16")
	}
	c := dial(t, path)
	send := func() error { return Send(c, []byte("x"), os.Stdin) }
	require.ErrorIs(t, send(), unix.EPERM, "before it is accepted")
	s, err := l.AcceptUnix()
	require.NoError(t, err)
	defer s.Close()
	require.ErrorIs(t, send(), unix.EPERM, "before PassRights")
	require.NoError(t, PassRights(s, true))
	require.True(t, PassesRights(s))
	require.NoError(t, send())
	require.NoError(t, PassRights(s, false))
	require.ErrorIs(t, send(), unix.EPERM)
}

// PassRights also works on sockets that are not from package net.
func TestPassRights(t *testing.T) {
	a, b, err := Pair("pair")
	require.NoError(t, err)
	defer a.Close()
	defer b.Close()
	send := func() error {
		return Control(b, func(fd int) error { return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(fd), nil, 0) })
	}
	if err := PassRights(a, false); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which came with Linux 6.16")
	}
	require.ErrorIs(t, send(), unix.EPERM)
	require.NoError(t, PassRights(a, true))
	require.NoError(t, send())
	require.Error(t, PassRights(&net.UnixConn{}, true))
}

func TestRemoveStale(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	require.NoError(t, RemoveStale(path, "engine"), "nothing is there")

	live, err := Listen(path, 0o600)
	require.NoError(t, err)
	require.EqualError(t, RemoveStale(path, "engine"), "another engine is listening at "+path)
	live.SetUnlinkOnClose(false)
	require.NoError(t, live.Close())
	require.NoError(t, RemoveStale(path, "engine"), "its process is gone")
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	require.EqualError(t, RemoveStale(path, "engine"), path+" exists and is not a socket")
	require.NoError(t, os.Remove(path))

	stream, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	defer stream.Close()
	err = RemoveStale(path, "engine")
	require.ErrorIs(t, err, unix.EPROTOTYPE)
	require.ErrorContains(t, err, path+" is in use")
	require.FileExists(t, path)
}

func TestAcceptor(t *testing.T) {
	l, path := listening(t)
	busy := 2
	var failures []error
	shortage := errors.New("shortage")
	a := Acceptor{
		Listener: l,
		Busy: func() error {
			busy--
			if busy >= 0 {
				return shortage
			}
			return nil
		},
		Failed: func(err error) { failures = append(failures, err) },
	}
	c := dial(t, path)
	s, err := a.Next(t.Context())
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, []error{shortage}, failures, "at most one in ten seconds")
	_, err = c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = s.Read(make([]byte, 1))
	require.NoError(t, err)

	require.NoError(t, l.Close())
	_, err = a.Next(t.Context())
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestAcceptorEndsWithItsContext(t *testing.T) {
	l, _ := listening(t)
	ctx, cancel := contextThatEnds(t)
	a := Acceptor{Listener: l, Busy: func() error { cancel(); return nil }}
	conn, err := a.Next(ctx)
	require.NoError(t, err)
	require.Nil(t, conn)
}

// Temporary errors do not end a server.
func TestTemporary(t *testing.T) {
	for _, err := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED} {
		require.True(t, Temporary(&net.OpError{Op: "accept", Err: err}), "%v", err)
	}
	for _, err := range []error{nil, net.ErrClosed, unix.EBADF, unix.EINVAL, os.ErrDeadlineExceeded} {
		require.False(t, Temporary(err), "%v", err)
	}
}

func TestMakeDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	require.NoError(t, MakeDirectory(dir, 0o700))
	require.NoError(t, MakeDirectory(dir, 0o700), "it exists")
	require.NoError(t, os.Chmod(dir, 0o777))
	require.ErrorContains(t, MakeDirectory(dir, 0o700), "has mode 040777; it has to be a directory of user")
	require.NoError(t, os.Remove(dir))
	require.NoError(t, os.Symlink(t.TempDir(), dir))
	require.ErrorContains(t, MakeDirectory(dir, 0o700), "it has to be a directory of user")
	require.NoError(t, os.Remove(dir))
	require.Error(t, MakeDirectory(filepath.Join(dir, "d"), 0o700))
	if os.Getuid() == 0 {
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.Chown(dir, 1, 1))
		require.ErrorContains(t, MakeDirectory(dir, 0o700), "belongs to user 1 ")
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	await.Until(t, what, done)
}
