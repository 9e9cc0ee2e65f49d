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

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/proctest"
)

// A process was started by a test, which records its output.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	said proctest.Output
	done chan struct{} // closed when the process has ended
	err  error         // the result of Wait
	with []*process    // processes with which it exchanges data
}

// start starts a process in a process group of its own, which is killed at the end of the test.
func start(t *testing.T, argv ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = outputDelay
	require.NoError(t, p.cmd.Start())
	proctest.Keep(t, p.cmd.Process.Pid)
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

// outputDelay is how long children that a process leaves behind may keep its output open. The process counts
// as failed then.
const outputDelay = await.Patience

// signal sends a signal to the process and to those that it has started.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// halts stops the process, and waits until all of its threads stand still.
func (p *process) halts() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	await.Until(p.t, "all threads stand still", func() bool {
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
	})
}

// job is the process as package proctest waits for it.
func (p *process) job() proctest.Job {
	return proctest.Job{Name: p.cmd.String(), PID: p.cmd.Process.Pid, Output: &p.said}
}

// awaits waits until done returns true. If it never does, the test fails with what the process and
// those with which it exchanges data have said.
func (p *process) awaits(what string, done func() bool) {
	p.t.Helper()
	jobs := []proctest.Job{p.job()}
	for _, other := range p.with {
		jobs = append(jobs, other.job())
	}
	proctest.Until(p.t, what, done, jobs...)
}

// together notes that two processes exchange data.
func together(a, b *process) {
	a.with, b.with = append(a.with, b), append(b.with, a)
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits for the end of the process.
func (p *process) wait() error {
	p.t.Helper()
	p.awaits("it ends", p.ended)
	return p.err
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
	looked := -1 // how much output enough has seen
	p.awaits(what, func() bool {
		ended := p.ended()
		if n := p.said.Len(); n != looked {
			looked = n
			if enough(p.said.String()) {
				return true
			}
		}
		if ended && p.said.Len() == looked {
			require.FailNow(p.t, "ended", "ended (%v) before %q: %v", p.err, what, p.job())
		}
		return false
	})
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
