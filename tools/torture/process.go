//go:build linux && (amd64 || arm64)

package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"github.com/nicless/nicless/internal/verdict"
)

// Process is the main function of all processes except the supervisor. It reads its Spec from
// in. When it returns, the process ends.
func Process(in io.Reader, out io.Writer) error {
	w, spec, err := open(in, out)
	if err != nil {
		return fmt.Errorf("torture: read the role of this process: %w", err)
	}
	switch spec.Role {
	case roleEngine:
		err = runEngine(w, spec)
	case roleClient:
		err = runClient(w, spec)
	case roleVisitor:
		err = runVisitor(w, spec)
	case roleHostile:
		err = runHostile(w, spec)
	default:
		err = fmt.Errorf("torture: role %q", spec.Role)
	}
	if err != nil {
		w.send(Report{Is: isFault, Fault: verdict.FromError(err, verdict.Evidence{}), Last: true})
	}
	return err
}

// Roles.
const (
	roleEngine  = "engine"
	roleClient  = "client"
	roleHostile = "hostile"
	roleVisitor = "visitor"
)

// A process is a process that the supervisor has started.
type process struct {
	spec          Spec
	name          string // name in the texts of faults
	cmd           *exec.Cmd
	orders        *json.Encoder
	stderr        bytes.Buffer
	ending        bool  // whether the process has the order to end, or was killed
	count         Count // the last count that the process has reported
	kept          bool  // whether count has been added to the result
	enginesBefore int   // number of engines that had ended before the process started
	goneReports   int   // number of engines that the process has reported as gone
	stops         stops
}

// An event is a report of a process, or the end of a process.
type event struct {
	p      *process
	report Report
	exit   *os.ProcessState // how the process has ended; nil: it runs
}

// start starts a process. Its reports, and its end, go to events.
func start(argv []string, spec Spec, name string, files []*os.File, events chan<- event) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{spec: spec, name: name}
	p.cmd = &exec.Cmd{
		Path: exe, Args: argv, Stderr: &p.stderr, ExtraFiles: files,
		// The kernel kills the process when the supervisor ends, however the supervisor ends.
		SysProcAttr: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startFromLastingThread(p.cmd); err != nil {
		return nil, err
	}
	p.orders = json.NewEncoder(in)
	if err := p.orders.Encode(&spec); err != nil {
		return nil, err
	}
	go func() {
		for r := json.NewDecoder(out); ; {
			var report Report
			if r.Decode(&report) != nil {
				break // the pipe has ended, perhaps in the middle of a report if the process was killed
			}
			events <- event{p: p, report: report}
		}
		_ = p.cmd.Wait()
		events <- event{p: p, exit: p.cmd.ProcessState}
	}()
	return p, nil
}

// starter is a goroutine on a thread that never ends. The kernel sends Pdeathsig when the thread ends that
// has started the process, and other threads of this process may end: those to which goroutines were locked.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

func startFromLastingThread(cmd *exec.Cmd) error {
	done := make(chan error)
	starter() <- func() { done <- cmd.Start() }
	return <-done
}

// send sends an order. It is lost if the process has ended.
func (p *process) send(o Order) { _ = p.orders.Encode(&o) }

func (p *process) kill() {
	p.ending = true
	p.stops.mu.Lock()
	p.stops.dead = true
	p.stops.mu.Unlock()
	_ = p.cmd.Process.Kill()
}
