package verbs

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/internal/unixsock"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Unread descriptors can block the close of a connection. The server does not wait for that,
// and the connection's user is charged for it until it is closed.
func TestUnreadDescriptorBlocksClose(t *testing.T) {
	s := newServing(t)
	conn, theirs := connected(t)
	hello := helloDatagram()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	_, err = theirs.Write(hello)
	require.NoError(t, err)
	_, err = theirs.Write(hello) // the first answer is not read yet, which ends the connection
	require.NoError(t, err)
	require.NoError(t, unixsock.Control(theirs, func(to int) error {
		return unixsock.Control(w, func(n int) error { return unix.Sendmsg(to, hello, unix.UnixRights(n), nil, 0) })
	}))
	require.NoError(t, w.Close())         // not the last copy: another one is in the connection
	all := nic.Cost{Connections: 1 << 11} // one user's limit: half of all
	uid := uint32(os.Getuid())
	require.NoError(t, s.engine.Charge(uid, all))
	s.engine.Refund(uid, all)
	release := s.engine.(nic.Probe).StickClosers(uid) // as a close that blocks holds them up
	ended := make(chan struct{})
	go func() {
		s.serve(t.Context(), conn)
		close(ended)
	}()
	await.Receive(t, "the server does not wait for it", ended)
	require.Error(t, s.engine.Charge(uid, all), "it is not closed yet")
	release()
	_, err = r.Read(make([]byte, 1)) // until the unread descriptor is closed too
	require.Equal(t, io.EOF, err)
	await.Until(t, "the user is not charged any more", func() bool { return s.engine.Charge(uid, all) == nil })
}

// Descriptors cannot be sent before hello. Over a connection of a watcher they cannot be sent
// at all.
func TestDescriptorsBeforeHello(t *testing.T) {
	dir, _ := serving(t, 1)
	dial := func(name string) *net.UnixConn {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(dir, name), Net: "unixpacket"})
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	send := func(conn *net.UnixConn, b []byte) error {
		_, _, err := conn.WriteMsgUnix(b, unix.UnixRights(0), nil)
		return err
	}
	conn := dial(SocketName)
	if errors.Is(unixsock.PassRights(conn, true), unix.ENOPROTOOPT) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which came with Linux 6.16")
	}
	require.ErrorIs(t, send(conn, []byte{1}), unix.EPERM)
	_, err := conn.Write(helloDatagram())
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, maxDatagram))
	require.NoError(t, err)
	require.NoError(t, send(conn, finish(appendAnswer(nil, wireHeader{op: opAdopt}, 0, 0))))

	watch := dial(WatchName)
	err = send(watch, []byte{1})
	require.True(t, errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPIPE), "%v", err)
}

// Descriptors beyond the limit of a request are not received. The goroutine that reads the
// request does not close them, because closing could make it wait.
func TestTooManyDescriptors(t *testing.T) {
	s := newServing(t)
	conn, theirs := connected(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	hangsUp := func(within int) bool {
		events := []unix.PollFd{{}}
		require.NoError(t, unixsock.Control(r, func(fd int) (err error) {
			events[0].Fd = int32(fd)
			for err = unix.EINTR; err == unix.EINTR; { // Go's scheduler sends signals
				_, err = unix.Poll(events, within)
			}
			return err
		}))
		return events[0].Revents&unix.POLLHUP != 0
	}
	fds := make([]int, maxFDs+1)
	fds[maxFDs] = int(w.Fd())
	require.NoError(t, unixsock.Control(theirs, func(to int) error {
		return unix.Sendmsg(to, helloDatagram(), unix.UnixRights(fds...), nil, 0)
	}))
	_ = w.Close()
	p := s.newProcess(1, uint32(os.Getuid()), nil)
	p.conn, err = s.silent.NewConn(conn, p.uid)
	require.NoError(t, err)
	err = p.serveRequest(make([]byte, maxDatagram+1), make([]byte, unix.CmsgSpace(4*maxFDs)))
	require.ErrorIs(t, err, errWire)
	require.False(t, hangsUp(0), "the reader of the request closed it")
	s.engine.DiscardConnection(p.uid, p.conn, nic.Cost{})
	require.True(t, hangsUp(10_000))
}

// A user whose connections do not close gets no more connections. Refused connections are
// closed and no longer charged.
func TestUserWhoseConnectionsDoNotClose(t *testing.T) {
	s := newServing(t)
	s.clogged = func(uid uint32) bool { return uid == uint32(os.Getuid()) }
	conn, theirs := connected(t)
	if errors.Is(unixsock.PassRights(conn, false), unix.ENOPROTOOPT) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which came with Linux 6.16")
	}
	hello := helloDatagram()
	_, err := theirs.Write(hello)
	require.NoError(t, err)
	s.serve(t.Context(), conn) // does not wait for the program
	require.Error(t, unixsock.Control(conn, func(int) error { return nil }), "it is not closed")

	p := s.newProcess(1, uint32(os.Getuid()), nil) // accepted before the user's connections were stuck
	answer, _, err := p.handle(hello, nil)
	require.NoError(t, err)
	require.Equal(t, uint32(unix.EMFILE), le.Uint32(answer[4:]))
	require.False(t, p.greeted)
}
