//go:build linux && (amd64 || arm64)

package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startTime  = 20 * time.Second // that an engine may take to start; the kubelet waits for 30 s
	killTime   = 5 * time.Second  // from SIGTERM to SIGKILL
	firstPause = time.Second      // before the second restart in a row; then twice as long each time
	longPause  = time.Minute      // the longest such pause; an engine that lives as long starts at once
)

// keep runs engines, one after another, until ctx ends.
func (c *claim) keep(ctx context.Context, stopped chan<- struct{}, each func(error)) {
	defer close(stopped)
	var pause time.Duration
	for {
		begun := time.Now()
		err := c.serve(ctx, each)
		if ctx.Err() != nil {
			return
		}
		c.health(false)
		each(err)
		if time.Since(begun) > longPause {
			pause = 0
		}
		c.p.cfg.Log.Error("an engine has ended; it is started again", "devices", c.ids, "after", pause, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		pause = min(max(2*pause, c.p.cfg.pause), longPause)
		if err := c.p.cfg.clean(c.lead()); err != nil {
			c.p.cfg.Log.Error("the directory of an engine cannot be emptied", "devices", c.ids, "error", err)
		}
	}
}

// serve runs an engine until it or ctx ends. It returns why the engine has ended.
func (c *claim) serve(ctx context.Context, each func(error)) error {
	users, err := c.needed()
	if err != nil {
		return err
	}
	defer users.Close()
	ready, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	said := &speaker{log: c.p.cfg.Log, devices: c.ids}
	cmd := c.command(ctx, theirs, said)
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		return err
	}
	_ = ready.SetReadDeadline(time.Now().Add(startTime))
	// The engine writes a word and closes the pipe, or ends.
	word, err := io.ReadAll(ready)
	switch {
	case err == nil && string(word) == "ready":
		c.health(true)
		each(nil)
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = cmd.Process.Kill()
		err = fmt.Errorf("it does not serve after %v", startTime)
	}
	return errors.Join(err, cmd.Wait(), said.reason())
}

// needed locks the file by which the engine knows that it is needed. The lock ends with this process, however
// it ends.
func (c *claim) needed() (*os.File, error) {
	path := c.p.cfg.users(c.lead())
	f, err := tryLock(path, unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	if err := c.p.cfg.own(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// arguments returns those of an engine. It gets links only if Config.Args asks for them: by RoCE that opens
// by itself, a container could send packets from the node's or the plugin's address.
func (c *claim) arguments() []string {
	cfg := &c.p.cfg
	socket := filepath.Join(cfg.directory(c.lead()), socketName)
	args := []string{"engine", "--socket", socket, "--mode", "0666", "--verbs",
		"--verbs-devices", strconv.Itoa(len(c.ids)), "--users", cfg.users(c.lead()), "--ready-fd", "3"}
	if !hasFlag(cfg.Args, "--link") {
		args = append(args, "--link", "none")
	}
	return append(args, cfg.Args...)
}

// command returns the command of an engine.
func (c *claim) command(ctx context.Context, ready *os.File, out io.Writer) *exec.Cmd {
	cfg := &c.p.cfg
	cmd := exec.CommandContext(ctx, cfg.Command, c.arguments()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = killTime
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{ready}
	// A session of its own: what a terminal sends to this process does not reach the engine.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if u := cfg.User; u != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID}
	}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "LD_PRELOAD=") && !strings.HasPrefix(e, "NICLESS_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	return cmd
}

func hasFlag(args []string, flag string) bool {
	for _, a := range args {
		if a == flag || strings.HasPrefix(a, flag+"=") {
			return true
		}
	}
	return false
}
