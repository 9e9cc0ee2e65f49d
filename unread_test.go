package nicless

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The kernel counts the descriptors in unread answers for the user that the engine runs as.
// Beyond RLIMIT_NOFILE it refuses to send further descriptors to any client. An engine
// without privileges must nevertheless continue to serve when many clients never read.
func TestNobodyFillsTheEngineWithUnreadAnswers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to run the engine as another user: the kernel does not count root's descriptors")
	}
	const nobody, limit = 65534, 512
	dir, err := os.MkdirTemp("", "nicless") // not t.TempDir, which belongs to root
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	exe := filepath.Join(dir, "engine.test")
	b, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(exe, b, 0o755))
	path := filepath.Join(dir, "s")
	cmd := exec.Command(exe, path)
	cmd.Env = append(os.Environ(), "NICLESS_TEST_ROLE=engine", fmt.Sprintf("NICLESS_TEST_NOFILE=%d", limit))
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	correct, err := Dial(path)
	require.NoError(t, err)
	defer correct.Close()
	hello := control.Append(nil, control.OpHello, 0, 1, &control.Hello{Magic: control.Magic, Major: control.Major})
	events := control.Append(nil, control.OpOpenEvents, 0, 2, &control.Empty{})
	var greedy []int
	for range 12 { // clients that never read
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		require.NoError(t, unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
		greedy = append(greedy, fd)
		require.NoError(t, unix.Send(fd, hello, 0))
		for range 70 { // with each request the engine closes the previous, unread descriptor
			require.NoError(t, unix.Send(fd, events, 0))
		}
	}
	left := 0 // bytes of requests that the engine has not taken
	await.Until(t, "the engine has taken all requests", func() bool {
		left = 0
		for _, fd := range greedy {
			n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
			require.NoError(t, err)
			left += n
		}
		return left == 0
	}, func() any { return left })

	// The correct client of the same user still works. It may be refused resources that its
	// user has used up.
	pd, err := correct.AllocPD()
	require.NoError(t, err)
	if mr, err := pd.RegisterMemory(4096, FullAccess); err != nil {
		require.ErrorIs(t, err, &control.Error{Code: control.CodeLimit})
	} else {
		require.NoError(t, mr.Close())
	}
	require.NoError(t, pd.Close())

	// A client of another user is not affected.
	ctx := await.Context(t)
	other := exec.CommandContext(ctx, exe, path)
	other.Env = append(os.Environ(), "NICLESS_TEST_ROLE=once")
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4242, Gid: 4242}}
	text, err := other.CombinedOutput()
	require.NoError(t, err, "%s", text)
}
