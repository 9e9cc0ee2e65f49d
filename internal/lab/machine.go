//go:build linux && (amd64 || arm64)

package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nicless/nicless/internal/clock"
)

// A Config says what a machine is. Machines have the processor amd64, emulated, and 512 MiB of memory,
// unless Script says otherwise.
type Config struct {
	Script  string   // that starts QEMU, such as those in lab/vms; "": Start does
	Set     []string // variables for the script, besides those for the fields here
	Kernel  Kernel
	Files   Files      // files of the machine, with an Init among them
	Initrd  string     // a file that Files.WriteTo has made; it replaces Files
	Seconds int        // after which the machine switches itself off
	Args    []string   // further arguments of QEMU
	Inherit []*os.File // descriptors that Args name, from 3
	Under   []string   // a command under which QEMU runs
	Console io.Writer  // gets what the kernel prints
}

// A Machine is a virtual machine that runs programs. Its methods are safe for concurrent use.
type Machine struct {
	qemu *exec.Cmd
	in   io.WriteCloser

	ready chan error    // why the machine is not ready, or nil; one value
	off   chan struct{} // closed when the machine is off

	mu       sync.Mutex
	programs map[int]*Program // programs that have not ended, by number
	last     int              // number of the last program
	over     error            // why no more programs can run
}

// Start starts a machine, and returns when it is ready for programs, or with an error when ctx is done. The
// caller has to Close it.
func Start(ctx context.Context, c Config) (*Machine, error) {
	if c.Initrd == "" {
		dir, err := os.MkdirTemp("", "nicless-lab")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(dir) }() // QEMU has read the file when the machine is ready
		c.Initrd = filepath.Join(dir, "files")
		if err := c.Files.WriteFile(c.Initrd); err != nil {
			return nil, err
		}
	}
	argv := c.argv()
	m := &Machine{programs: make(map[int]*Program), ready: make(chan error, 1), off: make(chan struct{})}
	m.qemu = exec.Command(argv[0], argv[1:]...)
	m.qemu.Env = append(os.Environ(), c.variables()...)
	m.qemu.ExtraFiles = c.Inherit
	m.qemu.Stderr = c.Console
	m.qemu.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	m.in, err = m.qemu.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := m.qemu.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.qemu.Start(); err != nil {
		return nil, err
	}
	go m.listen(out)
	select {
	case err = <-m.ready:
	case <-m.off:
		err = errors.New("the machine is off before it was ready")
	case <-ctx.Done():
		err = fmt.Errorf("the machine is not ready: %w", context.Cause(ctx))
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// serial are the machine's serial ports: the console, and orders.
var serial = []string{"-chardev", "stdio,id=orders,signal=off", "-chardev", "file,id=console,path=/dev/stderr",
	"-serial", "chardev:console", "-serial", "chardev:orders"}

// argv returns the command line that starts QEMU.
func (c *Config) argv() []string {
	argv := slices.Clone(c.Under)
	if c.Script != "" {
		return append(append(argv, c.Script), c.Args...)
	}
	// A host that is busy gives the machine no time while the kernel checks its timers and clock.
	argv = append(argv, "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max",
		"-smp", "1,maxcpus=2", // with one possible CPU, locked instructions are not atomic for other machines
		"-m", "512", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", c.Kernel.Image, "-initrd", c.Initrd,
		"-append", strings.Join(c.command(), " "))
	return append(append(argv, serial...), c.Args...)
}

// command returns the kernel's command line.
func (c *Config) command() []string {
	command := []string{"console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check",
		"lab.seconds=" + strconv.Itoa(c.Seconds)}
	if khz := counterRate(); khz != 0 {
		command = append(command, fmt.Sprintf("tsc_early_khz=%d", khz))
	}
	return command
}

// counterRate returns how many thousand cycles the counter of the emulated processors has in a second, or 0
// if that is not known. The counter is that of this host. A machine that measures the rate itself while its
// host is busy may find a fraction of it; then its clock is as many times too fast, and its time limits are
// too short.
func counterRate() uint64 {
	if hz := clock.Hz(); hz != uint64(time.Second) { // of the system's clock: the counter's rate may change
		return hz / 1000
	}
	return 0
}

// variables returns what a script finds in its environment.
func (c *Config) variables() []string {
	if c.Script == "" {
		return nil
	}
	return append([]string{"LAB_KERNEL=" + c.Kernel.Image, "LAB_INITRD=" + c.Initrd,
		"LAB_SECONDS=" + strconv.Itoa(c.Seconds), fmt.Sprintf("LAB_TSC_KHZ=%d", counterRate()),
		"LAB_CMD=orders", "LAB_SERIAL=" + strings.Join(serial, " ")}, c.Set...)
}

// listen takes reports until the machine is off.
func (m *Machine) listen(out io.Reader) {
	var err error
	for in := json.NewDecoder(out); err == nil; {
		var r Report
		if err = in.Decode(&r); err == nil {
			m.take(r)
		}
	}
	_ = m.qemu.Process.Kill()
	_ = m.qemu.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = fmt.Errorf("the machine is off: %w", err)
	for _, p := range m.programs {
		p.end(m.over)
	}
	close(m.off)
}

func (m *Machine) take(r Report) {
	if r.Number == 0 {
		var err error
		if r.Error != "" {
			err = errors.New(r.Error)
		}
		select {
		case m.ready <- err:
		default: // it is said once
		}
		return
	}
	m.mu.Lock()
	p := m.programs[r.Number]
	if r.Ended {
		delete(m.programs, r.Number)
	}
	m.mu.Unlock()
	if p == nil {
		return
	}
	if len(r.Output) > 0 {
		_, _ = p.output.Write(r.Output)
	}
	switch {
	case r.Ended && r.Error != "":
		p.end(errors.New(r.Error))
	case r.Ended:
		p.end(nil)
	}
}

// Close switches the machine off, as if its power was cut. Its programs end.
func (m *Machine) Close() {
	_ = m.qemu.Process.Kill()
	<-m.off
}

// A Program runs in a machine.
type Program struct {
	m      *Machine
	argv   []string
	number int
	output io.Writer
	done   chan struct{}
	err    error
}

// Start starts a program. Its output goes to output, in order.
func (m *Machine) Start(output io.Writer, argv ...string) *Program {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	p := &Program{m: m, argv: argv, number: m.last, output: output, done: make(chan struct{})}
	if m.over != nil {
		p.end(m.over)
		return p
	}
	m.programs[p.number] = p
	m.order(Order{p.number, argv})
	return p
}

// order sends an order. If the machine does not take it, the machine is about to be off.
func (m *Machine) order(o Order) { _ = json.NewEncoder(m.in).Encode(o) }

func (p *Program) end(err error) {
	p.err = err
	close(p.done)
}

// Off is closed when the machine is off.
func (m *Machine) Off() <-chan struct{} { return m.off }

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// Wait waits for the end, and returns why it is not one with status 0.
func (p *Program) Wait() error {
	<-p.done
	return p.err
}

// Kill kills the program and what it started.
func (p *Program) Kill() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.m.order(Order{Number: p.number})
}

func (p *Program) String() string { return "in the machine: " + strings.Join(p.argv, " ") }

// Run runs a program to its end, and returns what it printed.
func (m *Machine) Run(argv ...string) (string, error) {
	var said strings.Builder
	p := m.Start(&said, argv...)
	if err := p.Wait(); err != nil {
		return said.String(), fmt.Errorf("%s: %w: %s", p, err, said.String())
	}
	return said.String(), nil
}
