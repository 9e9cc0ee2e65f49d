//go:build linux && (amd64 || arm64)

package mmsg

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// messages returns n messages with a buffer of size bytes each.
func messages(n, size int) ([]Message, [][]byte) {
	m, buffers := make([]Message, n), make([][]byte, n)
	for i := range m {
		buffers[i] = make([]byte, size)
		iov := &unix.Iovec{Base: &buffers[i][0]}
		iov.SetLen(size)
		m[i].Header.Iov, m[i].Header.Iovlen = iov, 1
	}
	return m, buffers
}

// Messages arrive as they were sent, in one call each way, without allocation.
func TestSendAndReceive(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	out, sent := messages(4, 100)
	in, received := messages(8, 200)
	for i := range sent {
		for k := range sent[i] {
			sent[i][k] = byte(i + k)
		}
	}
	check := func() {
		n, errno := Send(fds[0], out)
		if n != 4 || errno != 0 {
			t.Fatal(n, errno)
		}
		n, errno = Receive(fds[1], in)
		if n != 4 || errno != 0 {
			t.Fatal(n, errno)
		}
	}
	check()
	for i := range sent {
		assert.Equal(t, uint32(100), out[i].N)
		require.Equal(t, uint32(100), in[i].N)
		assert.Equal(t, sent[i], received[i][:100])
	}
	assert.Zero(t, testing.AllocsPerRun(100, check))

	n, errno := Receive(fds[1], in)
	assert.Zero(t, n)
	assert.Equal(t, unix.EAGAIN, errno)
	n, errno = Send(-1, out)
	assert.Zero(t, n)
	assert.Equal(t, unix.EBADF, errno)
	n, errno = Send(fds[0], nil)
	assert.Zero(t, n)
	assert.Zero(t, errno)
}

// The kernel understands the ancillary data that AppendInt makes, and Control reads the
// kernel's.
func TestControl(t *testing.T) {
	local := func() int {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	a, b := local(), local()
	require.NoError(t, unix.SetsockoptInt(b, unix.IPPROTO_IP, unix.IP_RECVTOS, 1))
	require.NoError(t, unix.SetsockoptInt(b, unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
	name, err := unix.Getsockname(b)
	require.NoError(t, err)
	require.NoError(t, unix.Connect(a, name))

	out, buffers := messages(1, 8)
	copy(buffers[0], "datagram")
	control := AppendInt(nil, unix.IPPROTO_IP, unix.IP_TOS, 4, 0x68)
	control = AppendInt(control, unix.IPPROTO_IP, unix.IP_TTL, 4, 7)
	require.Len(t, control, 2*ControlInt)
	out[0].Header.Control, out[0].Header.Controllen = &control[0], uint64(len(control))
	n, errno := Send(a, out)
	require.Equal(t, 1, n, "%v", errno)

	in, _ := messages(1, 8)
	got := make([]byte, 256)
	in[0].Header.Control, in[0].Header.Controllen = &got[0], uint64(len(got))
	n, errno = Receive(b, in)
	require.Equal(t, 1, n, "%v", errno)
	values := map[int32]uint32{}
	for rest := got[:in[0].Header.Controllen]; ; {
		level, kind, data, next, ok := Control(rest)
		if !ok {
			break
		}
		require.Equal(t, int32(unix.IPPROTO_IP), level)
		values[kind], rest = Int(data), next
	}
	assert.Equal(t, map[int32]uint32{unix.IP_TOS: 0x68, unix.IP_TTL: 7}, values)
}

// Control takes only items that lie in the bytes.
func FuzzControl(f *testing.F) {
	f.Add(AppendInt(nil, 1, 2, 4, 3))
	f.Add(AppendInt(AppendInt(nil, 1, 2, 2, 3), 1, 2, 4, 3)[:41])
	f.Fuzz(func(t *testing.T, b []byte) {
		for rest, items := b, 0; ; items++ {
			_, _, data, next, ok := Control(rest)
			if !ok {
				break
			}
			require.NotEmpty(t, data)
			require.Less(t, len(next), len(rest))
			_ = Int(data)
			rest = next
		}
	})
}

// Datagrams for which a socket has no room are counted.
func TestDropped(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	n, ok := Dropped(fd)
	require.True(t, ok)
	require.Zero(t, n)
	for range 100 {
		require.NoError(t, unix.Sendto(fd, make([]byte, 100), 0, name))
	}
	n, ok = Dropped(fd)
	require.True(t, ok)
	require.Greater(t, n, uint32(50))
	require.Less(t, n, uint32(100))
	_, ok = Dropped(-1)
	require.False(t, ok)
}
