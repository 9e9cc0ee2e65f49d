package engine

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// bothEnds returns two ends of a connection.
func bothEnds(t *testing.T) (mine, theirs *net.UnixConn) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	var both [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(f)
		require.NoError(t, err)
		_ = f.Close()
		both[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return both[0], both[1]
}

// A connection that no descriptor could be sent to does not wait behind others of its
// user, and is paid for until it is closed.
func TestConnectionsWithNothingInThemDoNotWait(t *testing.T) {
	r := newRig(t, Config{})
	const uid = 7
	release := make(chan struct{})
	require.False(t, r.e.clogged(uid))
	for range closers.Each {
		r.e.discarded.connections.Add(uid, func() { <-release })
	}
	r.until("closers are stuck", func() bool { return r.e.clogged(uid) })
	require.False(t, r.e.clogged(uid+1))
	held := bill{descriptors: 1}
	discard := func(on bool) {
		conn, _ := bothEnds(t)
		if err := unixsock.PassRights(conn, on); errors.Is(err, unix.ENOPROTOOPT) {
			t.Skip("needs Linux 6.16, which knows SO_PASSRIGHTS")
		}
		require.NoError(t, r.e.shares.charge(uid, held))
		r.e.discardConnection(uid, conn, held)
	}
	discard(false)
	require.Equal(t, bill{}, r.owed())
	discard(true)
	require.Equal(t, held, r.owed())
	require.Equal(t, 1, r.e.discarded.connections.Waiting())
	close(release)
	r.until("all are closed", func() bool { return r.owed() == bill{} && !r.e.clogged(uid) })
}
