//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/tools/linktorture"
	"github.com/nicless/nicless/tools/torture"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const tortureUsage = `Tests an engine while clients attack it. This command starts the engine and its
clients as processes. Pairs of correct clients move data with every kind of
operation and check each byte and each completion. Meanwhile hostile clients
overwrite their queues, send garbage, remove pages from shared memory and use up
resources. Under load, clients are stopped and all processes are killed, the
engine too.

Each fault is told by its kind, with what was expected and what was found, and
with the processor time that engine and client had meanwhile. The worst one is
the verdict and decides the exit status:

  3  corruption: wrong bytes; completions that are lost, or repeated or out of
     order; resources that the engine leaks
  4  another failure: a process has ended, a rule was broken, the log flooded
  5  stall: a correct client has waited more than 100 ms
  6  no answer: a deadline has passed
  7  not judged: this machine was too busy to tell

As for all commands, 0 is OK, 1 says that the test could not be carried out, and
2 that the command line is wrong.

From a wait, the time is subtracted in which the engine or the client was ready
to run but had no core (the kernel counts it, /proc/PID/task/TID/schedstat), or
was blocked in the kernel. A wait or a deadline is not judged if the machine
gave engine or client a core for less than 5 % of it, or was suspended. A run
is not judged if the share over its whole time is less. Then repeat it with less
load. A corruption stays one, however busy the machine is.

With --links, engines that are joined by RoCE and by a pool are tested instead,
in a user and network namespace of their own, without root. Correct clients move
data over the links and check each byte. Hostile processes flood the RoCE port,
scan for packet numbers in the peer's name, forge answers and send copies of
packets, write wrong words as a node of the pool, and connect to the UCX port
(if nicless-ucx is installed). An attack that succeeds because RoCE without keys
cannot refuse it is printed as a FINDING, and is no error.

With --explore, there is one thread and no real time. Clients, work requests,
steps of the device, timers and faults are drawn from a seed, some hundred runs
a second. A run that fails becomes a trace, which "nicless replay" repeats to
the last byte, and --shrink leaves out what it does not need (docs/EXPLORE.md).

Usage:
  nicless torture [flags]

Flags:
  --seconds N   duration of the test (default: 10); the engine is killed at
                least twice
  --cores LIST  start one thread of the engine on each of these cores (default:
                one thread, on any core)
  --seed S      seed of the schedule, which says which clients run, which are
                stopped, which are killed, and in which order (default:
                random)
  --links       test links between engines
  --json        print one JSON object
  --explore S   draw runs from the seeds S, S+1, ... until one fails
  --runs N      ... at most N runs (default: 1000, or what --seconds allows)
  --shrink      ... shorten the run that fails
  --out FILE    ... its trace goes here (default: explore-SEED.nictrace)
  --faults FILE ... rules of faults of which the checks are not told

Example:
  nicless torture --seconds 60
  nicless torture --seconds 60 --links
  nicless torture --seconds 10 --seed 42 --json
  nicless torture --explore 1 --shrink
`

const processUsage = `Runs one process of "nicless torture". Only that command uses it.

Usage:
  nicless torture process

Example:
  nicless torture
`

const linkProcessUsage = `Runs one process of "nicless torture --links". Only that command uses it.

Usage:
  nicless torture link-process

Example:
  nicless torture --links
`

// mostSeconds is the longest test in seconds: a day.
const mostSeconds = 86400

func newTorture() *cobra.Command {
	var seconds int
	var cores string
	var seed uint64
	var asJSON, overLinks bool
	var x exploring
	c := &cobra.Command{Use: "torture", Short: "test an engine with hostile clients, kills and stops", Long: tortureUsage, Args: noArguments}
	f := c.Flags()
	f.IntVar(&seconds, "seconds", 10, "how long")
	f.StringVar(&cores, "cores", "", "cores that each run a thread of the engine")
	f.Uint64Var(&seed, "seed", 0, "seed of the schedule")
	f.BoolVar(&overLinks, "links", false, "test links between engines")
	f.BoolVar(&asJSON, "json", false, "one JSON object")
	x.flags(f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if seconds < 1 || seconds > mostSeconds {
			return usagef("nicless torture --seconds 60", "torture: --seconds %d; 1 to %d are possible", seconds, mostSeconds)
		}
		if err := x.check(c); err != nil {
			return err
		}
		if c.Flags().Changed("explore") {
			if c.Flags().Changed("seconds") {
				x.time = time.Duration(seconds) * time.Second
			}
			return x.run(c, asJSON)
		}
		if !c.Flags().Changed("seed") {
			seed = uint64(rand.Uint32())
		}
		if overLinks && cores != "" {
			return usagef("nicless torture --links", "torture: --links has several engines, and --cores is for one")
		}
		if overLinks {
			return tortureLinks(c, seed, seconds, asJSON)
		}
		cfg := torture.Config{Seed: seed, Duration: time.Duration(seconds) * time.Second,
			Argv: []string{os.Args[0], "torture", "process"}}
		var err error
		cfg.Cores, err = parseCores("torture", "cores", cores)
		if err != nil {
			return err
		}
		if err := mayRunOn(cfg.Cores); err != nil {
			return err
		}
		clear := tortureProgress(&cfg, c.ErrOrStderr())
		r, err := torture.Run(c.Context(), cfg)
		clear()
		if err != nil {
			return err
		}
		if err := printResult(c.OutOrStdout(), &r, asJSON); err != nil {
			return err
		}
		if !r.OK() {
			again := fmt.Sprintf("nicless torture --seconds %d --seed %d", seconds, seed)
			if cores != "" {
				again += " --cores " + cores
			}
			return verdictError(r.Verdict, r.Faults, again)
		}
		return nil
	}
	c.AddCommand(&cobra.Command{
		Use: "process", Short: "run one of the processes", Long: processUsage, Args: noArguments, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return torture.Process(c.InOrStdin(), c.OutOrStdout())
		},
	})
	c.AddCommand(&cobra.Command{
		Use: "link-process", Short: "run one of the processes of --links", Long: linkProcessUsage, Args: noArguments, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			return linktorture.Process(c.InOrStdin(), c.OutOrStdout())
		},
	})
	return c
}

// tortureLinks is nicless torture --links.
func tortureLinks(c *cobra.Command, seed uint64, seconds int, asJSON bool) error {
	cfg := linktorture.Config{Seed: seed, Duration: time.Duration(seconds) * time.Second,
		Argv: []string{os.Args[0], "torture", "link-process"}}
	r, err := linktorture.Run(c.Context(), cfg)
	if err != nil {
		return err
	}
	if err := printResult(c.OutOrStdout(), &r, asJSON); err != nil {
		return err
	}
	if !r.OK() {
		return verdictError(r.Verdict, r.Faults, fmt.Sprintf("nicless torture --links --seconds %d --seed %d", seconds, seed))
	}
	return nil
}

// verdictError returns the error of a test that did not end well. Its exit status tells the verdict.
func verdictError(k verdict.Kind, faults []*verdict.Fault, again string) error {
	var worst string
	for _, f := range faults {
		if f.Kind == k {
			worst = f.Error()
			break
		}
	}
	worst, _, _ = strings.Cut(worst, "\n")
	hint := "to repeat the schedule: " + again
	if k == verdict.Undecided {
		hint = "repeat it when this machine has less to do: " + again
	}
	return &hinted{err: fmt.Errorf("torture: %s (%d faults)", worst, len(faults)), hint: hint, status: k.Status()}
}

// mayRunOn returns an error if this process may not run on one of the cores. It is called
// before anything is started.
func mayRunOn(cores []int) error {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return nil // the engine reports cores that it may not use
	}
	for _, core := range cores {
		if !allowed.IsSet(core) {
			return usagef("taskset -p $$ shows the cores that this process may run on", "torture: --cores: this process may not run on core %d", core)
		}
	}
	return nil
}

// tortureProgress makes the test show its progress on a terminal. clear erases the line.
func tortureProgress(cfg *torture.Config, w io.Writer) (clear func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	cfg.Progress = func(done, of time.Duration, r *torture.Result) {
		fmt.Fprintf(w, "\r\x1b[K%.0f of %.0f s: %d operations, %d MB, %d clients and %d engines killed ",
			done.Seconds(), of.Seconds(), r.Operations, r.Bytes/1e6, r.Killed.Correct+r.Killed.Hostile,
			r.EngineKills+r.EngineStops)
	}
	return func() { fmt.Fprint(w, "\r\x1b[K") }
}

// printResult prints a result as text for people, or as one JSON object.
func printResult(w io.Writer, r interface {
	Print(w io.Writer) error
	PrintJSON(w io.Writer) error
}, asJSON bool) error {
	if asJSON {
		return r.PrintJSON(w)
	}
	return r.Print(w)
}
