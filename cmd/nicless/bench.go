//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/tools/bench"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const benchUsage = `Measures RDMA writes, reads and sends between two queue pairs, and the floor of
each. The floor is the time that the same two cores need to exchange the same
cache lines and make the same copy without a device. A run of the floor precedes
each run of the device.

Usage:
  nicless bench lat [flags]    time from post to completion, one operation at a
                               time
  nicless bench rate [flags]   operations per second
  nicless bench bw [flags]     bytes per second, 1 MB = 1e6 bytes
  nicless bench all [flags]    a table of every promised figure; it has other
                               flags, see nicless bench all --help

Flags:
  --op NAME         write, read or send (default: write)
  --size N          bytes of each operation (default: 8; for bw: 1048576)
  --iters N         operations in a run (default: as many as take some tens of
                    ms)
  --runs N          samples; the median is reported (default: 9)
  --depth N         for rate and bw: operations in flight (default: 64; for bw:
                    16)
  --batch N         for rate and bw: operations for each doorbell (default: 16;
                    for bw: 1)
  --signal N        for rate and bw: one of N operations is signaled; N is a
                    power of two that divides the batch (default: 1)
  --inline          put the payload inside the WQE; only for write and send, and
                    at most 828 bytes
  --one-core        one core: the poster runs the steps of the engine inside
                    this process (PostersStep of the Go package)
  --socket PATH     use the engine process at PATH (default: an engine inside
                    this process)
  --watched         with --socket: measure while everything is watched, as by
                    nicless trace; nobody reads what is recorded
  --client-cpu N    core that posts and polls; -1: any (default: the first core
                    that is allowed)
  --engine-cpu N    core of the engine and of the floor's other side; -1: any
                    (default: the second core that is allowed)
  --json            print one JSON object, with every sample

Example:
  nicless bench lat
  nicless bench lat --op read --size 4096
  nicless bench rate --batch 1
  nicless bench bw --size 65536 --json
  nicless bench lat --socket $XDG_RUNTIME_DIR/nicless.sock

Each figure is one line. Remarks are lines that begin with "#". An example of a
figure, broken into two lines here:
  peer=nicless op=write bytes=8 metric=lat_ns value=374.02 min=361.75
      max=398.51 runs=9
After the figures of bench lat are the percentiles, to p99.99, of the operations
of all runs together.
`

// unset in place of a core's number says that placeCores chooses the core.
const unset = -2

func newBench() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "latency, rate and bandwidth beside their floors",
		Long:  benchUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			const hint = "nicless bench lat, nicless bench rate, nicless bench bw, nicless bench all"
			if len(args) == 0 {
				return usagef(hint, "bench: what to measure is missing")
			}
			return usagef(hint, "bench: %q cannot be measured", args[0])
		},
	}
	c.AddCommand(
		newMetric("lat", "latency from post to completion", bench.Latency),
		newMetric("rate", "operations per second", bench.Rate),
		newMetric("bw", "bytes per second", bench.Bandwidth),
		newBenchAll(),
	)
	return c
}

func newMetric(name, short string, metric bench.Metric) *cobra.Command {
	cfg := bench.Config{Metric: metric}
	var op string
	var asJSON bool
	c := &cobra.Command{Use: name, Short: short, Long: benchUsage, Args: noArguments}
	f := c.Flags()
	f.StringVar(&op, "op", "write", "operation")
	f.IntVar(&cfg.Size, "size", 0, "bytes of each operation")
	f.IntVar(&cfg.Iters, "iters", 0, "operations in a run")
	f.IntVar(&cfg.Runs, "runs", 0, "samples")
	if metric != bench.Latency {
		f.IntVar(&cfg.Depth, "depth", 0, "operations in flight")
		f.IntVar(&cfg.Batch, "batch", 0, "operations for each doorbell")
		f.IntVar(&cfg.Signal, "signal", 0, "operations for each signaled one")
	}
	f.BoolVar(&cfg.Inline, "inline", false, "payload inside the WQE")
	f.BoolVar(&cfg.OneCore, "one-core", false, "the poster runs the engine's steps")
	f.StringVar(&cfg.Socket, "socket", "", "engine process to use")
	f.BoolVar(&cfg.Watched, "watched", false, "measure while everything is watched")
	f.IntVar(&cfg.ClientCPU, "client-cpu", unset, "core that posts and polls")
	f.IntVar(&cfg.EngineCPU, "engine-cpu", unset, "core of the engine")
	f.BoolVar(&asJSON, "json", false, "one JSON object")
	_ = c.RegisterFlagCompletionFunc("op",
		cobra.FixedCompletions([]string{"write", "read", "send"}, cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, _ []string) error {
		for _, name := range []string{"size", "iters", "runs", "depth", "batch", "signal"} {
			if f := c.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "0" {
				return usagef("leave it out for the default", "bench: %s 0; at least 1 is possible", name)
			}
		}
		var err error
		cfg.Op, err = parseOp(op)
		if err != nil {
			return err
		}
		if err := placeCores(&cfg); err != nil {
			return err
		}
		if cfg.OneCore && c.Flags().Changed("engine-cpu") {
			return usagef("nicless bench lat --one-core --client-cpu 0", "bench: --one-core has one core, that of --client-cpu")
		}
		if err := cfg.Complete(); err != nil {
			return usagef(`"nicless bench rate --help" lists the flags; so do bench lat and bench bw`, "%w", err)
		}
		if cfg.Watched && cfg.Socket == "" {
			return usagef("nicless bench rate --socket PATH --watched", "bench: --watched needs an engine process")
		}
		if cfg.Socket != "" {
			if err := checkSocketPath(cfg.Socket); err != nil {
				return err
			}
		}
		clear := showProgress(&cfg, c.ErrOrStderr())
		r, err := bench.Run(c.Context(), cfg)
		clear()
		if err != nil {
			return err
		}
		return printResult(c.OutOrStdout(), r, asJSON)
	}
	return c
}

func parseOp(name string) (nicless.Op, error) {
	ops := []nicless.Op{nicless.Write, nicless.Read, nicless.Send}
	i := slices.IndexFunc(ops, func(op nicless.Op) bool { return strings.EqualFold(op.String(), name) })
	if i < 0 {
		return 0, usagef("--op write, --op read or --op send", "bench: operation %q is not measured", name)
	}
	return ops[i], nil
}

// placeCores checks the cores that the command line names. For a side without a core on the
// command line it chooses a core that the other side does not use, if this process may run on
// two cores or more. Otherwise it leaves such a side unpinned.
func placeCores(cfg *bench.Config) error {
	allowed, err := bench.AllowedCPUs()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		flag       string
		cpu, other *int
	}{{"client-cpu", &cfg.ClientCPU, &cfg.EngineCPU}, {"engine-cpu", &cfg.EngineCPU, &cfg.ClientCPU}} {
		switch {
		case *c.cpu == unset:
			*c.cpu = -1
			if i := slices.IndexFunc(allowed, func(cpu int) bool { return cpu != *c.other }); i >= 0 &&
				len(allowed) > 1 {
				*c.cpu = allowed[i]
			}
		case *c.cpu != -1 && !slices.Contains(allowed, *c.cpu):
			return usagef(fmt.Sprintf("this process may run on %v; -1 leaves the choice to the kernel", allowed),
				"bench: --%s %d: not a core of this process", c.flag, *c.cpu)
		}
	}
	return nil
}

// showProgress makes a measurement show the number of its run on a terminal. clear erases
// the line.
func showProgress(cfg *bench.Config, w io.Writer) (clear func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	cfg.Progress = func(run, runs int) { fmt.Fprintf(w, "\rrun %d of %d ", run, runs) }
	return func() { fmt.Fprint(w, "\r\x1b[K") }
}
