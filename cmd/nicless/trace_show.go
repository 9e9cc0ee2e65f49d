package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const traceShowUsage = `Shows a trace of a file, or with "-" of standard input, of any length in little
memory. A trace that is cut short or damaged is shown as far as it is whole.

Usage:
  nicless trace show FILE|- [flags]

Which events:
  --qp N            those of one queue pair, such as 81 or 0x51
  --client PID      those of the clients of one process
  --program NAME    those of the clients with this name
  These exclude each other. Without one of them, all events are shown. Events
  about links and about lost events are always shown.

Output:
  --format FORM     one of these forms (default: by the ending of FILE, which
                    follows each form here, and has to be one of them if it is
                    a regular file; text without FILE):
                    text      .txt       a line for each event
                    json      .jsonl     a JSON object for each event
                    perfetto  .pftrace   timelines for ui.perfetto.dev: a slice
                                         for each WQE, from its doorbell to its
                                         completion
                    pcapng    .pcapng    packets for Wireshark: those of links,
                                         and what was done in memory as the
                                         packets that it would have been
                    lines     .lines     accesses to cache lines, which nicless
                                         model --trace prices
                    trace     .nictrace  a trace, which has the events that
                                         the flags choose
  -o, --out FILE    write to FILE (default: standard output)
  --cut             pcapng: cut off payload that the trace does not have,
                    instead of zeros in its place. Wireshark names the
                    operations of such packets only in the details
  --utc             times of the text in UTC (default: local time)

Mistakes:
  --sanitize        in place of events, show races and misuse (SANITIZER.md), as
                    text or json. "nicless trace --sanitize" and "nicless run
                    --sanitize --trace FILE" record all that it needs
  --strict          the programs synchronise by nothing but the device: no
                    sockets, no memory that processes share
  --notes           also what correct programs may do

The exit status is 1 if the trace is cut short or damaged, and 66 if --sanitize
has found a mistake.

Example:
  nicless trace show put.nictrace --qp 0x51
  nicless trace show put.nictrace -o put.pftrace
  nicless trace show put.nictrace --sanitize
  nicless trace show put.nictrace --format lines | nicless model --trace -
  nicless trace show put.nictrace --format pcapng | tshark -r -
`

// A traceFlags has the flags of nicless trace show.
type traceFlags struct {
	choice eventChoice
	form   string
	out    string
	utc    bool
	cut    bool

	sanitizer sanitizeFlags
}

func newTraceShow() *cobra.Command {
	var f traceFlags
	c := &cobra.Command{
		Use:   "show FILE|-",
		Short: "show a trace as text, JSON, timelines, packets or lines",
		Long:  traceShowUsage,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("nicless trace show FILE, or - for standard input",
					"trace: one file is needed, %d arguments were given", len(args))
			}
			return f.run(c, args[0], func() (*namedSource, error) {
				return openTrace(args[0], c.InOrStdin())
			})
		},
	}
	f.add(c)
	f.sanitizer.add(c, "show mistakes")
	return c
}

// add adds the flags that nicless trace and nicless trace show have.
func (f *traceFlags) add(c *cobra.Command) {
	g := c.Flags()
	g.StringVar(&f.choice.qp, "qp", "", "queue pair")
	g.StringVar(&f.choice.pid, "client", "", "process id of clients")
	g.StringVar(&f.choice.program, "program", "", "name of clients")
	g.StringVar(&f.form, "format", "", "form of the output")
	g.StringVarP(&f.out, "out", "o", "", "file to write to")
	g.BoolVar(&f.cut, "cut", false, "cut off payload that is not known")
	g.BoolVar(&f.utc, "utc", false, "times in UTC")
	_ = c.RegisterFlagCompletionFunc("format",
		cobra.FixedCompletions(formNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = c.MarkFlagFilename("out")
}

// run shows the events of a source, which has the name of a file or none.
func (f *traceFlags) run(
	c *cobra.Command, name string, open func() (*namedSource, error),
) (err error) {
	form, err := chooseForm(f.form, f.out)
	if err != nil {
		return err
	}
	if err = f.choice.parse(); err != nil {
		return err
	}
	if form, err = f.sanitizer.form(form, &f.choice); err != nil {
		return err
	}
	stdout := c.OutOrStdout()
	if f.out == "" && form.binary && isTerminal(stdout) {
		return usagef("-o FILE", "trace: the form %s is not for a terminal", form.name)
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	out := stdout
	if f.out != "" {
		if sameFile(name, f.out) {
			return usagef("-o another file", "trace: %s is the trace itself", text.Plain(f.out))
		}
		file, failed := os.Create(f.out)
		if failed != nil {
			return fmt.Errorf("trace: %w", failed)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	return f.show(in, out, form, c.ErrOrStderr())
}

// show writes all events of a source that the flags choose.
func (f *traceFlags) show(in *namedSource, out io.Writer, form *traceForm, stderr io.Writer) error {
	b := bufio.NewWriterSize(out, 1<<20) // few system calls, also for gigabytes of text
	w, err := form.open(b, in.Clock(), f)
	if err != nil {
		return f.outError(err, 0)
	}
	if x, ok := in.eventSource.(interface{ onIdle(func() error) }); ok {
		x.onIdle(func() error { return flush(w, b) })
	}
	n, readErr := 0, error(nil)
	var written recordTally
	for {
		var e trace.Event
		if readErr = in.Next(&e); readErr != nil {
			break
		}
		err = f.choice.pass(&e, func(e *trace.Event) error {
			n++
			written.add(e)
			return w.Event(e, in.Clock())
		})
		if err != nil {
			return f.outError(err, n)
		}
	}
	// All that was whole is shown, also if the source has ended with an error.
	if err = w.Close(); err == nil { // else b has the same error
		err = b.Flush()
	}
	if err != nil {
		return f.outError(err, n)
	}
	notes := []string{f.choice.unmatched()}
	if x, ok := w.(interface{ note() string }); ok {
		notes = append(notes, x.note())
	}
	if in.live && (f.out != "" || written.lost > 0) {
		notes = append(notes, written.note(f.out))
	}
	for _, text := range notes {
		if text != "" {
			fmt.Fprintf(stderr, "nicless: note: %s\n", text)
		}
	}
	if x, ok := w.(*sanitizeWriter); ok && readErr == io.EOF {
		return x.failure("trace")
	}
	return in.explain(readErr, n)
}

// flush writes what a writer has kept, so that somebody who reads along sees it.
func flush(w eventWriter, b *bufio.Writer) error {
	if x, ok := w.(interface{ flush() error }); ok {
		if err := x.flush(); err != nil {
			return err
		}
	}
	return b.Flush()
}

// outError returns an error of the output after n events.
func (f *traceFlags) outError(err error, n int) error {
	if f.out == "" {
		return fmt.Errorf("trace: standard output, at event %d: %w", n, err)
	}
	return hintf("the file ends before that event", "trace: %s, at event %d: %w", text.Plain(f.out), n, err)
}

// sameFile reports whether two names are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// isTerminal reports whether a stream is one of a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
