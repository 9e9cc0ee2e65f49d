package server

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lingering returns a socket. Closing its last descriptor blocks until the test ends.
func lingering(t *testing.T) int {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	to := l.Addr().(*net.TCPAddr)
	require.NoError(t, unix.Connect(fd, &unix.SockaddrInet4{Port: to.Port, Addr: [4]byte(to.IP.To4())}))
	peer, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = peer.Close() }) // the peer has unread bytes, so its close resets the other side
	require.NoError(t, unix.SetNonblock(fd, true))
	for b := make([]byte, 1<<16); err == nil; {
		_, err = unix.Write(fd, b)
	}
	require.Equal(t, unix.EAGAIN, err)
	require.NoError(t, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: 3600}))
	return fd
}

// On kernels before 6.16 a descriptor that takes long to close can come with a request. It can
// also be unread in a connection, whether the connection was accepted or not. It delays neither
// other clients nor the end of the server.
func TestNobodyWaitsForALingeringDescriptor(t *testing.T) {
	r := newRig(t, engine.Config{})
	path := filepath.Join(t.TempDir(), "s")
	l := r.listen(path, 0o600).oldKernel()
	r.start()
	request := control.Append(nil, control.OpAllocPD, 0, 1, &control.Empty{})
	bring := func(c *caller) {
		fd := lingering(t)
		c.send(request, fd)
		require.NoError(t, unix.Close(fd)) // this is not the last copy: another one is in the message
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx) }()
	good, first, second := r.dial(path), r.dial(path), r.dial(path)
	for _, c := range []*caller{good, first, second} {
		c.hello()
	}
	held, release := make(chan struct{}), make(chan struct{})
	go r.e.Do(func() { close(held); <-release })
	<-held
	first.send(request) // this request waits for the device; what follows stays unread
	bring(first)
	second.send([]byte("garbage")) // this ends the connection before what follows is read
	bring(second)
	close(release)
	_, _, _, ok := first.answer()
	require.True(t, ok)
	first.ended() // the server has ended it, because descriptors came with a request
	second.ended()
	require.Nil(t, good.call(control.OpAllocPD, &control.Empty{}, &control.PD{}))

	cancel()
	within := func(what string) {
		require.NoError(t, await.Receive(t, what, done))
	}
	within("end of Serve")

	l = r.listen(path, 0o600).oldKernel()
	bring(r.dial(path))
	go func() { done <- l.Serve(ctx) }()
	within("end of Serve, with a connection that nobody accepted")
}
