package server

import (
	"net"
	"os"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// ends returns a connection as the device has it, and the client's end.
func ends(t *testing.T) (device *net.UnixConn, client int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fds[0]), "device")
	conn, err := net.FileConn(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { _ = conn.Close(); _ = unix.Close(fds[1]) })
	return conn.(*net.UnixConn), fds[1]
}

// A user whose clients do not read their answers is refused another answer with
// descriptors; others are not, and reading makes up for it.
func TestDescriptorsInUnreadAnswersCount(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.bound(nic.Bounds{Unread: 8})
	f := &unreadAnswers{device: r.d}
	answer := func(conn *net.UnixConn) {
		_, _, err := conn.WriteMsgUnix([]byte("answer"), nil, nil)
		require.NoError(t, err)
		f.sent(conn)
	}
	one, its := ends(t)
	require.NoError(t, f.charge(one, 7, 2))
	answer(one)
	require.ErrorContains(t, f.charge(one, 7, 1), "read the answers to the requests before it first")
	two, _ := ends(t)
	require.NoError(t, f.charge(two, 7, 2))
	answer(two)
	three, _ := ends(t)
	require.ErrorIs(t, f.charge(three, 7, 1), &control.Error{Code: control.CodeLimit}, "four of eight are one user's share")
	stranger, _ := ends(t)
	require.NoError(t, f.charge(stranger, 8, 2)) // and about to be sent

	_, err := unix.Read(its, make([]byte, 16))
	require.NoError(t, err)
	require.NoError(t, f.charge(three, 7, 1), "one has read meanwhile")
	f.wait(t.Context(), three)
	require.NoError(t, f.charge(one, 7, 1), "and may ask again")
	f.wait(t.Context(), one)
	require.Equal(t, nic.Cost{Unread: 4}, r.held().Cost, "what two and the stranger have not read")
}

// A connection that ends with an answer unread counts until its client has closed.
func TestUnreadAnswersCountBeyondTheEnd(t *testing.T) {
	r := newRig(t, engine.Config{})
	c := r.dial(r.serve())
	c.hello()
	c.send(control.Append(nil, control.OpOpenEvents, 0, 1, &control.Empty{}))
	count := func() int { return r.held().Cost.Unread }
	r.until("the answer is under way", func() bool { return count() == 1 })
	require.NoError(t, c.conn.CloseWrite())
	r.until("the client is gone", func() bool { return len(r.held().Clients) == 0 })
	require.Equal(t, 1, count())
	c.close()
	r.until("it counts no more", func() bool { return count() == 0 })
}
