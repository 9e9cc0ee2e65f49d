//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/objects"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
)

const faultUsage = `Sets rules of faults on an engine that runs, for as long as this command runs:
requests of its clients fail, wait or get lost as the rules in FILE say. It
prints a line for each fault when it is made, and at its end how often each rule
has acted. It ends when it is interrupted, after --for, and when the engine
stops.

The rules act on the clients of your user; root and the engine's user can fault
all. They are checked whole before anything changes. docs/FAULTS.md describes
them, and fault/rulefile/schema.json does for editors.

Usage:
  nicless fault [flags] FILE

Flags:
  --socket PATH   socket of the engine (default: that of nicless run; in its
                  programs, also with --private, the one that they use)
  --for D         end after this time, such as 30s or 5m
  --check         only check the rules; no engine is needed

"nicless run --faults FILE" sets rules before a program starts, and "nicless
engine --faults FILE" from the beginning of an engine.

Example:
  nicless fault --check flaky.yaml
  nicless fault flaky.yaml
  nicless fault --socket /run/nicless/engine.sock --for 30s flaky.yaml

A file of rules:
  rules:
    - name: third write fails
      match: {program: ib_write_bw, opcode: RDMA_WRITE, nth: 3}
      complete: {syndrome: remote-access}
`

type faultFlags struct {
	socket string
	most   time.Duration
	check  bool
}

func newFault() *cobra.Command {
	var f faultFlags
	c := &cobra.Command{
		Use:   "fault FILE",
		Short: "make an engine obey rules of faults",
		Long:  faultUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			const hint = `"nicless fault --help" shows a file of rules`
			switch {
			case len(args) != 1:
				return usagef(hint, "fault: one file of rules is needed, %d were given", len(args))
			case c.Flags().Changed("for") && f.most <= 0:
				return usagef("a time such as 30s or 5m", "fault: --for %v", f.most)
			}
			return f.run(c, args[0])
		},
	}
	c.Flags().StringVar(&f.socket, "socket", "", "socket of the engine")
	c.Flags().StringVar(&f.socket, "engine", "", "as --socket, for those who know other commands")
	_ = c.Flags().MarkHidden("engine")
	c.Flags().DurationVar(&f.most, "for", 0, "end after this time")
	c.Flags().BoolVar(&f.check, "check", false, "only check the rules")
	_ = c.MarkFlagFilename("socket")
	return c
}

func (f *faultFlags) run(c *cobra.Command, file string) error {
	r, err := readRules("fault", file)
	if err != nil {
		return err
	}
	if f.check {
		fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", plain(file), number(uint64(len(r.Rules)), "rule"))
		return nil
	}
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if f.most > 0 {
		ctx, stop = context.WithTimeout(ctx, f.most)
		defer stop()
	}
	socket := f.socket
	if socket == "" {
		if socket, err = defaultSocket(); err != nil {
			return err
		}
	}
	engine, err := nicless.Dial(socket)
	if err != nil {
		return hintf("nicless run starts one for its programs; for another engine: --socket PATH", "fault: %w", err)
	}
	defer engine.Close()
	w, err := engine.Watch(nicless.WatchFilter{All: true})
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	defer w.Close()
	faults, err := setRules(engine, r)
	if err != nil {
		return fmt.Errorf("fault: %w", err)
	}
	fmt.Fprintf(c.ErrOrStderr(), "nicless: %s at %s\n", ruleCount(len(r.Rules)), plain(socket))
	watched := printFaults(ctx, c.OutOrStdout(), w, r)
	// The engine would end the rules only when it sees that the connection is closed, which may be after this
	// process has ended.
	err = faults.Close()
	if err == nil {
		acted, _ := faults.Counts() // Close has asked for them
		printCounts(c.OutOrStdout(), "", r, acted)
	}
	return errors.Join(watched, err)
}

// ruleCount says that n rules are set.
func ruleCount(n int) string {
	if n == 1 {
		return "1 rule of faults is set"
	}
	return fmt.Sprintf("%d rules of faults are set", n)
}

// isOf reports whether an explanation can be about one of some rules, and is not only about those that others
// have set. A port goes down, and a GID changes, without words about a rule.
func isOf(rules *fault.Rules, code, words string) bool {
	if code != "fault-injected" {
		return true
	}
	for i := range rules.Rules {
		r := &rules.Rules[i]
		name := r.String()
		if r.Name == "" {
			name = fmt.Sprintf("%d (%s)", i+1, r.Action()) // as the engine has numbered it
		}
		if strings.Contains(words, "by rule "+name) {
			return true
		}
	}
	return false
}

// printFaults prints faults that rules make, as they are made, until ctx ends.
func printFaults(ctx context.Context, out io.Writer, w *nicless.Watch, r *fault.Rules) error {
	var table objects.Table
	var e trace.Event
	for {
		err := w.Next(ctx, &e)
		switch {
		case err == io.EOF:
			return fmt.Errorf("fault: %w", nicless.ErrDeviceGone)
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("fault: %w", err)
		}
		table.Event(&e)
		if e.Kind == trace.KindLost {
			if _, err := fmt.Fprintf(out, "%s of the engine lost, maybe faults too\n", number(e.Value, "event")); err != nil {
				return err
			}
		}
		if e.Kind != trace.KindExplanation {
			continue
		}
		code, words := text.Explanation(&e)
		if !slices.Contains(injected, code) || !isOf(r, code, words) {
			continue
		}
		who := ""
		if c := table.ClientOf(&e); c != nil {
			who = fmt.Sprintf("pid %d (%s) ", c.PID, plain(c.Program()))
		}
		queue := ""
		if n, ok := objects.QueueOf(&e); ok {
			queue = fmt.Sprintf("qp 0x%x wqe %d ", n, e.Index)
		}
		at := w.Clock().Time(e.Time).Format("15:04:05.000000")
		if _, err := fmt.Fprintf(out, "%s %s%s%s\n", at, who, queue, plain(words)); err != nil {
			return fmt.Errorf("fault: standard output: %w", err)
		}
	}
}
