package programs

import (
	"bufio"
	"bytes"
	"io"
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

	killed bool   // the test has killed it
	stop   func() // kills a process that is not on this machine; nil: it is a process group here
}

// start starts a process in a process group of its own, which is killed at the end of the
// test.
func start(t *testing.T, user *syscall.Credential, argv ...string) *process {
	t.Helper()
	return startWith(t, user, func(*exec.Cmd) {}, argv...)
}

// startWith is start with more to be said about the command.
func startWith(t *testing.T, user *syscall.Credential, more func(*exec.Cmd), argv ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: user}
	p.cmd.WaitDelay = 5 * time.Second // for children that keep its output open
	more(p.cmd)
	require.NoError(t, p.cmd.Start())
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		<-p.done
	})
	return p
}

// kill kills the process and the processes that it has started.
func (p *process) kill() {
	p.killed = true
	if p.stop != nil {
		p.stop()
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

// patience is how long anything may take. It is long because machines can be loaded, and only
// a process that hangs uses all of it.
const patience = 2 * time.Minute

// wait waits for the end of the process.
func (p *process) wait() error {
	p.t.Helper()
	return p.waitFor(patience)
}

// waitFor is wait for a process that runs many programs' worth of tests, and may take longer.
func (p *process) waitFor(patience time.Duration) error {
	p.t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
	}
	stacks := p.stacks()
	p.kill()
	<-p.done
	require.FailNow(p.t, "hangs", "%s: not ended after %v; in the kernel:\n%s\nit said:\n%s", p.cmd, patience, stacks, p.said.String())
	return nil
}

// stacks says where in the kernel the threads of a process wait. It is for processes that hang.
func (p *process) stacks() string {
	if p.stop != nil {
		return ""
	}
	var b strings.Builder
	files, _ := filepath.Glob("/proc/[0-9]*/task/*/stat")
	for _, f := range files {
		stat, err := os.ReadFile(f)
		if fields := strings.Fields(string(stat[max(0, bytes.LastIndexByte(stat, ')')):])); err != nil || len(fields) < 4 || fields[3] != itoa(p.cmd.Process.Pid) {
			continue // a process of another group
		}
		wchan, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "wchan"))
		b.WriteString(strings.TrimSpace(string(stat[:bytes.LastIndexByte(stat, ')')+4])) + " " + string(wchan) + "\n")
	}
	return b.String()
}

// succeeds waits for the end of the process, requires status 0, and returns the output.
func (p *process) succeeds() string {
	p.t.Helper()
	err := p.wait()
	require.NoError(p.t, err, "%s\n%s", p.cmd, p.said.String())
	return p.said.String()
}

// fails waits for the end of the process, requires another status than 0, and returns the
// output.
func (p *process) fails() string {
	p.t.Helper()
	require.Error(p.t, p.wait(), "%s\n%s", p.cmd, p.said.String())
	return p.said.String()
}

// says waits until the process has printed something.
func (p *process) says(what string) {
	p.t.Helper()
	p.until(func(said string) bool { return strings.Contains(said, what) })
}

// until waits until enough returns true for the output.
func (p *process) until(enough func(said string) bool) {
	p.t.Helper()
	end := time.After(patience)
	for ended := false; ; {
		more := p.said.Changed()
		if enough(p.said.String()) {
			return
		}
		if ended {
			require.FailNow(p.t, "ended", "%s: ended (%v); it said:\n%s", p.cmd, p.err, p.said.String())
		}
		select {
		case <-more:
		case <-p.done:
			ended = true
		case <-end:
			require.FailNow(p.t, "silent", "%s: after %v it has only said:\n%s", p.cmd, patience, p.said.String())
		}
	}
}

// lines returns the lines of text without blanks around them.
func lines(text string) (list []string) {
	s := bufio.NewScanner(io.Reader(strings.NewReader(text)))
	for s.Scan() {
		list = append(list, strings.TrimSpace(s.Text()))
	}
	return list
}
