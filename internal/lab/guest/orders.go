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
	g := &guest{out: json.NewEncoder(port), running: make(map[int]*exec.Cmd)}
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
	running map[int]*exec.Cmd
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
		if cmd := g.running[o.Number]; cmd != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return
	}
	cmd := exec.Command(o.Argv[0], o.Argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = cmd.Stdout
		err = cmd.Start()
	}
	if err != nil {
		g.report(lab.Report{Number: o.Number, Ended: true, Error: err.Error()})
		return
	}
	g.mu.Lock()
	g.running[o.Number] = cmd
	g.mu.Unlock()
	go g.follow(o.Number, cmd, said)
}

// follow reports what a program prints, and its end.
func (g *guest) follow(number int, cmd *exec.Cmd, said io.Reader) {
	part := make([]byte, 2048)
	for {
		n, err := said.Read(part)
		if n > 0 {
			g.report(lab.Report{Number: number, Output: part[:n]})
		}
		if err != nil {
			break
		}
	}
	end := lab.Report{Number: number, Ended: true}
	if err := cmd.Wait(); err != nil {
		end.Error = err.Error()
	}
	g.mu.Lock()
	delete(g.running, number)
	g.mu.Unlock()
	g.report(end)
}
