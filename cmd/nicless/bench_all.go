//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/nicless/nicless/tools/bench"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const benchAllUsage = `Measures every figure that nicless promises and prints a table. A row has the
figure, the floor (the least time that the same two cores need, measured in the
same run), the ratio of the two, the target, and whether the target is met. This
takes a minute or two. The machine should do nothing else; the lines above the
table say whether other programs used the cores, or their hyperthread siblings.
A second table has the percentiles of single operations, to p99.99.
An engine that serves several clients, or that may sleep, runs as a child
process.

Usage:
  nicless bench all [flags]

Flags:
  --rows REGEXP     only rows whose names match (default: all)
  --runs N          samples of each row; the median is reported (default: 5)
  --client-cpu N    core that posts and polls (default: the first core that is
                    allowed)
  --engine-cpu N    core of the engine and of the floor's other side (default:
                    the second core that is allowed)
  --list            print the names of the rows and measure nothing
  --markdown        print the table in Markdown
  --json            print one JSON object, with every sample
  --benchstat       print every sample in the form that benchstat reads
  --baseline FILE   compare each row with FILE, an earlier output of --json, and
                    print whether the two differ by more than the spread of both
  --plot FILE.svg   instead of the table, measure latency for each size and rate
                    for each doorbell batch, and draw them beside the floor and
                    other software, in FILE-latency.svg and FILE-rate.svg

Example:
  nicless bench all
  nicless bench all --rows '^(write|rate)' --runs 21
  nicless bench all --json > before.json
  nicless bench all --baseline before.json
  nicless bench all --benchstat > now.txt && benchstat -col /of now.txt
  nicless bench all --plot docs/plots/this.svg
`

func newBenchAll() *cobra.Command {
	var cfg bench.AllConfig
	var rows, baseline, plot string
	var list, markdown, asJSON, benchstat bool
	c := &cobra.Command{Use: "all", Short: "every promised figure, beside its floor and target", Long: benchAllUsage, Args: noArguments}
	f := c.Flags()
	f.StringVar(&rows, "rows", "", "names of rows")
	f.IntVar(&cfg.Runs, "runs", 5, "samples")
	f.IntVar(&cfg.ClientCPU, "client-cpu", unset, "core that posts and polls")
	f.IntVar(&cfg.EngineCPU, "engine-cpu", unset, "core of the engine")
	f.BoolVar(&list, "list", false, "names of the rows")
	f.BoolVar(&markdown, "markdown", false, "a table for a document")
	f.BoolVar(&asJSON, "json", false, "one JSON object")
	f.BoolVar(&benchstat, "benchstat", false, "lines that benchstat reads")
	f.StringVar(&baseline, "baseline", "", "an earlier table")
	f.StringVar(&plot, "plot", "", "a drawing to write")
	_ = c.MarkFlagFilename("baseline", "json")
	_ = c.MarkFlagFilename("plot", "svg")
	c.RunE = func(c *cobra.Command, _ []string) error {
		out := c.OutOrStdout()
		cfg.Sweeps = plot != ""
		if list {
			_, err := fmt.Fprintln(out, strings.Join(cfg.RowNames(), "\n"))
			return err
		}
		if cfg.Runs == 0 {
			return usagef("leave it out for the default", "bench: runs 0; at least 1 is possible")
		}
		if markdown && asJSON {
			return usagef("--markdown or --json", "bench: --markdown and --json are two forms of one table")
		}
		if benchstat && (markdown || asJSON) {
			return usagef("--benchstat alone", "bench: --benchstat, --markdown and --json are forms of one table")
		}
		if baseline != "" && (markdown || asJSON || benchstat) {
			return usagef("measure once with --json, then with --baseline", "bench: --baseline prints another table and takes neither --markdown nor --json")
		}
		if plot != "" && filepath.Ext(plot) != ".svg" {
			return usagef("--plot FILE.svg", "bench: --plot %q is not the name of an SVG file", plot)
		}
		if dir := filepath.Dir(plot); missing(dir) {
			return hintf("make it first: mkdir -p "+dir, "bench: --plot %s: directory %s does not exist", plot, dir)
		}
		before, err := readTable(baseline)
		if err != nil {
			return err
		}
		if rows != "" {
			var err error
			cfg.Rows, err = regexp.Compile(rows)
			if err != nil {
				return usagef(`"nicless bench all --list" names the rows`, "bench: --rows: %w", err)
			}
		}
		place := bench.Config{ClientCPU: cfg.ClientCPU, EngineCPU: cfg.EngineCPU}
		if err := placeCores(&place); err != nil {
			return err
		}
		cfg.ClientCPU, cfg.EngineCPU = place.ClientCPU, place.EngineCPU
		if err := cfg.Complete(); err != nil {
			return usagef(`"nicless bench all --help" lists the flags, --list the rows`, "%w", err)
		}
		clear := showRow(&cfg, c.ErrOrStderr())
		// so that engines are stopped too
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		t, err := bench.All(ctx, cfg)
		clear()
		if err == nil && plot != "" {
			err = draw(t, strings.TrimSuffix(plot, ".svg"))
		}
		switch {
		case errors.Is(err, bench.ErrRealtime):
			return hintf("chrt -o 0 nicless bench all; or, for the rows with an engine in this process, --rows '^(write|read|send|fetch|rate|bw)'", "%w", err)
		case err != nil:
			return err
		case before != nil:
			return t.PrintChanges(out, before)
		case asJSON:
			return t.PrintJSON(out)
		case benchstat:
			return t.PrintBenchstat(out)
		case markdown:
			return t.PrintMarkdown(out)
		}
		return t.Print(out)
	}
	return c
}

// readTable reads an earlier table from a file. If path is empty, it returns nil.
func readTable(path string) (*bench.Table, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, hintf("nicless bench all --json > "+path, "bench: --baseline: %w", err)
	}
	defer f.Close()
	t, err := bench.ReadTable(f)
	if err != nil {
		return nil, hintf("nicless bench all --json writes one", "%s: %w", path, err)
	}
	return t, nil
}

// draw writes the plots of a table of sweeps.
func draw(t *bench.Table, name string) error {
	for _, p := range []struct {
		of    string
		write func(io.Writer) error
	}{{"-latency.svg", t.PlotLatency}, {"-rate.svg", t.PlotRate}} {
		var b bytes.Buffer
		if err := p.write(&b); err != nil {
			return err
		}
		if err := os.WriteFile(name+p.of, b.Bytes(), 0o644); err != nil {
			return fmt.Errorf("bench: plot: %w", err)
		}
	}
	return nil
}

// showRow makes a measurement show on a terminal which row is measured. clear erases the
// line.
func showRow(cfg *bench.AllConfig, w io.Writer) (clear func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	cfg.Progress = func(row string, run, runs int) { fmt.Fprintf(w, "\r\x1b[K%s: run %d of %d ", row, run, runs) }
	return func() { fmt.Fprint(w, "\r\x1b[K") }
}
