package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// Process is the other processes' main: it reads from in what it is, and is
// that until its end.
func Process(in io.Reader, out io.Writer) error {
	w, spec, err := open(in, out)
	if err != nil {
		return fmt.Errorf("torture: what this process is: %w", err)
	}
	switch spec.Role {
	case roleEngine:
		err = runEngine(w, spec)
	case roleClient:
		err = runClient(w, spec)
	case roleVisitor:
		err = runVisitor(w, spec)
	case roleChaos:
		err = runChaos(w, spec)
	default:
		err = fmt.Errorf("torture: role %q", spec.Role)
	}
	if err != nil {
		w.say(Report{Is: isFault, Text: err.Error()})
	}
	return err
}

// Roles.
const (
	roleEngine  = "engine"
	roleClient  = "client"
	roleChaos   = "chaos"
	roleVisitor = "visitor"
)

// A process is one that the supervisor has started.
type process struct {
	spec   Spec
	name   string // for faults
	cmd    *exec.Cmd
	orders *json.Encoder
	stderr bytes.Buffer
	ends   bool  // it was told to end, or killed
	count  Count // as reported last
	kept   bool  // count is part of the sum
	born   int   // engines that had ended before
	gones  int   // engines that it says are gone
	stops  stops
}

// An event is a report of a process, or its end.
type event struct {
	p      *process
	report Report
	exit   *os.ProcessState // of its end
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
		// Nobody outlives the supervisor, however that ends.
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
	if err := p.cmd.Start(); err != nil {
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
				break // also where a killed process was in the middle of a report
			}
			events <- event{p: p, report: report}
		}
		_ = p.cmd.Wait()
		events <- event{p: p, exit: p.cmd.ProcessState}
	}()
	return p, nil
}

// tell gives an order. A process that is dead does not get it.
func (p *process) tell(o Order) { _ = p.orders.Encode(&o) }

func (p *process) kill() {
	p.ends = true
	p.stops.mu.Lock()
	p.stops.dead = true
	p.stops.mu.Unlock()
	_ = p.cmd.Process.Kill()
}
