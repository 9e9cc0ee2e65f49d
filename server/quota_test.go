package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// On a kernel that cannot refuse descriptors, refused connections of one user can take long to
// close, because they hold unread descriptors. The server still serves other users.
func TestLingeringConnectionsStopNobodyElse(t *testing.T) {
	needRoot(t)
	r := newRig(t, engine.Config{})
	r.bound(nic.Bounds{Descriptors: 64})
	path := r.publicPath()
	r.serveBy(r.listen(path, 0o666).oldKernel())
	plain := memfd(t, 1, 0)
	for n := range 64 { // as many connections as there are descriptors
		fd, own := plain, n < 8
		if own {
			fd = lingering(t)
		}
		c := r.dialAs(1000, path)
		_, _, _ = c.conn.WriteMsgUnix([]byte("garbage"), nil, nil) // ends the connection
		for range 3 {
			_, _, _ = c.conn.WriteMsgUnix([]byte("unread"), unix.UnixRights(fd, fd), nil)
		}
		if own {
			go unix.Close(fd) // this close lingers if the engine has closed its copy before
		}
		require.NoError(t, c.conn.Close())
	}
	good := r.dialAs(2000, path)
	good.hello()
	r.until("what the kernel held up is closed", func() bool { return r.held().Closing == 0 })
	require.Nil(t, good.call(control.OpAllocPD, &control.Empty{}, &control.PD{}))
}

// If the kernel can refuse descriptors, no client can send a descriptor, not even before its
// connection is accepted. Answers with descriptors still arrive.
func TestListenerRefusesDescriptors(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := r.serveAll()
	if err := unixsock.PassRights(r.dial(path).conn, true); errors.Is(err, unix.ENOPROTOOPT) {
		t.Skip("needs Linux 6.16, which knows SO_PASSRIGHTS")
	}
	var p [2]int
	require.NoError(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	c := r.dial(path)
	for _, greeted := range []bool{false, true} {
		if greeted {
			c.hello() // its answer carries two descriptors
		}
		_, _, err := c.conn.WriteMsgUnix([]byte("x"), unix.UnixRights(p[0]), nil)
		require.ErrorIs(t, err, unix.EPERM)
	}
}

// A close that would linger for an hour is interrupted. (The signals of Go's own scheduler can do that
// before the closer does.)
func TestLingeringCloseIsInterrupted(t *testing.T) {
	r := newRig(t, engine.Config{})
	fd := lingering(t)
	cost := nic.Cost{Descriptors: 1}
	require.NoError(t, r.d.Incur(7, cost))
	r.d.Discard(7, []nic.File{os.NewFile(uintptr(fd), "lingering")})
	r.until("it is closed", func() bool { return r.charged(nic.Cost{}) })
}

// A connection is charged to its user until it is closed.
func TestConnectionCountsUntilClosed(t *testing.T) {
	r := newRig(t, engine.Config{})
	uid := uint32(os.Geteuid())
	release := r.d.(nic.Probe).StickClosers(uid)
	path := filepath.Join(t.TempDir(), "s")
	r.serveBy(r.listen(path, 0o600).oldKernel()) // so that the connection may hold descriptors
	c := r.dial(path)
	c.hello()
	require.NoError(t, c.conn.Close())
	want := nic.Cost{Descriptors: 1, Connections: 1}
	r.until("the client is gone", func() bool { return r.charged(want) })
	r.until("the connection waits", func() bool { return r.held().Closing == 1 })
	require.True(t, r.charged(want))
	release()
	r.until("the connection is closed", func() bool { return r.charged(nic.Cost{}) })
}
