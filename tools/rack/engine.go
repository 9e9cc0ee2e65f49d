//go:build linux && (amd64 || arm64)

package rack

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/nicless/nicless"
)

// EngineArgument is the first argument of a process that is to be an engine; the socket and the link follow.
const EngineArgument = "rack-engine"

// Engine is the main function of an engine. It ends with SIGTERM.
func Engine(socket, link string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	cfg := nicless.Config{
		Links: []string{link},
		Log:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	return nicless.Serve(ctx, socket, 0o600, cfg, nil)
}

// An engine is a process.
type engine struct {
	name   string
	socket string
	link   string  // as --link has it
	host   *holder // nil: this one
	cmd    *exec.Cmd
	began  time.Time
	stderr bytes.Buffer
	ended  chan struct{}
}

// start starts the engine, for the first time or again.
func (e *engine) start(c *Config) error {
	argv := []string{os.Args[0], EngineArgument, e.socket, e.link}
	if c.Program != "" {
		argv = []string{c.Program, "engine", "--socket", e.socket, "--link", e.link}
	}
	if e.host != nil {
		argv = e.host.argv(argv...)
	}
	e.stderr.Reset()
	e.cmd = exec.Command(argv[0], argv[1:]...)
	e.cmd.Stderr = &e.stderr
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	e.began, e.ended = time.Now(), make(chan struct{})
	if err := e.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := e.cmd, e.ended
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	return nil
}

// dial waits until the engine serves, and connects to it.
func (e *engine) dial() (*nicless.Context, error) {
	for deadline := time.Now().Add(patience); ; {
		c, err := nicless.Dial(e.socket)
		if err == nil {
			return c, nil
		}
		select {
		case <-e.ended:
			return nil, fmt.Errorf("%s has ended: %v: %s", e.name, e.cmd.ProcessState, &e.stderr)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s does not serve after %v: %w", e.name, patience, err)
		}
	}
}

// kill kills the engine, and does not wait.
func (e *engine) kill() { _ = e.cmd.Process.Kill() }

// stop ends the engine if it has been started.
func (e *engine) stop() {
	if e.cmd == nil || e.cmd.Process == nil {
		return
	}
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.ended:
	case <-time.After(patience):
		e.kill()
		<-e.ended
	}
}

// alive returns an error if the engine has ended.
func (e *engine) alive() error {
	select {
	case <-e.ended:
		return fmt.Errorf("%s has ended by itself: %v: %s", e.name, e.cmd.ProcessState, &e.stderr)
	default:
		return nil
	}
}
