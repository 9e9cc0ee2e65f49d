//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// farewell is how long programs that a command has left behind have to end: as long as tests wait for
// something on a busy host.
const farewell = 30 * time.Second

// execute runs one command, and prints what it prints. Processes that it leaves behind get SIGTERM.
func execute(command string) error {
	cmd := exec.Command("sh", "-c", command)
	out := &lines{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = farewell
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("sh: %w", err)
	}
	status, err := cmd.Process.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	_ = cmd.Wait() // for the rest of the output; the status is known
	out.end()
	switch {
	case err != nil:
		return err
	case !status.Success():
		return fmt.Errorf("%s: %v", command, status)
	}
	return nil
}

// lines prints whole lines, each with LAB before it. The goroutine that copies a command's output owns it.
type lines struct{ rest []byte }

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte{'\n'})
		if !ok {
			return len(b), nil
		}
		fmt.Printf("LAB %s\n", line)
		l.rest = rest
	}
}

func (l *lines) end() {
	if len(l.rest) > 0 {
		fmt.Printf("LAB %s\n", l.rest)
	}
}
