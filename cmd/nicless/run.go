//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nicless/nicless/verbs"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const runUsage = `Runs a program of rdma-core, unmodified, on a device made of software. The
program finds nicless0 as ibv_devices does, and an engine executes its work
requests.

All programs that you run this way have one engine, which starts with the first
and ends after the last. So a server and its client, in two terminals, find each
other.

Usage:
  nicless run [flags] [--] PROGRAM [ARGUMENT...]

` + runFlagsUsage + `The exit status is the program's, 128 and the signal's number if one ended it,
127 if it does not exist, 126 if it cannot be run so, 125 if the engine is not
there.

The program preloads a library, which is looked for beside this command, in
../lib, and where NICLESS_SHIM says. If it is in none of these places, a C
compiler builds it once, in your cache directory (~/.cache/nicless). The
engine's socket is in $XDG_RUNTIME_DIR/nicless or /tmp/nicless-UID, and its
standard error in engine.log there.

Example:
  nicless run ibv_devinfo
  nicless run ib_write_bw            in one terminal
  nicless run ib_write_bw localhost  in another one
`

const runFlagsUsage = `Flags:
  --engine PATH   use this engine: nicless engine --socket PATH --verbs
  --private       an engine for this program alone
  --devices N     number of devices of an engine that is to be started (1)
  --fast-memory   let the engine map memory that the program registers, rather
                  than have the kernel copy: faster; docs/VERBS.md says what the
                  program must not do then
  --explain       print explanations of the program's mistakes

`

const shellUsage = `Starts a shell, $SHELL, in which every program of rdma-core finds the device, as
with "nicless run".

Usage:
  nicless shell [flags]

` + runFlagsUsage + `Example:
  nicless shell --private --devices 2
`

type runFlags struct {
	engine                 string
	devices                int
	private, fast, explain bool
}

func (f *runFlags) add(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&f.engine, "engine", "", "socket of an engine that runs")
	c.Flags().IntVar(&f.devices, "devices", 0, "devices of an engine to be started")
	c.Flags().BoolVar(&f.private, "private", false, "an engine for this program alone")
	c.Flags().BoolVar(&f.fast, "fast-memory", false, "map what is registered")
	c.Flags().BoolVar(&f.explain, "explain", false, "print explanations")
	_ = c.MarkFlagFilename("engine")
	return c
}

func newRun() *cobra.Command {
	f := new(runFlags)
	c := f.add(&cobra.Command{
		Use:   "run",
		Short: "run a program of rdma-core on a device made of software",
		Long:  runUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("nicless run ibv_devinfo", "run: the program is missing")
			}
			return f.run(c, args)
		},
	})
	c.Flags().SetInterspersed(false) // what follows the program is the program's
	return c
}

func newShell() *cobra.Command {
	f := new(runFlags)
	return f.add(&cobra.Command{
		Use:   "shell",
		Short: "a shell in which programs of rdma-core find the device",
		Long:  shellUsage,
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			shell := os.Getenv("SHELL")
			if shell == "" {
				shell = "/bin/sh"
			}
			return f.run(c, []string{shell})
		},
	})
}

// Exit statuses of nicless run itself, as env, timeout and nohup have them.
const (
	statusNotServed = 125
	statusNotRun    = 126
	statusNotFound  = 127
	statusOfSignal  = 128
)

// failf is hintf with an exit status.
func failf(status int, hint, format string, args ...any) error {
	return &hinted{err: fmt.Errorf(format, args...), hint: hint, status: status}
}

// failed gives an error the exit status for an engine that cannot be used.
func failed(err error) error {
	h := &hinted{err: err, hint: hintFor(err)}
	errors.As(err, &h)
	if h.usage {
		return err
	}
	return &hinted{err: err, hint: h.hint, status: statusNotServed}
}

// run runs a program and returns its exit status as an error.
func (f *runFlags) run(c *cobra.Command, args []string) error {
	stderr := c.ErrOrStderr()
	if _, ok := stderr.(*os.File); !ok {
		stderr = &lockedWriter{w: stderr} // os/exec copies the program's output to it, beside the explanations
	}
	if err := f.check(c); err != nil {
		return err
	}
	path, err := findProgram(args[0])
	if err != nil {
		return err
	}
	for _, w := range missingLibraries() {
		fmt.Fprintf(stderr, "nicless: warning: %s\n", w)
	}
	place, release, err := f.place()
	if err != nil {
		return failed(err)
	}
	defer release()
	library, err := f.library(place)
	if err != nil {
		return failed(err)
	}
	p := &exec.Cmd{Path: path, Args: args, Stdin: c.InOrStdin(), Stdout: c.OutOrStdout(), Stderr: stderr}
	p.Env = environment(os.Environ(), library, place.verbs(), f.fast)
	if f.explain {
		stop, err := printExplanations(filepath.Join(place.verbs(), verbs.WatchName), stderr)
		if err != nil {
			return failed(err)
		}
		defer stop()
	}
	return exitOf(p, args[0])
}

// check refuses combinations of flags.
func (f *runFlags) check(c *cobra.Command) error {
	switch set := c.Flags().Changed("devices"); {
	case set && (f.devices < 1 || f.devices > verbs.MaxDevices):
		return usagef(fmt.Sprintf("1 to %d are possible", verbs.MaxDevices), "%s: --devices %d", c.Name(), f.devices)
	case set && f.engine != "":
		return usagef("nicless engine --socket PATH --verbs --verbs-devices N", "%s: --devices of an engine that runs; it has what it was started with", c.Name())
	case f.engine != "" && f.private:
		return usagef("leave one of them out", "%s: --engine and --private", c.Name())
	}
	return nil
}

// environment returns the environment of the program: that of this process, with the library
// before others that are preloaded.
func environment(env []string, library, dir string, fast bool) []string {
	set := map[string]string{"LD_PRELOAD": library, "NICLESS_VERBS": dir, "SYSFS_PATH": filepath.Join(dir, "sys")}
	if fast {
		set["NICLESS_VERBS_FAST"] = "1"
	}
	var out []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if name == "LD_PRELOAD" && value != "" {
			set[name] = library + ":" + value
		}
		if _, replaced := set[name]; !replaced {
			out = append(out, e)
		}
	}
	for _, name := range []string{"LD_PRELOAD", "NICLESS_VERBS", "NICLESS_VERBS_FAST", "SYSFS_PATH"} {
		if value, ok := set[name]; ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// exitOf runs a program to its end, and passes signals to it that this process gets.
func exitOf(p *exec.Cmd, name string) error {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // under nohup the program ignores SIGHUP too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if err := p.Start(); err != nil {
		return failf(statusNotRun, "", "run: %s: %w", name, err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case s := <-signals:
				if !fromTerminal(s) {
					_ = p.Process.Signal(s)
				}
			case <-ended:
				return
			}
		}
	}()
	err := p.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return failf(statusNotServed, "", "run: %s: %w", name, err)
	}
	status := exit.ExitCode()
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = statusOfSignal + int(ws.Signal())
	}
	return &hinted{status: status}
}

// fromTerminal reports whether a signal came from a key of the terminal, which sends it to
// all processes in the foreground, the program included.
func fromTerminal(s os.Signal) bool {
	if s != os.Interrupt && s != syscall.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
