//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/nicless/nicless/verbs"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

const runUsage = `Runs an unmodified program of rdma-core on a device made of software. The
program finds a device named nicless0, as "nicless run ibv_devices" shows. An
engine, which is a process, executes the program's work requests.

All programs that you run this way share one engine, from the first to the last.
So a server in one terminal and its client in another use the same device.

Usage:
  nicless run [flags] [--] PROGRAM [ARGUMENT...]

` + runFlagsUsage + `The exit status is the program's, or 128 plus the number of a signal that ended
the program. It is 127 if the program does not exist, 126 if it cannot be run
with the library, 125 if there is no engine. If the program's is 0, it is 125 if
a file of --trace or --junit cannot be written, 66 if --sanitize finds errors.

The program preloads a library. NICLESS_SHIM can name its file; otherwise this
command looks beside itself and in ../lib, and then a C compiler builds it once,
in ~/.cache/nicless. The engine's socket and engine.log, its standard error, are
in $XDG_RUNTIME_DIR/nicless or /tmp/nicless-UID.

Example:
  nicless run ibv_devinfo
  nicless run ib_write_bw            in one terminal
  nicless run ib_write_bw localhost  in another one
  nicless run --trace put.txt ./put  with a line for all that the device does
`

const runFlagsUsage = `Flags:
  --engine PATH   use an engine that already runs, started with
                  nicless engine --socket PATH --verbs
  --private       start an engine for this program alone
  --devices N     devices of an engine that this command starts (default: 1)
  --link-layer LIST  their link layers, in turn: ethernet (default), infiniband
  --device-name NAME  their names; %d is the number (default: nicless%d)
  --guid GUID     GUID of such an engine (default: one that stays: VERBS.md)
  --link LINK     a link of such an engine to others; see nicless engine --help.
                  Without it, RoCE opens by itself when the program connects to
                  an address elsewhere, or waits for connections of rdma_cm
  --slow-memory   leave registered memory where it is; the kernel copies. By
                  default the engine maps it, ten times as fast: docs/VERBS.md
  --no-devx       the program may not use firmware commands (DEVX) of mlx5, by
                  which UCX, NVSHMEM, NCCL and DOCA make queues; --devx: it may
                  (default, unless the engine was started with --no-devx)
  --guard-posts   execute a WQE only when all of it is there, for posters whose
                  stores arrive in any order; --no-guard-posts (default) trusts
  --gpu[=N]       a CUDA program gets N emulated GPUs (default: 1): docs/CUDA.md
  --gpu-order SEED  stores of kernels are seen as late as CUDA's rules allow; if
                  the engine explains a mistake, or PROGRAM fails, says which
  --gpu-workers N  threads that execute a kernel (default: all cores but one)
  --explain       print explanations of the program's mistakes
  --sanitize      print races and misuse (docs/SANITIZER.md); implies --private
  --strict, --notes  with it: no sockets; what correct programs may do, too
  --trace FILE    record what the engine does for the program and its children
                  in the form that the ending of FILE says: .nictrace, .txt,
                  .jsonl, .pftrace, .pcapng or .lines (nicless trace --help)
  --replay        with --trace: record also what nicless replay needs
  --faults FILE   the engine obeys the rules of faults in FILE while the program
                  runs, for all its programs that they match; see nicless fault
                  --help. Afterwards this command says how often each has acted
  --metrics ADDRESS  meanwhile serve metrics of the engine: docs/METRICS.md
  --fail-on-explanation[=CODE,...]  the exit status is 121 if the program's is 0
                  but the engine has explained mistakes of it (default: of all
                  codes but fault-injected, port-down, gid-changed)
  --junit FILE    write the result as a test case in JUnit's XML: it fails if
                  the program fails or such mistakes were explained
  --stacks        errors of completions name the line of a Go program that has
                  posted the request (package nicless); a post takes longer

`

const shellUsage = `Starts a shell, $SHELL. All programs of rdma-core that you start in it find the
device, as with "nicless run".

Usage:
  nicless shell [flags]

` + runFlagsUsage + `Example:
  nicless shell --private --devices 2
`

type runFlags struct {
	engine                 string
	devices                int
	names, guid            string // --device-name, --guid
	links, fabric          []string
	private, slow, explain bool
	stacks, devx, noDEVX   bool
	guard, noGuard         bool
	sanitizer              sanitizeFlags
	trace                  string
	replay                 bool
	faults, junit, metrics string
	codes                  []string // --fail-on-explanation
	gpu                    gpuFlags
}

func (f *runFlags) add(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&f.engine, "engine", "", "socket of an engine that runs")
	c.Flags().IntVar(&f.devices, "devices", 0, "devices of an engine to be started")
	c.Flags().StringSliceVar(&f.links, "link-layer", nil, "link layers of an engine to be started")
	c.Flags().StringVar(&f.names, "device-name", "", "names of the devices of an engine to be started")
	c.Flags().StringVar(&f.guid, "guid", "", "GUID of an engine to be started")
	c.Flags().StringArrayVar(&f.fabric, "link", nil, "a link of an engine to be started")
	c.Flags().BoolVar(&f.private, "private", false, "an engine for this program alone")
	c.Flags().BoolVar(&f.slow, "slow-memory", false, "leave registered memory where it is")
	c.Flags().Bool("fast-memory", true, "the default; accepted because it once had to be asked for")
	_ = c.Flags().MarkHidden("fast-memory")
	c.MarkFlagsMutuallyExclusive("fast-memory", "slow-memory")
	c.Flags().BoolVar(&f.devx, "devx", false, "the program may use firmware commands")
	c.Flags().BoolVar(&f.noDEVX, "no-devx", false, "the program may not use firmware commands")
	c.Flags().BoolVar(&f.guard, "guard-posts", false, "execute a WQE when all of it is there")
	c.Flags().BoolVar(&f.noGuard, "no-guard-posts", false, "trust the order of the program's stores")
	c.Flags().BoolVar(&f.explain, "explain", false, "print explanations")
	f.sanitizer.add(c, "print mistakes")
	c.Flags().StringVar(&f.trace, "trace", "", "file of a trace")
	c.Flags().BoolVar(&f.replay, "replay", false, "record what a replay needs")
	_ = c.MarkFlagFilename("trace")
	c.Flags().StringVar(&f.faults, "faults", "", "file of rules of faults")
	_ = c.MarkFlagFilename("faults")
	c.Flags().StringVar(&f.metrics, "metrics", "", "address at which metrics are served")
	c.Flags().StringSliceVar(&f.codes, "fail-on-explanation", nil, "codes of explained mistakes that fail")
	c.Flags().Lookup("fail-on-explanation").NoOptDefVal = allCodes
	c.Flags().StringVar(&f.junit, "junit", "", "file of a report")
	_ = c.MarkFlagFilename("junit")
	f.gpu.add(c)
	c.Flags().BoolVar(&f.stacks, "stacks", false, "errors name the line that has posted")
	_ = c.MarkFlagFilename("engine")
	_ = c.RegisterFlagCompletionFunc("link", completeLink)
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
	c.Flags().SetInterspersed(false) // arguments after the program belong to the program
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

// Exit statuses of nicless run itself. They are those of env, timeout and nohup.
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
func (f *runFlags) run(c *cobra.Command, args []string) (ended error) {
	stderr := c.ErrOrStderr()
	if _, ok := stderr.(*os.File); !ok {
		// two goroutines write: os/exec copies the program's output, the other one prints explanations
		stderr = &lockedWriter{w: stderr}
	}
	if err := f.check(c); err != nil {
		return err
	}
	rules, err := readRules(c.Name(), f.faults)
	if err != nil {
		return err
	}
	path, err := findProgram(args[0])
	if err != nil {
		return err
	}
	for _, w := range missingLibraries() {
		fmt.Fprintf(stderr, "nicless: warning: %s\n", w)
	}
	warnNames(stderr, f.names, f.started())
	f.private = f.private || (f.sanitizer.on && f.engine == "")
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
	settings := f.settings()
	if err := f.gpu.settings(settings); err != nil {
		return failed(err)
	}
	defer f.gpu.orders.remove()
	p.Env = environment(os.Environ(), library, place.verbs(), settings)
	if f.trace != "" {
		stop, err := recordProgram(place.socket, f.trace, f.replay, f.sanitizer.on, stderr)
		if err != nil {
			return failed(err)
		}
		defer func() {
			failure := stop()
			switch {
			case failure == nil:
			case ended == nil:
				ended = failed(failure)
			default:
				fmt.Fprintf(stderr, "nicless: error: %v\n", failure)
			}
		}()
	}
	if rules != nil {
		stop, err := runFaults(place.socket, rules, stderr)
		if err != nil {
			return failed(err)
		}
		defer stop()
	}
	served, err := listenForMetrics(c.Name(), f.metrics)
	if err != nil {
		return failed(err)
	}
	defer served.stop()
	served.serve(place.socket, place.device, stderr)
	end, err := f.collect(place.socket, args, stderr)
	if err != nil {
		return failed(err)
	}
	if f.sanitizer.on {
		stop, err := f.sanitizer.sanitizeProgram(place.socket, isDescendant, stderr)
		if err != nil {
			return failed(err)
		}
		collected := end
		end = func(program error) error { return stop(collected(program)) }
	}
	if f.explain {
		stop, err := printExplanations(filepath.Join(place.verbs(), verbs.WatchName), stderr, f.patience())
		if err != nil {
			return failed(err)
		}
		run := end
		end = func(program error) error { stop(program); return run(program) }
	}
	err = exitOf(p, "run", args[0])
	if f.sanitizer.on || f.trace != "" {
		awaitDeparture(place.socket, f.patience())
	}
	return end(err)
}

// check returns an error if flags cannot be combined or --devices is out of range.
func (f *runFlags) check(c *cobra.Command) error {
	set := c.Flags().Changed("devices")
	switch {
	case set && (f.devices < 1 || f.devices > verbs.MaxDevices):
		return usagef(fmt.Sprintf("1 to %d are possible", verbs.MaxDevices), "%s: --devices %d", c.Name(),
			f.devices)
	case set && f.engine != "":
		return usagef("nicless engine --socket PATH --verbs --verbs-devices N", "%s: --devices and --engine exclude each other: the number of devices of a running engine cannot be changed", c.Name())
	case len(f.links) > 0 && f.engine != "":
		return usagef("nicless engine --socket PATH --verbs --link-layer LIST", "%s: --link-layer and --engine exclude each other: the devices of a running engine cannot be changed", c.Name())
	case f.names != "" && f.engine != "":
		return usagef("nicless engine --socket PATH --verbs --device-name NAME", "%s: --device-name and --engine exclude each other: the names of a running engine's devices cannot be changed", c.Name())
	case f.guid != "" && f.engine != "":
		return usagef("nicless engine --socket PATH --verbs --guid GUID", "%s: --guid and --engine exclude each other: the GUID of a running engine cannot be changed", c.Name())
	case len(f.fabric) > 0 && f.engine != "":
		return usagef("nicless engine --socket PATH --verbs --link LINK", "%s: --link and --engine exclude each other: the links of a running engine cannot be changed", c.Name())
	case f.devx && f.noDEVX:
		return usagef("leave one of them out", "%s: --devx and --no-devx exclude each other", c.Name())
	case f.guard && f.noGuard:
		return usagef("leave one of them out", "%s: --guard-posts and --no-guard-posts exclude each other", c.Name())
	case (f.sanitizer.strict || f.sanitizer.notes) && !f.sanitizer.on:
		return usagef("nicless run --sanitize", "%s: --strict or --notes without --sanitize", c.Name())
	case f.replay && f.trace == "":
		return usagef("nicless run --trace FILE --replay", "%s: --replay without --trace", c.Name())
	case f.replay && !strings.HasSuffix(f.trace, ".nictrace"):
		return usagef("nicless run --trace FILE.nictrace --replay", "%s: --replay: nicless replay reads .nictrace, and not %s", c.Name(), plain(f.trace))
	case f.engine != "" && f.private:
		return usagef("leave one of them out", "%s: --engine and --private exclude each other", c.Name())
	}
	names := checkNames(c.Name(), f.names, c.Flags().Changed("device-name"), f.started())
	if f.guid != "" {
		if _, err := parseGUID(c.Name(), f.guid, f.started()); err != nil {
			return err
		}
	}
	return errors.Join(checkPairs(c), names, checkTraceFile(f.trace), checkLinks(c.Name(), f.links),
		checkCodes(f.codes), f.gpu.check(c))
}

// started returns how many devices an engine has that this command starts.
func (f *runFlags) started() int { return max(f.devices, len(f.links), 1) }

// settings returns the variables by which the library is told what the flags say.
func (f *runFlags) settings() map[string]string {
	set := make(map[string]string)
	if f.slow {
		set["NICLESS_VERBS_SLOW"] = "1"
	}
	if f.stacks {
		set["NICLESS_STACKS"] = "1"
	}
	switch {
	case f.devx:
		set["NICLESS_VERBS_DEVX"] = "1"
	case f.noDEVX:
		set["NICLESS_VERBS_DEVX"] = "0"
	}
	switch {
	case f.guard:
		set["NICLESS_VERBS_GUARD"] = "1"
	case f.noGuard:
		set["NICLESS_VERBS_GUARD"] = "0"
	}
	return set
}

// environment returns the environment of the program. It is that of this process with settings and the
// other variables that the library needs. LD_PRELOAD names the library first and then the files
// that it named before. SYSFS_PATH, by which libibverbs would look for devices elsewhere, is
// removed: the library redirects paths in /sys. A program built with AddressSanitizer refuses to
// start if another library comes before the sanitizer's own. A variable allows it: the library
// calls the functions that come after its own, so the sanitizer's are called too.
func environment(env []string, library, dir string, settings map[string]string) []string {
	set := map[string]string{
		"LD_PRELOAD": library, "NICLESS_VERBS": dir, "SYSFS_PATH": "", "ASAN_OPTIONS": "verify_asan_link_order=0",
	}
	maps.Copy(set, settings)
	var out []string
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if name == "LD_PRELOAD" && value != "" {
			set[name] = library + ":" + value
		}
		if name == "ASAN_OPTIONS" && value != "" {
			set[name] += ":" + value // the last of two equal options is valid
		}
		if _, replaced := set[name]; !replaced {
			out = append(out, e)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != "" {
			out = append(out, name+"="+set[name])
		}
	}
	return out
}

// exitOf runs a program to its end, for a command whose name errors have. Meanwhile it forwards to the
// program the signals that this process receives.
func exitOf(p *exec.Cmd, command, name string) error {
	signals := make(chan os.Signal, 16)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP,
		syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) { // under nohup the program ignores SIGHUP too
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	if err := p.Start(); err != nil {
		return failf(statusNotRun, "", "%s: %s: %w", command, name, err)
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
		return failf(statusNotServed, "", "%s: %s: %w", command, name, err)
	}
	status := exit.ExitCode()
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		status = statusOfSignal + int(ws.Signal())
	}
	return &hinted{status: status}
}

// fromTerminal reports whether a signal came from a key of the terminal. The terminal sends
// such a signal to all processes in the foreground, so the program gets it too.
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
