//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"

	"github.com/nicless/nicless/internal/lab"
)

// takeOrders does what the host says, after it has said whether the machine is ready.
func takeOrders(prepare func() error) error {
	port, err := openPort("/dev/ttyS1")
	if err != nil {
		return err
	}
	g := &guest{out: json.NewEncoder(port), running: make(map[int]*program)}
	ready := lab.Report{}
	if err := prepare(); err != nil {
		ready.Error = err.Error()
	}
	g.report(ready)
	for in := json.NewDecoder(port); ; {
		var o lab.Order
		if err := in.Decode(&o); err != nil {
			return err
		}
		g.obey(o)
	}
}

// A guest runs the programs of a machine.
type guest struct {
	mu      sync.Mutex
	out     *json.Encoder
	running map[int]*program
}

type program struct {
	cmd *exec.Cmd
	in  io.WriteCloser // nil: it has no input
}

func (g *guest) report(r lab.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.out.Encode(r); err != nil {
		fmt.Println("lab: no report:", err)
	}
}

func (g *guest) obey(o lab.Order) {
	if len(o.Argv) == 0 {
		g.mu.Lock()
		defer g.mu.Unlock()
		p := g.running[o.Number]
		switch {
		case p == nil:
		case len(o.Input) > 0 && p.in != nil:
			_, _ = p.in.Write(o.Input) // a line or two, for which a pipe has room
		case len(o.Input) == 0:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
		return
	}
	p := &program{cmd: exec.Command(o.Argv[0], o.Argv[1:]...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := p.cmd.StdoutPipe()
	if err == nil && o.Talks {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		p.cmd.Stderr = p.cmd.Stdout
		err = p.cmd.Start()
	}
	if err != nil {
		g.report(lab.Report{Number: o.Number, Ended: true, Error: err.Error()})
		return
	}
	g.mu.Lock()
	g.running[o.Number] = p
	g.mu.Unlock()
	go g.follow(o.Number, p, said)
}

// follow reports what a program prints, and its end.
func (g *guest) follow(number int, p *program, said io.Reader) {
	part := make([]byte, 2048)
	for {
		n, err := said.Read(part)
		if n > 0 {
			g.report(lab.Report{Number: number, Said: part[:n]})
		}
		if err != nil {
			break
		}
	}
	end := lab.Report{Number: number, Ended: true}
	if err := p.cmd.Wait(); err != nil {
		end.Error = err.Error()
	}
	g.mu.Lock()
	delete(g.running, number)
	g.mu.Unlock()
	g.report(end)
}
