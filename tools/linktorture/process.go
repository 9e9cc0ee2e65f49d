//go:build linux && (amd64 || arm64)

package linktorture

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/verdict"
)

// A spec is what a process reads first: what it is to be.
type spec struct {
	Role     string
	Seed     uint64
	Duration time.Duration `json:",omitempty"` // supervisor
	Argv     []string      `json:",omitempty"` // supervisor
	Socket   string        `json:",omitempty"` // engine
	Links    []string      `json:",omitempty"` // engine
	Sockets  [2]string     // client: those of its two engines
	Engines  []int         `json:",omitempty"` // client: their process ids
	Kind     Kind          // hostile
	Pool     string        `json:",omitempty"` // hostile: the pool's file
	UCX      string        `json:",omitempty"` // hostile: the UCX port of engine a; "": it has none
	Victims  []nicless.Descriptor
}

const (
	roleSupervisor = "supervisor"
	roleEngine     = "engine"
	roleClient     = "client"
	roleHostile    = "hostile"
)

// A report is a line that a process writes. Counts only grow.
type report struct {
	Ready   bool                 `json:",omitempty"` // engine: it serves; client: its QPs are connected
	Victims []nicless.Descriptor `json:",omitempty"` // client: its queue pairs
	Count   *Count               `json:",omitempty"`
	Fault   *verdict.Fault       `json:",omitempty"`
	Finding string               `json:",omitempty"`
	Result  *Result              `json:",omitempty"` // supervisor
	Error   string               `json:",omitempty"` // supervisor: why the plan could not be carried out
}

// A Count is what one process has done.
type Count struct {
	Operations uint64        `json:"operations"`
	Bytes      uint64        `json:"bytes_moved"`
	Checked    uint64        `json:"bytes_checked"`
	Longest    time.Duration `json:"longest_wait_ns"` // from the post of a batch to its last completion
	Hostile    uint64        `json:"hostile_actions"`
}

// A wire is how a process talks to the supervisor.
type wire struct {
	mu  sync.Mutex
	out *json.Encoder
}

func (w *wire) send(r report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.out.Encode(&r)
}

// Process is the main function of all processes but the one that calls Run. It reads what it is to be
// from in, and ends when in ends, if it has not ended before.
func Process(in io.Reader, out io.Writer) error {
	var s spec
	d := json.NewDecoder(in)
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("torture: read the role of this process: %w", err)
	}
	gone := make(chan struct{}) // the one that started this process has ended, or requests its end
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, io.MultiReader(d.Buffered(), in))
	}()
	w := &wire{out: json.NewEncoder(out)}
	var err error
	switch s.Role {
	case roleSupervisor:
		err = supervise(w, s, gone)
	case roleEngine:
		err = runEngine(w, s, gone)
	case roleClient:
		err = runClient(w, s, gone)
	case roleHostile:
		err = runHostile(w, s, gone)
	default:
		err = fmt.Errorf("torture: role %q", s.Role)
	}
	if err != nil {
		w.send(report{Fault: verdict.FromError(err, verdict.Evidence{})})
	}
	return err
}

// A process is one that this process has started.
type process struct {
	name   string
	cmd    *exec.Cmd
	in     io.Closer
	ending bool
	count  Count
	stderr tail
	ended  chan struct{}
}

// An event is a report of a process, or its end.
type event struct {
	p      *process
	report report
	exit   *os.ProcessState
}

// launch starts a process. Its reports, and its end, go to events, which must be read until then.
func launch(argv []string, s spec, name string, attr *syscall.SysProcAttr,
	events chan<- event) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, ended: make(chan struct{})}
	attr.Pdeathsig = syscall.SIGKILL
	p.cmd = &exec.Cmd{Path: exe, Args: argv, Stderr: &p.stderr, SysProcAttr: attr}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(in).Encode(&s); err != nil {
		return nil, errors.Join(err, p.cmd.Process.Kill(), p.cmd.Wait())
	}
	go func() {
		for r := json.NewDecoder(out); ; {
			var line report
			if r.Decode(&line) != nil {
				break
			}
			events <- event{p: p, report: line}
		}
		_ = p.cmd.Wait()
		close(p.ended)
		events <- event{p: p, exit: p.cmd.ProcessState}
	}()
	return p, nil
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 4 << 10
	t.b = append(t.b, b...)
	t.b = t.b[max(0, len(t.b)-most):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
