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
	p.cmd.WaitDelay = outputDelay
	more(p.cmd)
	require.NoError(t, p.cmd.Start())
	proctest.Keep(t, p.cmd.Process.Pid)
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

// outputDelay is how long children that a process leaves behind may keep its output open. The process counts
// as failed then.
const outputDelay = await.Patience

// job is the process as package proctest waits for it.
func (p *process) job() proctest.Job {
	j := proctest.Job{Name: p.cmd.String(), Output: &p.said}
	if p.stop == nil {
		j.PID = p.cmd.Process.Pid
	}
	return j
}

// together notes that two processes exchange data.
func together(a, b *process) {
	a.with, b.with = append(a.with, b), append(b.with, a)
}

// awaits waits until done returns true. If it never does, the test fails with what the process and
// those with which it exchanges data have said, and where in the kernel they wait.
func (p *process) awaits(what string, done func() bool) {
	p.t.Helper()
	jobs, came := []proctest.Job{p.job()}, false
	for _, other := range p.with {
		jobs = append(jobs, other.job())
	}
	defer func() {
		p.t.Helper()
		if !came {
			p.t.Logf("in the kernel:\n%s", p.stacks())
		}
	}()
	proctest.Until(p.t, what, done, jobs...)
	came = true
}

// ended reports whether the process has ended.
func (p *process) ended() bool { return closed(p.done) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
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
	looked := -1 // how much output enough has seen
	p.awaits("it says enough", func() bool {
		ended := p.ended()
		if n := p.said.Len(); n != looked {
			looked = n
			if enough(p.said.String()) {
				return true
			}
		}
		if ended && p.said.Len() == looked {
			require.FailNow(p.t, "ended", "ended (%v) before it has said enough: %v", p.err, p.job())
		}
		return false
	})
}

// lines returns the lines of text without blanks around them.
func lines(text string) (list []string) {
	s := bufio.NewScanner(io.Reader(strings.NewReader(text)))
	for s.Scan() {
		list = append(list, strings.TrimSpace(s.Text()))
	}
	return list
}
