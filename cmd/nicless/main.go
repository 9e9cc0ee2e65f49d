// Command nicless is an RDMA NIC made of software and shared memory, and the
// tools around it.
//
//	nicless demo     shows one RDMA write byte by byte, then measures 300,000 operations
//	nicless engine   runs the device for processes that connect to a unix socket
//	nicless run      runs a program of rdma-core on a device made of software
//	nicless shell    runs a shell in which all programs of rdma-core find the device
//	nicless status   prints what an engine does, once
//	nicless links    prints the links of an engine to other engines and hosts
//	nicless top      shows an engine live, on the terminal
//	nicless web      shows an engine live, in a browser
//	nicless key      makes and shows the keys of authenticated links
//	nicless net      makes a network interface whose packets travel over an engine
//	nicless fault    makes an engine obey rules of faults
//	nicless trace    shows what a device does or did, as text, JSON, timelines or packets
//	nicless record   records a program on an mlx5 device, for a replay
//	nicless replay   posts a recorded trace to a fresh device, and compares
//	nicless decode   explains the bytes of WQEs, CQEs, doorbell records, registers and packets,
//	                 and finds them in pasted logs and dumps
//	nicless explain  explains a code, a syndrome, a status or the text of an error
//	nicless fatbin   writes what clang needs for CUDA programs without NVIDIA's tools
//	nicless model    prices the traffic of cache lines on fabrics that are not there
//	nicless bench    measures latency, rate and bandwidth beside their floors
//	nicless torture  tests an engine while clients attack it and processes are killed
//	nicless version  prints the version
//
// Results go to standard output. Everything else goes to standard error; errors begin
// with "nicless: error:". The exit status is 2 if the command line is wrong and 1 after
// any other error. torture has exit statuses for its verdicts. The commands run, shell and record return
// the program's exit status. If the program could not be run, they return 125, 126 or 127, as env(1) does.
//
// Files: each command is in the file of its name, with these others:
//
//   - main.go, errors.go: the whole command, its errors, hints and exit statuses
//   - device.go, device_other.go: which commands this system has
//   - completion.go, man.go: completion of command lines in shells, and manual pages
//   - fold.go, plain.go: breaks long lines, and replaces what a terminal must not get
//   - decode.go, decode_devx.go, kinds.go, hex.go: nicless decode, the kinds that it knows, and its input
//   - paste.go: nicless decode without a kind
//   - demo_one.go, demo_many.go, demo_print.go: the two parts of nicless demo, and its bars
//   - bench_all.go: nicless bench all
//   - model_*.go: one file for each command of nicless model; model_presets.go loads presets,
//     and model_trace.go makes or reads the trace
//   - status_find.go, status_write.go: nicless status: the engines of a machine, and the text
//   - links_words.go: the words of nicless links for bad packets
//   - net_report.go, net_addresses.go: what an interface reports to nicless links, and announces to peers
//   - threads.go: how many threads an engine in this process may have
//   - trace_show.go, trace_source.go, trace_watch.go, trace_choice.go, trace_tally.go: nicless trace, where
//     its events come from, which are shown, and how many; trace_forms.go, trace_pcapng.go, trace_lines.go:
//     the forms of its output
//   - run_engine.go, run_ready.go: finds or starts the engine of a program, and waits for it
//   - run_library.go, run_program.go: finds the library that programs preload, and checks that a
//     program will load it; shim_*.go the library in this binary
//   - run_gpu.go: emulated GPUs of a program; fatbin.go: nicless fatbin
//   - sanitize.go: the flags of the sanitizer, and how its reports are written
//   - run_sanitize.go: reports about a program that runs; engine_sanitize.go: about all clients of an engine
//   - run_explain.go: prints the device's explanations for a program
//   - run_result.go: the exit status and the JUnit report of a program by its explanations
//   - record.go: nicless record
//   - faults.go: rules of faults for run, fault and engine, and how often they have acted
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// run executes the whole command and returns its exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return flagError(c, args, err) })
	err := root.Execute()
	if err == nil {
		return 0
	}
	return complain(stderr, err)
}

const rootUsage = `nicless: an RDMA NIC made of software and shared memory

Usage:
  nicless demo [--count N]
  nicless engine --socket PATH [flags]
  nicless run [--private] [--explain] [--trace FILE] [--faults FILE]
              [--fail-on-explanation] [--] PROGRAM [ARGUMENT...]
  nicless shell [--private] [--explain]
  nicless status [--socket PATH | --all] [--json]
  nicless links [--engine PATH] [--json]
  nicless top [--socket PATH]
  nicless web [--addr ADDRESS] [--token FILE|generated] [--control]
  nicless key new|show FILE
  nicless net up --addr ADDRESS/BITS (--engine PATH | --link LINK) [flags]
  nicless fault [--socket PATH] [--for D] [--check] FILE
  nicless trace --all|--qp N|--client PID|--program NAME [--out FILE]
  nicless trace show FILE|- [--format FORM] [-o FILE]
  nicless record [--out FILE] [--] PROGRAM [ARGUMENT...]
  nicless replay FILE...
  nicless decode [FILE...|TEXT|-] [--json] [--all]
  nicless decode KIND [HEX|-] [--json]
  nicless explain CODE|SYNDROME|STATUS|TEXT...
  nicless model [--synth OP] [--bytes N] [--preset LIST] [flags]
  nicless model presets|show|diff
  nicless bench lat|rate|bw [--op write|read|send] [--size N] [--json]
  nicless bench all [--rows REGEXP] [--runs N] [--json]
  nicless torture [--seconds N] [--cores LIST | --links] [--seed S] [--json]
  nicless version, nicless --version
  nicless completion bash|zsh|fish|powershell

"nicless COMMAND --help" describes a command and its flags.

Example:
  nicless demo
  nicless engine --socket $XDG_RUNTIME_DIR/nicless.sock
  nicless run ibv_devinfo
  nicless decode qp-dbrec 0000000300000007
  dmesg | nicless decode
  nicless explain IBV_WC_REM_ACCESS_ERR
`

func newRoot() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "nicless",
		Short:         "an RDMA NIC made of software and shared memory",
		Long:          rootUsage,
		Args:          cobra.ArbitraryArgs, // so that RunE sees a command that does not exist
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case len(args) == 0 && version:
				return printVersion(c.OutOrStdout())
			case len(args) == 0:
				fmt.Fprint(c.ErrOrStderr(), rootUsage)
				return errSilentUsage
			}
			return usagef(`"nicless --help" lists the commands`, "command %q does not exist", args[0])
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version")
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), c.Long) })
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion replaces cobra's own command
	root.AddCommand(deviceCommands()...)
	root.AddCommand(newTrace(), newDecode(), newExplain(), newFatbin(), newModel(),
		newVersion(), newCompletion(), newMan())
	return root
}

// flagError returns an error that says what is wrong with a flag of a command, which the whole arguments
// have. For a bad number it does not use pflag's text, because that is the text of package strconv.
func flagError(c *cobra.Command, args []string, err error) error {
	hint := fmt.Sprintf(`"%s --help" lists the flags`, c.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && !c.HasParent() {
		if owner := flagOf(c, args, unknown.GetSpecifiedName()); owner != nil {
			hint = fmt.Sprintf("flags follow the command: %s --%s", owner.CommandPath(), unknown.GetSpecifiedName())
		}
	}
	var bad *pflag.InvalidValueError
	switch {
	case !errors.As(err, &bad) || !strings.Contains(bad.GetFlag().Value.Type(), "int"):
		return usagef(hint, "%v", err)
	case errors.Is(err, strconv.ErrRange):
		return usagef(hint, "--%s %s is too large", bad.GetFlag().Name, bad.GetValue())
	}
	return usagef("digits only, without a unit; "+hint, "--%s %q is not a whole number", bad.GetFlag().Name, bad.GetValue())
}

// flagOf returns the first command of the arguments, if it has a flag.
func flagOf(root *cobra.Command, args []string, flag string) *cobra.Command {
	for _, a := range args {
		for _, c := range root.Commands() {
			if c.Name() != a {
				continue
			}
			if f := c.Flags().Lookup(flag); f != nil && !f.Hidden {
				return c
			}
			return nil
		}
	}
	return nil
}
