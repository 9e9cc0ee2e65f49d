//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/tools/explore"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// usualRuns is how many runs nicless torture --explore makes: they take some seconds, and a fault that one
// work request in a thousand shows is found.
const usualRuns = 1000

// mostRuns is the most runs: more than a week's.
const mostRuns = 1 << 30

// exploring is what the flags of nicless torture --explore say.
type exploring struct {
	seed   uint64
	runs   int
	time   time.Duration
	shrink bool
	out    string
	faults string
}

func (x *exploring) flags(f *pflag.FlagSet) {
	f.Uint64Var(&x.seed, "explore", 0, "first seed of the runs that are drawn")
	f.IntVar(&x.runs, "runs", usualRuns, "at most so many runs")
	f.BoolVar(&x.shrink, "shrink", false, "shorten the run that fails")
	f.StringVar(&x.out, "out", "", "file of the trace of the run that fails")
	f.StringVar(&x.faults, "faults", "", "file of rules that the checks are not told of")
}

// check refuses flags that do not belong together.
func (x *exploring) check(c *cobra.Command) error {
	explored := c.Flags().Changed("explore")
	for _, name := range []string{"runs", "shrink", "out", "faults"} {
		if !explored && c.Flags().Changed(name) {
			return usagef("nicless torture --explore 1 --"+name,
				"torture: --%s is for runs that are drawn (--explore)", name)
		}
	}
	for _, name := range []string{"seed", "cores", "links"} {
		if explored && c.Flags().Changed(name) {
			return usagef("nicless torture --explore 1",
				"torture: --explore draws everything from its own seed; --%s is for real processes", name)
		}
	}
	if x.runs < 1 || x.runs > mostRuns {
		return usagef("nicless torture --explore 1 --runs 1000", "torture: --runs %d; 1 to %d are possible", x.runs, mostRuns)
	}
	return nil
}

func (x *exploring) run(c *cobra.Command, asJSON bool) error {
	cfg := explore.Config{Seed: x.seed, Runs: x.runs, Time: x.time, Shrink: x.shrink}
	if x.time > 0 && !c.Flags().Changed("runs") {
		cfg.Runs = 0
	}
	rules, err := readRules("torture", x.faults)
	if err != nil {
		return err
	}
	if rules != nil {
		cfg.Planted = &explore.Plant{Rules: rules}
	}
	clear := exploreProgress(&cfg, c.ErrOrStderr())
	r, err := explore.Explore(c.Context(), cfg)
	clear()
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if !r.OK() {
		if err := x.save(r); err != nil {
			return err
		}
	}
	if err := printResult(c.OutOrStdout(), r, asJSON); err != nil || r.OK() {
		return err
	}
	hint := "to repeat it: nicless replay " + text.Plain(r.Trace)
	if !x.shrink {
		hint += fmt.Sprintf("\n      to shorten it: nicless torture --explore %d --runs 1 --shrink", r.Failed)
		if x.faults != "" {
			hint += " --faults " + text.Plain(x.faults)
		}
	}
	err = fmt.Errorf("torture: seed %d: %w", r.Failed, r.Fault)
	return &hinted{err: err, hint: hint, status: r.Verdict.Status()}
}

// save writes the trace of the run that fails.
func (x *exploring) save(r *explore.Result) (err error) {
	r.Trace = x.out
	if r.Trace == "" {
		r.Trace = fmt.Sprintf("explore-%d.nictrace", r.Failed)
	}
	f, err := os.Create(r.Trace)
	if err != nil {
		return fmt.Errorf("torture: seed %d fails (%w), and its trace cannot be written: %w", r.Failed, r.Fault, err)
	}
	return errors.Join(r.Record.Write(f), f.Close())
}

// exploreProgress makes the runs show their progress on a terminal. clear erases the line.
func exploreProgress(cfg *explore.Config, w io.Writer) (clear func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	cfg.Progress = func(r *explore.Result) {
		fmt.Fprintf(w, "\r\x1b[K%d runs in %.0f s: %d work requests, %d completions ", r.Runs, r.Took.Seconds(),
			r.Done.Work, r.Done.Completions)
	}
	return func() { fmt.Fprint(w, "\r\x1b[K") }
}

// repeat does a run again that a trace has, and prints what it has found. The exit status is that of the
// fault, so that a search for the change that has mended it (git bisect run) knows.
func repeat(shown string, rec *explore.Record, stdout io.Writer) error {
	o, diff, err := rec.Repeat()
	if err != nil {
		return fmt.Errorf("replay: %s: %w", shown, err)
	}
	if diff != nil {
		fmt.Fprintf(stdout, "%s\n", text.Plain(diff.String()))
	}
	result := "the same"
	if diff != nil {
		result = "it differs"
	}
	fmt.Fprintf(stdout, "%s: %s: seed %d, %d steps, %d WQEs, %d completions, %d events\n", shown, result, rec.Plan.Seed,
		len(rec.Plan.Steps), o.Seen.Work, o.Seen.Completions, o.Seen.Events)
	if o.Fault != nil {
		fmt.Fprintf(stdout, "fault: %s\n", text.Plain(o.Fault.String()))
	}
	switch {
	case diff != nil:
		if o.Fault == nil && rec.Fault != nil {
			fmt.Fprintf(stdout, "gone: %s\n", text.Plain(rec.Fault.String()))
		}
		return errDiffers
	case o.Fault != nil:
		return &hinted{status: verdict.Worst([]*verdict.Fault{o.Fault}).Status()}
	}
	return nil
}
