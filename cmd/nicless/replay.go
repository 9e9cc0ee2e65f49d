//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nicless/nicless/tools/explore"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/replay"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
)

const replayUsage = `Does again what a trace says that a device has done, on a fresh device, and
compares: each completion byte by byte, and the bytes at the destination of each
message. So a trace is a regression test. It has to be recorded for this:

  nicless run --trace put.nictrace --replay -- ./put
  nicless trace --program put --replay --out put.nictrace

Usage:
  nicless replay FILE...

The fresh device gives objects the numbers, keys and addresses of the trace.
Each WQE is posted when the trace says that it was executed, after its payload
and its receive were put where they were. Time stamps and signatures of
completions are not compared.

Queue pairs of RC, UC and UD are replayed, with shared receive queues. Others
are left out, as are those whose peer is on a link or not in the trace, and
those that the trace does not have from their beginning; a note names them.
Rules of faults that the recorded device obeyed are not replayed.

A trace of "nicless torture --explore" has the plan of its run. The plan is
executed again, and all events and the fault are compared. If a fault comes,
the exit status is that of nicless torture; if the fault of the trace is gone,
it is 0, whatever else differs; if the run cannot be made, it is 125. "git
bisect run" wants it so.

The exit status is 1 if something differs, or if a trace is damaged, was not
recorded for a replay, or has nothing that can be replayed.

Example:
  nicless run --private --trace put.nictrace --replay -- ./put
  nicless replay put.nictrace
`

// errDiffers is returned when everything that there is to say was printed.
var errDiffers = &hinted{status: 1}

func newReplay() *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE...",
		Short: "post a recorded trace to a fresh device, and compare",
		Long:  replayUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("nicless replay FILE", "replay: the trace is missing")
			}
			var failed error
			for _, name := range args {
				err := replayFile(name, c.OutOrStdout(), c.ErrOrStderr())
				switch {
				case len(args) == 1:
					return err
				case err != nil:
					complain(c.ErrOrStderr(), err)
					failed = errDiffers
				}
			}
			return failed
		},
	}
}

// replayFile replays a trace and prints what it has found.
func replayFile(name string, stdout, stderr io.Writer) error {
	if name == "-" {
		return usagef("a replay reads the trace twice", "replay: - is no file")
	}
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	defer f.Close()
	shown := text.Plain(name)
	rec, err := explore.Read(f)
	switch {
	case err != nil && rec != nil: // a plan that this version does not understand
		return &hinted{err: fmt.Errorf("replay: %s: %w", shown, err), status: unable}
	case err != nil:
		return fmt.Errorf("replay: %s: %w", shown, err)
	}
	if rec != nil {
		return repeat(shown, rec, stdout)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("replay: %s: %w", shown, err)
	}
	r, err := replay.Run(f, replay.Options{})
	switch {
	case errors.Is(err, replay.ErrNotRecorded):
		return hintf("record it with nicless run --trace FILE --replay, or with nicless trace --replay",
			"replay: %s: %w", shown, err)
	case errors.Is(err, trace.ErrCut):
		return hintf("nicless trace show prints a trace as far as it is whole", "replay: %s: %w", shown, err)
	case err != nil:
		return fmt.Errorf("replay: %s: %w", shown, err)
	}
	for _, d := range r.Differences {
		fmt.Fprintf(stdout, "event %d: %s\n", d.Event, text.Plain(d.Where+": "+d.What))
		for _, v := range d.Diffs {
			fmt.Fprintf(stdout, "  %s: recorded %s, replayed %s\n", text.Plain(v.Name), text.Plain(v.Recorded), text.Plain(v.Replayed))
		}
	}
	if n := r.Different - uint64(len(r.Differences)); n > 0 {
		fmt.Fprintf(stdout, "and %d more\n", n)
	}
	for _, q := range r.LeftOut {
		fmt.Fprintf(stderr, "nicless: note: qp 0x%x is left out: %s\n", q.Queue, text.Plain(q.Why))
	}
	nothing := r.WQEs == 0 && (r.CQEs == 0 || len(r.LeftOut) > 0)
	result := "the same"
	switch {
	case !r.Same():
		result = fmt.Sprintf("%d differences", r.Different)
	case nothing:
		result = "nothing was compared"
	}
	unseen := ""
	if r.Unseen > 0 {
		unseen = fmt.Sprintf(", %d messages not compared", r.Unseen)
	}
	fmt.Fprintf(stdout, "%s: %s: %d WQEs, %d completions, %d messages of %d bytes%s\n", shown, result, r.WQEs, r.CQEs,
		r.Messages, r.Bytes, unseen)
	if r.Unseen > 0 {
		fmt.Fprintf(stderr, "nicless: note: the bytes of %d messages were not compared: they overlap, or go to windows, lists or CQEs\n", r.Unseen)
	}
	switch {
	case !r.Same():
		return errDiffers
	case nothing:
		return fmt.Errorf("replay: %s: it has nothing that can be replayed", shown)
	}
	return nil
}
