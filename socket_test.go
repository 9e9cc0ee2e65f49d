package nicless

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/shm"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pretend listens like an engine. It answers each datagram with the result of f, and
// closes the connection if that is nil.
func pretend(t *testing.T, f func(h control.Header) (answer []byte, fds []int)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			for {
				var b [control.MaxMessage]byte
				n, err := conn.Read(b[:])
				if err != nil || n == 0 {
					break
				}
				h, _, _ := control.ParseHeader(b[:n])
				answer, fds := f(h)
				if answer == nil {
					break
				}
				_, _, _ = conn.WriteMsgUnix(answer, unix.UnixRights(fds...), nil)
			}
			_ = conn.Close()
		}
	}()
	return path
}

var welcome = control.Welcome{Major: control.Major, UARPages: 4, GUID: 9, MaxLogSQ: 15, MaxLogRQ: 15, MaxLogCQ: 22, MaxRdAtomic: 16}

// If the peer is not an engine, or is an engine that breaks the protocol, Dial returns an
// error that says what is wrong, and leaves nothing open.
func TestDialSomethingElse(t *testing.T) {
	uar, err := shm.Create("uar", 4*4096)
	require.NoError(t, err)
	defer uar.Close()
	status, err := shm.CreateSealed("status", 4096)
	require.NoError(t, err)
	defer status.Close()
	small, err := shm.Create("small", 4096)
	require.NoError(t, err)
	defer small.Close()
	file, err := os.OpenFile("/dev/zero", os.O_RDWR, 0) // it cannot be sealed; files of a tmpfs can
	require.NoError(t, err)
	defer file.Close()
	fd := func(r *shm.Region) int { return int(r.File().Fd()) }
	say := func(w control.Welcome, fds ...int) func(control.Header) ([]byte, []int) {
		return func(h control.Header) ([]byte, []int) {
			return control.Append(nil, h.Op, control.FlagAnswer, h.Tag, &w), fds
		}
	}
	none := welcome
	none.UARPages = 0
	for name, row := range map[string]struct {
		f    func(control.Header) ([]byte, []int)
		text string
	}{
		"garbage":   {func(control.Header) ([]byte, []int) { return []byte("HTTP/1.1 400 Bad Request"), nil }, "not an engine"},
		"a request": {func(h control.Header) ([]byte, []int) { return control.Append(nil, h.Op, 0, h.Tag, &welcome), nil }, "not an engine"},
		"hangs up":  {func(control.Header) ([]byte, []int) { return nil, nil }, "closed"},
		"old": {func(h control.Header) ([]byte, []int) {
			return control.Append(nil, h.Op, control.FlagAnswer|control.FlagError, h.Tag, control.Errorf(control.CodeVersion, "protocol 0.9")), nil
		}, "protocol 0.9"},
		"a short welcome": {func(h control.Header) ([]byte, []int) {
			return control.Append(nil, h.Op, control.FlagAnswer, h.Tag, &control.PD{}), nil
		}, "payload"},
		"no descriptors":          {say(welcome), "0 descriptors"},
		"one descriptor":          {say(welcome, fd(uar)), "1 descriptors"},
		"three descriptors":       {say(welcome, fd(uar), fd(status), fd(uar)), "3 descriptors"},
		"pages that are a file":   {say(welcome, int(file.Fd()), fd(status)), "memfd"},
		"a status that is a file": {say(welcome, fd(uar), int(file.Fd())), "memfd"},
		"fewer pages than said":   {say(welcome, fd(small), fd(status)), "UAR"},
		"no pages":                {say(none, fd(uar), fd(status)), "UAR"},
	} {
		t.Run(name, func(t *testing.T) {
			path := pretend(t, row.f)
			before := openFiles(t)
			_, err := Dial(path)
			require.ErrorContains(t, err, row.text)
			await.Until(t, "all descriptors are closed", func() bool { return openFiles(t) == before },
				func() any { return fmt.Sprintf("%d open, before %d", openFiles(t), before) })
		})
	}
	stream := filepath.Join(t.TempDir(), "stream")
	l, err := net.Listen("unix", stream)
	require.NoError(t, err)
	defer l.Close()
	_, err = Dial(stream)
	require.ErrorContains(t, err, "another kind")
}

// A second Close of a connection does no harm to a newer connection whose descriptor has the
// same number.
func TestSocketIsClosedOnce(t *testing.T) {
	s, err := dial(pretend(t, func(control.Header) ([]byte, []int) { return nil, nil }))
	require.NoError(t, err)
	require.NoError(t, s.Close())
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if pair[0] != s.fd {
		fd, err := unix.FcntlInt(uintptr(pair[0]), unix.F_DUPFD_CLOEXEC, s.fd)
		require.NoError(t, err)
		defer unix.Close(fd)
		if fd != s.fd {
			t.Skip("something else in this process has taken the number")
		}
	}
	require.NoError(t, s.Close())
	require.NoError(t, unix.Send(s.fd, []byte("x"), unix.MSG_NOSIGNAL))
	_, err = s.Call(control.OpAllocPD, &control.Empty{}, &control.PD{})
	require.ErrorIs(t, err, ErrDeviceGone)
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(list)
}
