//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is how long a process may take to end when it has no more to do.
const patience = 5 * time.Second

// The main goroutine starts all processes, from a thread that lives as long as
// this one: they are told when it ends, however it does.
func init() { runtime.LockOSThread() }

// copyFile starts an engine, unless one was named, and a receiver, and sends.
func copyFile(ctx context.Context, o options) (err error) {
	in, size, err := openInput(ctx, o.in)
	if err != nil {
		return err
	}
	defer in.Close()
	if o.out, err = resolveTarget(o.out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "filecopy-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.peer = filepath.Join(dir, "peer.sock")

	var engine *child
	if o.socket == "" {
		o.socket = filepath.Join(dir, "engine.sock")
		if engine, err = start(ctx, "engine", "-role", "engine", "-socket", o.socket); err != nil {
			return err
		}
		defer func() { _ = engine.stop() }()
	}
	recv, err := start(ctx, "receiver", "-role", "recv", "-socket", o.socket, "-peer", o.peer,
		"-out", o.out, "-chunk", strconv.Itoa(o.chunk))
	if err != nil {
		return err
	}
	defer func() {
		_ = recv.stop()
		_ = os.Remove(partPath(o.out, recv.cmd.Process.Pid)) // if it was killed
	}()
	fmt.Printf("sender, pid %d\n", os.Getpid())

	if err = sendFile(ctx, in, size, o); err == nil {
		return recv.wait()
	}
	// Whoever was killed is behind all that failed.
	for _, c := range []*child{engine, recv} {
		if c != nil && c.stop() != nil && c.died() {
			return hint{fmt.Errorf("%w (%w)", err, c.failure()), o.out + " is as it was, or complete; copy again"}
		}
	}
	return err
}

// A child is a process that this one has started.
type child struct {
	name   string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // as Wait returned it; readable once done is closed
}

// start starts this program in a role and returns when it has said, in its
// first line, that it is ready.
func start(ctx context.Context, name string, args ...string) (*child, error) {
	// What ends us does not end the others: when they may go, they are told.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)() // until it is ready
	c := &child{name: name, cancel: cancel, done: make(chan struct{})}
	c.cmd = exec.CommandContext(life, "/proc/self/exe", args...)
	c.cmd.Stderr = &c.stderr
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = patience
	// A group of its own, so that an interrupt from the terminal is ours to
	// handle; and no life after ours.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	go func() {
		_, _ = io.Copy(io.Discard, r)
		c.err = c.cmd.Wait()
		close(c.done)
	}()
	if err != nil {
		_ = c.stop()
		return nil, c.failure()
	}
	fmt.Print(line)
	return c, nil
}

// wait waits until the process has ended by itself, though not for ever.
func (c *child) wait() error {
	select {
	case <-c.done:
	case <-time.After(patience):
		_ = c.stop()
	}
	if c.err != nil {
		return c.failure()
	}
	return nil
}

// stop ends the process, asking first.
func (c *child) stop() error {
	c.cancel()
	<-c.done
	return c.err
}

// died reports whether it ended otherwise than by returning from main.
func (c *child) died() bool {
	code := c.cmd.ProcessState.ExitCode()
	return code != 0 && code != 1
}

// failure returns what the process said, or how it ended if it said nothing.
func (c *child) failure() error {
	text, advice, hinted := strings.Cut(c.stderr.String(), "filecopy: hint: ")
	if text == "" {
		return fmt.Errorf("%s: %w", c.name, c.err)
	}
	err := errors.New(strings.TrimSpace(strings.TrimPrefix(text, "filecopy: error: ")))
	if hinted {
		return hint{err, strings.TrimSpace(advice)}
	}
	return err
}
