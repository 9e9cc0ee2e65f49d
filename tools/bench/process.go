//go:build linux && (amd64 || arm64)

package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nicless/nicless"
)

// A process is an engine in a separate process, which runs this program with other arguments.
type process struct {
	socket string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{} // closed when the process has ended
	err    error         // why the process ended; valid after ended is closed
}

// patienceOfStart is how long an engine may take from its start to its first answer.
const patienceOfStart = 10 * time.Second

// start starts an engine on the engine's core, and returns it and its first client.
func (s *suite) start(spin bool) (*process, *nicless.Context, error) {
	return s.startOn([]int{s.EngineCPU}, spin)
}

// startOn starts an engine that runs on some cores.
func (s *suite) startOn(cpus []int, spin bool) (*process, *nicless.Context, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	p := &process{socket: s.socket(), ended: make(chan struct{})}
	p.cmd = exec.Command(self, "engine", "--socket", p.socket)
	if len(cpus) == 1 {
		p.cmd.Args = append(p.cmd.Args, "--cpu", strconv.Itoa(cpus[0]))
	}
	if spin {
		p.cmd.Args = append(p.cmd.Args, "--spin")
	}
	p.cmd.Stderr = &p.stderr
	// ends the engine even if it is stopped
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// The kernel sends Pdeathsig when this thread ends, which is when the goroutine ends. The
		// process gets the cores of the thread. One that has a core for its engine has other threads
		// too, which may run on all cores.
		runtime.LockOSThread()
		defer close(p.ended)
		var err error
		if len(cpus) > 1 {
			err = roamOn(cpus...)
		}
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, nil, fmt.Errorf("bench: start an engine: %w", err)
	}
	for begin := time.Now(); ; time.Sleep(50 * time.Microsecond) {
		c, err := nicless.Dial(p.socket)
		if err == nil {
			return p, c, nil
		}
		select {
		case <-p.ended:
			return nil, nil, fmt.Errorf("bench: the engine has ended: %w: %s", p.err, &p.stderr)
		default:
		}
		if time.Since(begin) > patienceOfStart {
			return nil, nil, errors.Join(err, p.close())
		}
	}
}

// pid returns the process id.
func (p *process) pid() int { return p.cmd.Process.Pid }

// pause stops the process until resume. It is needed because no engine may poll while a floor
// is measured.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("bench: stop an engine: %w", err)
	}
	for begin := time.Now(); time.Since(begin) < patienceOfStart; time.Sleep(100 * time.Microsecond) {
		if p.stopped() {
			return nil
		}
	}
	return errors.New("bench: an engine does not stop")
}

// stopped reports whether all threads of the process are stopped.
func (p *process) stopped() bool {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid()))
	for _, t := range tasks {
		text, _ := os.ReadFile(t)
		if _, state, ok := strings.Cut(string(text), ") "); ok && state[0] != 'T' {
			return false
		}
	}
	return true
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// during resumes the engine while f runs, and then stops it again.
func (p *process) during(f func() error) error {
	if err := p.resume(); err != nil {
		return fmt.Errorf("bench: resume an engine: %w", err)
	}
	if err := f(); err != nil {
		return err
	}
	return p.pause()
}

// with returns a function that closes a client and then the engine.
func (p *process) with(c *nicless.Context) func() error {
	return func() error {
		_ = p.resume() // the engine must answer when a client is closed
		return errors.Join(c.Close(), p.close())
	}
}

// close ends the process.
func (p *process) close() error {
	_ = p.resume()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patienceOfStart):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	return nil
}
