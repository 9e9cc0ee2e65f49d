//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nicless/nicless/trace/record"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
)

const recordUsage = `Runs a program of rdma-core and writes a trace of what its mlx5 device did.
"nicless replay" posts it to a device made of software, and compares each
completion and the bytes of each message. So anybody who has a NIC can test
whether that device does exactly the same. It needs no root and no driver.

A library that the program and its children preload copies WQEs, payload,
receives and completions out of the rings of their queues. A replay needs both
ends of a connection, so start both on this host, from one command.

Usage:
  nicless record [--out FILE] [--devx] [--] PROGRAM [ARGUMENT...]
  nicless record [--out FILE] --from DIR

Flags:
  -o, --out FILE   the trace (default: record.nictrace)
  --from DIR       make it of raw records that an earlier run has left
  --devx           let the program make queues by firmware commands (DEVX); they
                   are NOT recorded, and named. By default such commands are
                   refused, so that UCX and others make queues of verbs

Queue pairs of RC, UC and UD are recorded, of programs that are linked with
libibverbs, or load libraries that are. Not recorded: programs that look its
functions up in a handle (dlopen, then dlsym or dlvsym; NCCL does, unless it was
built with RDMA_CORE=1), or write rings themselves (DEVX, or mlx5dv_init_obj),
XRC and DC, and queue pairs whose peer is another host. A note says what is
missing in the trace. The program runs slower. On a device of nicless, "nicless
run --trace FILE --replay" records all of RC, UC and UD, whoever writes rings.

A C compiler builds the library once, in your cache directory, with the headers
of rdma-core (Debian and Ubuntu: libibverbs-dev). NICLESS_RECORDER can name it.

The exit status is the program's, as that of nicless run; 125 if the program has
ended well and there is no trace.

Example:
  nicless record -- sh -c 'ib_send_bw & sleep 1; ib_send_bw localhost; wait'
  nicless replay record.nictrace
  nicless run --private -- nicless record -- ./put    the same without a NIC
`

func newRecord() *cobra.Command {
	var out, from string
	var devx bool
	c := &cobra.Command{
		Use:   "record",
		Short: "record a program on an mlx5 device, for a replay",
		Long:  recordUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case from != "" && devx:
				return usagef("nicless record --from DIR", "record: --from reads records that are there; --devx is for a program")
			case from != "" && len(args) > 0:
				return usagef("nicless record --from DIR", "record: --from reads records that are there, and runs no program")
			case from != "":
				return recordFrom(c, out, from)
			case len(args) == 0:
				return usagef("nicless record ib_send_bw", "record: the program is missing")
			}
			return recordRun(c, out, devx, args)
		},
	}
	c.Flags().StringVarP(&out, "out", "o", "record.nictrace", "the trace")
	_ = c.MarkFlagFilename("out")
	c.Flags().StringVar(&from, "from", "", "make the trace of a directory of raw records that were kept")
	_ = c.MarkFlagDirname("from")
	c.Flags().BoolVar(&devx, "devx", false, "the program may make queues by firmware commands, which are not recorded")
	c.Flags().SetInterspersed(false) // arguments after the program belong to the program
	return c
}

// recordRun runs a program, and writes its trace.
func recordRun(c *cobra.Command, out string, devx bool, args []string) error {
	name, err := traceTarget(out)
	if err != nil {
		return err
	}
	path, err := findProgram(args[0])
	if err != nil {
		return err
	}
	library, err := recordPreload.find()
	if err != nil {
		return failed(fmt.Errorf("record: %w", err))
	}
	// Raw records have all payload: they are where the trace will be, and not in a /tmp of memory.
	dir, err := os.MkdirTemp(filepath.Dir(name), ".nicless-record-")
	if err != nil {
		return failed(fmt.Errorf("record: --out %s: %w", text.Plain(out), err))
	}
	p := &exec.Cmd{Path: path, Args: args, Stdin: c.InOrStdin(), Stdout: c.OutOrStdout(),
		Stderr: c.ErrOrStderr(), Env: recordEnvironment(os.Environ(), library, dir, devx)}
	ended := exitOf(p, "record", args[0])
	var h *hinted
	if errors.As(ended, &h) && h.err != nil {
		return errors.Join(ended, os.RemoveAll(dir)) // it did not run
	}
	err = writeTrace(name, out, dir, c.ErrOrStderr())
	if err == nil || errors.Is(err, record.ErrNothing) {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	switch {
	case err == nil:
		return ended
	case errors.Is(err, record.ErrNothing) && os.Getenv("NICLESS_VERBS") == "":
		err = hintf("nicless run -- nicless record -- PROGRAM does it on a device made of software", "record: %w", err)
	case errors.Is(err, record.ErrNothing):
		err = fmt.Errorf("record: %w", err)
	default:
		err = hintf(keptHint(dir), "record: %w", err)
	}
	if ended == nil {
		return failed(err)
	}
	complain(c.ErrOrStderr(), err)
	return ended
}

// recordEnvironment returns an environment in which programs preload the library, which writes into a
// directory. devx lets them make queues by firmware commands.
func recordEnvironment(env []string, library, dir string, devx bool) (out []string) {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case name == "LD_PRELOAD" && value != "":
			library += ":" + value // which calls the device of nicless run, for example
		case name == "LD_PRELOAD", name == "NICLESS_RECORD", name == "NICLESS_RECORD_DEVX":
		default:
			out = append(out, e)
		}
	}
	if devx {
		out = append(out, "NICLESS_RECORD_DEVX=1")
	}
	return append(out, "LD_PRELOAD="+library, "NICLESS_RECORD="+dir)
}
