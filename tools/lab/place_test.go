package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/await"
	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/proctest"
)

// A place is where programs run: a machine, or this host.
type place struct {
	t       *testing.T // now
	whole   *testing.T // at whose end programs are killed
	name    string
	machine *vm.Machine // nil: this host
	engine  *program
	socket  string
	link    string // option --link of the engine
	slots   string // option --slots of the network interface
	address string // of the network interface
	gid     string // index of that address among the GIDs of the verbs device
}

// A program runs somewhere.
type program struct {
	at   *place
	name string
	said proctest.Output
	stop func()
	done chan struct{}
	err  error      // after done
	pid  int        // 0: it runs in a machine
	with []*program // with which it exchanges data
}

// start starts a program, which is killed at the end of the whole test.
func (p *place) start(argv ...string) *program {
	p.t.Helper()
	r := &program{at: p, name: p.name + ": " + strings.Join(argv, " "), done: make(chan struct{})}
	if p.machine != nil {
		there := p.machine.Start(&r.said, argv...)
		r.stop = there.Kill
		go func() {
			r.err = there.Wait()
			close(r.done)
		}()
	} else {
		cmd := exec.Command(filepath.Join(scratch, argv[0]), argv[1:]...)
		cmd.Stdout, cmd.Stderr = &r.said, &r.said
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		require.NoError(p.t, cmd.Start())
		r.pid = cmd.Process.Pid
		r.stop = func() { _ = cmd.Process.Kill() }
		go func() {
			r.err = cmd.Wait()
			close(r.done)
		}()
	}
	p.whole.Cleanup(r.kill)
	return r
}

// run runs a program that has to succeed, and returns what it printed.
func (p *place) run(argv ...string) string {
	p.t.Helper()
	return p.start(argv...).succeeds()
}

func (r *program) kill() {
	r.stop()
	<-r.done
}

// job is the program as package proctest waits for it.
func (r *program) job() proctest.Job { return proctest.Job{Name: r.name, PID: r.pid, Output: &r.said} }

// awaits waits until done returns true. If it never does, the test fails with what the program, its
// engine and its peers have said, and where the threads of its machine wait.
func (r *program) awaits(what string, done func() bool) {
	r.at.t.Helper()
	came := false
	defer func() {
		if !came {
			r.at.t.Logf("threads of %s:\n%s", r.at.name, r.at.threads())
		}
	}()
	jobs := []proctest.Job{r.job()}
	for _, other := range r.with {
		jobs = append(jobs, other.job())
	}
	if r.at.engine != nil && r.at.engine != r {
		jobs = append(jobs, r.at.engine.job())
	}
	proctest.Until(r.at.t, what, done, jobs...)
	came = true
}

// threads returns, for each thread of a machine, in which function of the kernel it waits and in which system
// call, and the machine's TCP sockets.
func (p *place) threads() string {
	if p.machine == nil {
		return "this host's are not listed"
	}
	var said proctest.Output
	r := p.machine.Start(&said, "sh", "-c", `for p in /proc/[0-9]*; do
		[ -e $p/exe ] || continue
		echo "$p $(cat $p/comm)"
		for t in $p/task/*; do echo "  $(cat $t/comm) $(cat $t/wchan) $(cat $t/syscall)"; done
	done; cat /proc/net/tcp /proc/net/tcp6`)
	select {
	case <-r.Done():
		return said.String()
	case <-await.Context(p.t).Done(): // a machine that stands still never answers
		return said.String() + "(the machine has not listed all of them)"
	}
}

func (r *program) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// ends waits for the end.
func (r *program) ends() error {
	r.at.t.Helper()
	r.awaits("it ends", r.ended)
	return r.err
}

func (r *program) succeeds() string {
	r.at.t.Helper()
	require.NoError(r.at.t, r.ends(), "%s: it said:\n%s", r.name, r.said.String())
	return r.said.String()
}

// fails waits for an end that is not one with status 0.
func (r *program) fails() string {
	r.at.t.Helper()
	require.Error(r.at.t, r.ends(), "%s: it said:\n%s", r.name, r.said.String())
	return r.said.String()
}

// says waits until the program has printed something that matches, and returns the first group.
func (r *program) says(pattern string) string {
	r.at.t.Helper()
	want := regexp.MustCompile(pattern)
	said, looked := "", -1
	r.awaits("it says "+pattern, func() bool {
		ended := r.ended()
		if n := r.said.Len(); n != looked {
			looked = n
			if found := want.FindStringSubmatch(r.said.String()); found != nil {
				said = found[len(found)-1]
				return true
			}
		}
		if ended && r.said.Len() == looked {
			require.FailNow(r.at.t, "ended", "ended (%v) without %q: %v", r.err, pattern, r.job())
		}
		return false
	})
	return said
}

// startEngine starts an engine with a link over the pool. It returns when the engine is ready.
func (p *place) startEngine() {
	p.t.Helper()
	p.engine = p.start("nicless", "engine", "--socket", p.socket, "--verbs", "--log-level", "info", "--link", p.link)
	p.engine.says("engine ready")
}

// startNet makes a network interface over the engine.
func (p *place) startNet(flags ...string) *program {
	p.t.Helper()
	r := p.start(append([]string{"nicless", "net", "up", "--addr", p.address + "/24", "--engine", p.socket}, flags...)...)
	r.says("net ready")
	return r
}

// host returns this host as a place whose engine is a node of a pool.
func host(t *testing.T, link string) *place {
	dir, err := os.MkdirTemp("", "nl") // t.TempDir's names are too long for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &place{t: t, whole: t, name: "host", socket: filepath.Join(dir, "e.sock"), link: link}
}
