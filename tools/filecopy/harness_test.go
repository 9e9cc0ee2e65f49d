package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// A place is a folder for the files of one test, and a folder for temporary files. At the
// end of the test no temporary file may be left.
type place struct{ dir, tmp string }

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{t.TempDir(), t.TempDir()}
	t.Cleanup(func() {
		assert.Empty(t, list(t, p.tmp), "temporary files left behind")
		for _, name := range list(t, p.dir) {
			assert.NotContains(t, name, ".filecopy-", "partial file left behind")
		}
	})
	return p
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

// input makes a file of n bytes in which no two chunks are equal.
func (p place) input(t *testing.T, n int) string {
	t.Helper()
	require.NoError(t, os.WriteFile(p.path("in"), content(n), 0o600))
	return p.path("in")
}

func content(n int) []byte {
	b := make([]byte, n)
	x := uint32(n) + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (p place) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program.Command(t, args...)
	cmd.Dir, cmd.Env = p.dir, append(cmd.Env, "TMPDIR="+p.tmp)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// A result contains the exit code and the output of a process.
type result struct {
	code        int // -1: ended by a signal
	out, stderr string
}

// run runs filecopy to its end, and checks that the processes that it started have ended
// too.
func (p place) run(t *testing.T, args ...string) result {
	t.Helper()
	return finish(t, p.command(t, args...))
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	require.NotNil(t, cmd.ProcessState, "%v", err)
	for _, m := range pidLine.FindAllStringSubmatch(out.String(), -1) {
		pid, _ := strconv.Atoi(m[2])
		assert.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH, "%s is still there", m[1])
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), stderr.String()}
}

var pidLine = regexp.MustCompile(`(?m)^(engine|receiver|sender), pid (\d+)`)

// A running is a copy that was started, with a pipe as its input.
type running struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	pids   map[string]int // pid of each process, by its role
	ended  map[string]int // by role: a descriptor for waiting until the process ends
}

// halfway starts a copy to out in small chunks and returns when the copy is under way.
// More input has been read than rings and pipe can hold, and so the receiver must have
// given slots back. The copy cannot end, because its input stays open.
func (p place) halfway(t *testing.T, out string) *running {
	t.Helper()
	const chunk = 4096
	r := &running{t: t, pids: map[string]int{}, ended: map[string]int{}}
	r.cmd = p.command(t, "-in", "/dev/stdin", "-out", out, "-chunk", strconv.Itoa(chunk))
	var err error
	r.in, err = r.cmd.StdinPipe()
	require.NoError(t, err)
	r.cmd.Stderr = &r.stderr
	stdout, err := r.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	for range 3 {
		var what string
		var pid int
		line := make([]byte, 0, 100)
		for b := make([]byte, 1); len(line) == 0 || line[len(line)-1] != '\n'; {
			_, err := io.ReadFull(stdout, b)
			require.NoError(t, err, "%s%s", line, &r.stderr)
			line = append(line, b[0])
		}
		m := pidLine.FindSubmatch(line)
		require.NotNil(t, m, "%s", line)
		_, err = fmt.Sscan(string(m[1])+" "+string(m[2]), &what, &pid)
		require.NoError(t, err)
		r.pids[what] = pid
		fd, err := unix.PidfdOpen(pid, 0)
		require.NoError(t, err)
		t.Cleanup(func() { _ = unix.Close(fd) })
		r.ended[what] = fd
	}
	_, err = r.in.Write(content(1<<20 + 2*slots*chunk))
	require.NoError(t, err)
	return r
}

// kill sends a signal to one of the processes.
func (r *running) kill(what string, sig unix.Signal) {
	r.t.Helper()
	require.NoError(r.t, unix.Kill(r.pids[what], sig))
}

// wait waits until all processes have ended, while the input is still open.
func (r *running) wait() result {
	r.t.Helper()
	_ = r.cmd.Wait()
	for what, fd := range r.ended {
		await.Until(r.t, what+" has ended", func() bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			if err != unix.EINTR { // Go's scheduler sends signals
				require.NoError(r.t, err)
			}
			return n == 1
		})
	}
	_ = r.in.Close()
	return result{r.cmd.ProcessState.ExitCode(), "", r.stderr.String()}
}
