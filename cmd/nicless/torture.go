package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"github.com/nicless/nicless/cmd/nicless/internal/torture"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

const tortureUsage = `Runs an engine and its clients as processes, and hurts them: pairs of clients move
data by every operation and account for each byte and each completion, while
others scribble over their queues, send garbage, take memory away, use up what
there is, or are stopped and killed, and engines are killed under load. What must
never happen is counted: bytes that differ, completions lost, repeated or out of
order, anything that an engine keeps of clients that are gone, a log that fills,
stalls. The exit status is 1 if there was any of it.

A stall is a wait of a correct client of more than 100 ms. It is explained as far
as the scheduler had the client or the engine wait for a core although they were
ready to run (/proc/PID/task/TID/schedstat), and must not be longer than that by
more than 100 ms.

Usage:
  nicless torture [flags]

Flags:
  --seconds N  how long (10); an engine is killed at least twice
  --cores LIST cores that get a thread of the engine each (one thread, anywhere)
  --seed S     of the schedule: who is started and killed, in which order (any)
  --json       one object

Example:
  nicless torture --seconds 60
  nicless torture --seconds 10 --seed 42 --json
`

const processUsage = `Is one of the processes of "nicless torture", which starts it.

Usage:
  nicless torture process

Example:
  nicless torture
`

// mostSeconds is a day.
const mostSeconds = 86400

func newTorture() *cobra.Command {
	var seconds int
	var cores string
	var seed uint64
	var asJSON bool
	c := &cobra.Command{Use: "torture", Short: "hurt an engine and its clients, count what must not happen", Long: tortureUsage, Args: noArguments}
	f := c.Flags()
	f.IntVar(&seconds, "seconds", 10, "how long")
	f.StringVar(&cores, "cores", "", "cores that get a thread of the engine each")
	f.Uint64Var(&seed, "seed", 0, "of the schedule")
	f.BoolVar(&asJSON, "json", false, "one JSON object")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if seconds < 1 || seconds > mostSeconds {
			return usagef("nicless torture --seconds 60", "torture: --seconds %d; 1 to %d are possible", seconds, mostSeconds)
		}
		if !c.Flags().Changed("seed") {
			seed = uint64(rand.Uint32())
		}
		cfg := torture.Config{Seed: seed, Duration: time.Duration(seconds) * time.Second, Argv: []string{os.Args[0], "torture", "process"}}
		var err error
		if cfg.Cores, err = parseCores("torture", "cores", cores); err != nil {
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
		show := r.Print
		if asJSON {
			show = r.PrintJSON
		}
		if err := show(c.OutOrStdout()); err != nil {
			return err
		}
		if !r.OK() {
			again := fmt.Sprintf("nicless torture --seconds %d --seed %d", seconds, seed)
			if cores != "" {
				again += " --cores " + cores
			}
			return hintf(again+" does the same again",
				"torture: %d corruptions, %d lost, %d duplicated, %d reordered, %d faults", r.Corruptions, r.Lost, r.Duplicated, r.Reordered, len(r.Faults))
		}
		return nil
	}
	c.AddCommand(&cobra.Command{
		Use: "process", Short: "one of the processes", Long: processUsage, Args: noArguments, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error { return torture.Process(c.InOrStdin(), c.OutOrStdout()) },
	})
	return c
}

// mayRunOn refuses cores before anything is started on them.
func mayRunOn(cores []int) error {
	var allowed unix.CPUSet
	if unix.SchedGetaffinity(0, &allowed) != nil {
		return nil // the engine will see
	}
	for _, core := range cores {
		if !allowed.IsSet(core) {
			return usagef("taskset -p $$ shows those that it may", "torture: --cores: this process may not run on core %d", core)
		}
	}
	return nil
}

// tortureProgress says on a terminal what has been done; clear takes it away.
func tortureProgress(cfg *torture.Config, w io.Writer) (clear func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	cfg.Progress = func(done, of time.Duration, r *torture.Result) {
		fmt.Fprintf(w, "\r\x1b[K%.0f of %.0f s: %d operations, %d MB, %d clients and %d engines killed ",
			done.Seconds(), of.Seconds(), r.Operations, r.Bytes/1e6, r.Killed.Correct+r.Killed.Chaos, r.EngineKills+r.EngineStops)
	}
	return func() { fmt.Fprint(w, "\r\x1b[K") }
}
