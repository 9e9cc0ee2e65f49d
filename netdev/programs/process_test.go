//go:build linux && (amd64 || arm64)

package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// A process was started by a test, which records its output.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	said proctest.Output
	done chan struct{} // closed when the process has ended
	err  error         // the result of Wait
}

// start starts a process in a process group of its own, which is killed at the end of the test.
func start(t *testing.T, argv ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = 5 * time.Second // for children that keep its output open
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
	})
	return p
}

// signal sends a signal to the process and to those that it has started.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// halts stops the process, and waits until all of its threads stand still.
func (p *process) halts() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	require.Eventually(p.t, func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		require.NoError(p.t, err)
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			_, after, _ := strings.Cut(string(stat), ") ")
			if err != nil || !strings.HasPrefix(after, "T") {
				return false
			}
		}
		return len(threads) > 0
	}, patience, time.Millisecond)
}

// patience is how long anything may take. It is long because machines can be loaded, and only
// a process that hangs uses all of it.
const patience = time.Minute

// wait waits for the end of the process.
func (p *process) wait() error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
	}
	p.signal(syscall.SIGKILL)
	<-p.done
	require.FailNow(p.t, "hangs", "%s: not ended after %v; it said:\n%s", p.cmd, patience, p.said.String())
	return nil
}

// succeeds waits for the end of the process, requires status 0, and returns the output.
func (p *process) succeeds() string {
	p.t.Helper()
	err := p.wait()
	require.NoError(p.t, err, "%s\n%s", p.cmd, p.said.String())
	return p.said.String()
}

// fails waits for the end of the process, requires another status than 0, and returns the output.
func (p *process) fails() string {
	p.t.Helper()
	require.Error(p.t, p.wait(), "%s\n%s", p.cmd, p.said.String())
	return p.said.String()
}

// says waits until the process has printed something, and returns what it has printed after it, up to
// the end of the line.
func (p *process) says(what string) (after string) {
	p.t.Helper()
	p.until(what, func(said string) bool {
		_, rest, ok := strings.Cut(said, what)
		after, _, _ = strings.Cut(rest, "\n")
		return ok && strings.Contains(rest, "\n")
	})
	return after
}

// until waits until enough returns true for the output.
func (p *process) until(what string, enough func(said string) bool) {
	p.t.Helper()
	end := time.After(patience)
	for ended := false; ; {
		more := p.said.Changed()
		if enough(p.said.String()) {
			return
		}
		if ended {
			require.FailNow(p.t, "ended", "%s: ended (%v) before %q; it said:\n%s", p.cmd, p.err, what, p.said.String())
		}
		select {
		case <-more:
		case <-p.done:
			ended = true
		case <-end:
			require.FailNow(p.t, "silent", "%s: after %v there is no %q; it said:\n%s", p.cmd, patience, what, p.said.String())
		}
	}
}

// temporary returns a directory whose name is short enough for sockets. It is in /dev/shm if memory is
// to be shared in it.
func temporary(t *testing.T, in string) string {
	t.Helper()
	dir, err := os.MkdirTemp(in, "nicless-net")
	if err != nil {
		proctest.Missing(t, "%v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
