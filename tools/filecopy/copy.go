//go:build linux && (amd64 || arm64)

package main

import (
	"bufio"
	"bytes"
	"context"
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

// patience is how long a process may take to end when it has no more work.
const patience = 5 * time.Second

// The main goroutine starts all processes. It is locked to its thread, because the
// processes are signaled when the thread that started them ends (Pdeathsig). This
// thread lives as long as this process, however the process ends.
func init() { runtime.LockOSThread() }

// copyFile starts an engine, unless the options name one, starts a receiver, and sends
// the file.
func copyFile(ctx context.Context, o options) (err error) {
	in, size, err := openInput(ctx, o.in)
	if err != nil {
		return err
	}
	defer in.Close()
	o.out, err = resolveTarget(o.out)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "filecopy-")
	if err != nil {
		return hint{err, "set TMPDIR to a folder for the sockets of this copy"}
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
		// the file still exists if the receiver was killed
		_ = os.Remove(partPath(o.out, recv.cmd.Process.Pid))
	}()
	fmt.Printf("sender, pid %d\n", os.Getpid())

	if err = sendFile(ctx, in, size, o); err == nil {
		return recv.wait()
	}
	// If a process was killed, that is the cause of all other errors.
	for _, c := range []*child{engine, recv} {
		if c != nil && c.stop() != nil && c.died() {
			return hint{fmt.Errorf("%w (%w)", err, c.failure()), o.out + " is as it was, or complete; copy again"}
		}
	}
	return err
}

// A child is a process that this process has started.
type child struct {
	name   string
	cmd    *exec.Cmd
	stderr bytes.Buffer
	cancel context.CancelFunc
	done   chan struct{} // closed when the process has ended
	err    error         // the result of cmd.Wait; readable once done is closed
}

// start starts this program in a role. It returns when the new process has written its
// first line, which says that the process is ready.
func start(ctx context.Context, name string, args ...string) (*child, error) {
	// As long as the new process is not ready, the end of ctx ends it. After that, only stop
	// ends it.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	c := &child{name: name, cancel: cancel, done: make(chan struct{})}
	c.cmd = exec.CommandContext(life, "/proc/self/exe", args...)
	c.cmd.Stderr = &c.stderr
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = patience
	// The new process gets its own process group, so that an interrupt from the terminal
	// comes to this process only. It is signaled when this process ends.
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

// wait waits until the process, whose work is done, has ended by itself. If that takes longer than the
// constant patience says, wait stops the process.
func (c *child) wait() error {
	who := parties{c.name: c.cmd.Process.Pid}
	begun := who.mark()
	select {
	case <-c.done:
	case <-time.After(patience):
		late := who.decide(timeout(fmt.Sprintf("the copy is complete, but the %s has not ended in %v", c.name, patience)), begun)
		_ = c.stop()
		if c.died() {
			return late
		}
	}
	if c.err != nil {
		return c.failure()
	}
	return nil
}

// stop ends the process by SIGTERM and, if it is still there after the time that the constant
// patience says, by SIGKILL.
func (c *child) stop() error {
	c.cancel()
	<-c.done
	return c.err
}

// died reports whether the process ended by a signal or a panic, which has exit status 2, and not with an
// error of its own.
func (c *child) died() bool {
	code := c.cmd.ProcessState.ExitCode()
	return code < 0 || code == 2
}

// failure returns the error that the process has printed, or how it ended if it has printed
// nothing.
func (c *child) failure() error {
	text, advice, hinted := strings.Cut(c.stderr.String(), "filecopy: hint: ")
	if text == "" {
		return fmt.Errorf("%s: %w", c.name, c.err)
	}
	err := reported("", strings.TrimSpace(strings.TrimPrefix(text, "filecopy: error: ")))
	if hinted {
		return hint{err, strings.TrimSpace(advice)}
	}
	return err
}
