//go:build linux && (amd64 || arm64)

package unixsock

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A peer can send no descriptor with its request: neither while another request is answered, nor while
// this one is. So there is no descriptor whose close could hold up the sender of text.
func TestTellRefusesDescriptors(t *testing.T) {
	if l, _ := listening(t); PassesRights(l) {
		t.Skip("the kernel has no SO_PASSRIGHTS, which came with Linux 6.16")
	}
	path := filepath.Join(t.TempDir(), "tell")
	asked, answer := make(chan struct{}), make(chan struct{})
	stop, err := Report(path, 0o600, func() any {
		asked <- struct{}{}
		<-answer
		return "here"
	})
	require.NoError(t, err)
	defer stop()
	probe, err := net.Dial("unix", path)
	require.NoError(t, err)
	<-asked
	send := func(c net.Conn) error {
		return Control(c.(*net.UnixConn), func(fd int) error { return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(fd), nil, 0) })
	}
	require.ErrorIs(t, send(probe), unix.EPERM, "it is being answered")
	waits, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer waits.Close()
	require.ErrorIs(t, send(waits), unix.EPERM, "it waits")
	answer <- struct{}{}
	require.NoError(t, probe.Close())
	<-asked
	close(answer)
	b := make([]byte, 64)
	n, err := waits.Read(b)
	require.NoError(t, err)
	require.Equal(t, "\"here\"\n", string(b[:n]))
}

// An answer that the socket's buffer can hold arrives whole, however late the process is that gives it. Of a
// longer one, the reader gets no more than the buffer holds if nothing is read in time.
func TestAnswerIsNotLate(t *testing.T) {
	for length, whole := range map[int]bool{1000: true, 8 << 20: false} {
		path := filepath.Join(t.TempDir(), "answer")
		l, err := ListenStream(path, 0o600)
		require.NoError(t, err)
		defer l.Close()
		reader, err := net.Dial("unix", path)
		require.NoError(t, err)
		defer reader.Close()
		c, err := l.AcceptUnix()
		require.NoError(t, err)
		require.NoError(t, c.SetWriteBuffer(64<<10)) // whatever the system's default is
		want := strings.Repeat("x", length)
		answer(c, want, -time.Second)
		got, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, whole, string(got) == `"`+want+`"`+"\n", "%d of %d bytes arrived", len(got), length)
		require.NotEmpty(t, got)
	}
}
