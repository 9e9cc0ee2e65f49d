//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nicless/nicless/tools/explore"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// usualRuns is how many runs nicless torture --explore makes: they take some seconds, and a fault that one
// work request in a thousand shows is found.
const usualRuns = 1000

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
	if x.runs < 1 || x.runs > explore.MostRuns {
		return usagef("nicless torture --explore 1 --runs 1000", "torture: --runs %d; 1 to %d are possible", x.runs, explore.MostRuns)
	}
	if x.seed > explore.MostSeed {
		return usagef("nicless torture --explore 1", "torture: --explore %d; at most %d is possible, so that the seeds that follow are",
			x.seed, uint64(explore.MostSeed))
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
	if err := mayWrite(x.file(x.seed)); err != nil {
		return fmt.Errorf("torture: the trace of a run that fails cannot be written: %w", err)
	}
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // one more signal ends the process
	clear := exploreProgress(&cfg, c.ErrOrStderr())
	if x.shrink {
		cfg.Failing = func(r *explore.Result) {
			clear()
			fmt.Fprintf(c.ErrOrStderr(), "nicless: note: seed %d fails: %s; it is shortened now\n",
				*r.Failed, text.Plain(r.Fault.Error()))
		}
	}
	r, err := explore.Explore(ctx, cfg)
	clear()
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	var unsaved error
	if !r.OK() {
		unsaved = x.save(r)
	}
	if err := printResult(c.OutOrStdout(), r, asJSON); err != nil {
		return err
	}
	switch {
	case r.OK() && ctx.Err() != nil:
		return &hinted{err: fmt.Errorf("torture: interrupted after %d runs, which are OK", r.Runs), status: interrupted}
	case r.OK():
		return nil
	}
	return x.failure(r, unsaved)
}

// interrupted is the exit status of a search that a signal ended before it found something, as a shell has
// it for SIGINT.
const interrupted = 130

// failure returns the error that says which run fails, and how it can be repeated. unsaved is why it has
// no trace; nil: it has one.
func (x *exploring) failure(r *explore.Result, unsaved error) error {
	with := ""
	if x.faults != "" {
		with = " --faults " + text.Plain(x.faults)
	}
	again := fmt.Sprintf("nicless torture --explore %d --runs 1", *r.Failed)
	h := &hinted{status: r.Verdict.Status()}
	if unsaved != nil {
		h.err = fmt.Errorf("torture: seed %d fails (%w), and its trace cannot be written: %w", *r.Failed, r.Fault, unsaved)
		h.hint = "to repeat it: " + again + with
		return h
	}
	h.err = fmt.Errorf("torture: seed %d: %w", *r.Failed, r.Fault)
	h.hint = "to repeat it: nicless replay " + text.Plain(r.Trace)
	if !x.shrink {
		h.hint += "\n      to shorten it: " + again + " --shrink" + with
	}
	return h
}

// file returns where the trace of a run goes that fails.
func (x *exploring) file(seed uint64) string {
	if x.out != "" {
		return x.out
	}
	return fmt.Sprintf("explore-%d.nictrace", seed)
}

// mayWrite returns an error if a file cannot be written, and leaves everything as it is.
func mayWrite(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular() && !info.IsDir():
		return nil // to open a pipe may wait for its reader
	case err == nil:
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(name))
}

// save writes the trace of the run that fails.
func (x *exploring) save(r *explore.Result) error {
	name := x.file(*r.Failed)
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(r.Record.Write(f), f.Close()); err != nil {
		return err
	}
	r.Trace = name
	return nil
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

// unable is the exit status of a run that cannot be made: git bisect run skips such a version.
const unable = 125

// repeat does a run again that a trace has, and prints what it has found. The exit status is that of the
// fault, and 0 if the trace has a fault that does not come again, whatever else differs then. So a search for
// the change that has made the fault (git bisect run) knows.
func repeat(shown string, rec *explore.Record, stdout io.Writer) error {
	o, diff, err := rec.Repeat()
	if err != nil {
		return &hinted{err: fmt.Errorf("replay: %s: %w", shown, err), status: unable}
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
		fmt.Fprintf(stdout, "fault: %s: %v\n  expected  %s\n  found     %s\n", text.Plain(o.Fault.Who), o.Fault.Kind,
			text.Plain(o.Fault.Expected), text.Plain(o.Fault.Found))
	}
	switch {
	case o.Fault != nil:
		return &hinted{status: o.Fault.Kind.Status()}
	case rec.Fault != nil:
		fmt.Fprintf(stdout, "gone: %s\n", text.Plain(rec.Fault.String()))
	case diff != nil:
		return errDiffers
	}
	return nil
}
