package engine

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/nicless/nicless/engine/internal/closers"
	"github.com/nicless/nicless/engine/internal/object"
	"github.com/nicless/nicless/engine/internal/quota"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// owed returns what is charged to all users together.
func (r *rig) owed() quota.Charge {
	return r.e.Ledger.Taken()
}

// A descriptor that takes long to close delays only descriptors of its user. Descriptors that
// wait to be closed stay charged.
func TestDescriptorsAreClosedPerUser(t *testing.T) {
	r := newRig(t, Config{})
	r.e.Ledger.SetLimit(quota.Descriptors, 8, "a test")
	stuck, closed := make(chan struct{}), make(chan uint32, 8)
	discard := func(uid uint32, wait <-chan struct{}) error {
		over := r.e.Ledger.Incur(uid, quota.Charge{quota.Descriptors: 3})
		r.e.Discard(uid, 3, func() {
			if wait != nil {
				<-wait
			}
			closed <- uid
		})
		return over
	}
	require.NoError(t, discard(1, stuck))
	require.Error(t, discard(1, nil), "6 of 8 descriptors")
	require.ErrorIs(t, r.e.Ledger.Take(1, object.ClientCharge), &control.Error{Code: control.CodeLimit})
	require.NoError(t, discard(2, nil))
	var order []uint32 // may contain user 1, whose second call may get another closer
	for len(order) == 0 || order[len(order)-1] != 2 {
		order = append(order, <-closed)
	}
	require.LessOrEqual(t, len(order), 2)
	close(stuck)
	for len(order) < 3 {
		order = append(order, <-closed)
	}
	r.until("charges are refunded", func() bool { return r.owed() == quota.Charge{} })
	r.until("and debts too", func() bool { return r.e.Ledger.Has(1) == quota.Charge{} })
}

// bothEnds returns the two ends of a connection.
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

// A connection that no descriptor could be sent to does not wait behind other connections
// of its user, and is charged until it is closed.
func TestConnectionsWithNothingInThemDoNotWait(t *testing.T) {
	r := newRig(t, Config{})
	const uid = 7
	release := make(chan struct{})
	require.False(t, r.e.Clogged(uid))
	for range closers.Each {
		r.e.Discarded.Connections.Add(uid, func() { <-release })
	}
	r.until("closers are stuck", func() bool { return r.e.Clogged(uid) })
	require.False(t, r.e.Clogged(uid+1))
	held := quota.Charge{quota.Descriptors: 1}
	discard := func(on bool) {
		conn, _ := bothEnds(t)
		if err := unixsock.PassRights(conn, on); errors.Is(err, unix.ENOPROTOOPT) {
			t.Skip("needs Linux 6.16, which knows SO_PASSRIGHTS")
		}
		require.NoError(t, r.e.Ledger.Incur(uid, held))
		r.e.DiscardConnection(uid, conn, held)
	}
	discard(false)
	require.Equal(t, quota.Charge{}, r.owed())
	discard(true)
	require.Equal(t, held, r.owed())
	require.Equal(t, 1, r.e.Discarded.Connections.Waiting())
	close(release)
	r.until("all are closed", func() bool { return r.owed() == quota.Charge{} && !r.e.Clogged(uid) })
}
