package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/nicless/nicless/sanitize"
	"github.com/nicless/nicless/trace"
	"github.com/spf13/cobra"
)

// statusSanitized is the exit status if the sanitizer has found a mistake, and a program has not ended with
// another status: that of ThreadSanitizer.
const statusSanitized = 66

// sanitizeFlags are the flags of the sanitizer.
type sanitizeFlags struct {
	on, strict, notes bool
}

// options returns the options of the sanitizer for events with a clock.
func (f *sanitizeFlags) options(c trace.Clock) sanitize.Options {
	return sanitize.Options{Clock: c, Strict: f.strict, Notes: f.notes}
}

// add adds the flags to a command.
func (f *sanitizeFlags) add(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.on, "sanitize", false, usage)
	c.Flags().BoolVar(&f.strict, "strict", false, "the programs synchronise by the device alone")
	c.Flags().BoolVar(&f.notes, "notes", false, "also what correct programs may do")
}

// form returns the form in which a trace is shown that otherwise has another form.
func (f *sanitizeFlags) form(other *traceForm, x *eventChoice) (*traceForm, error) {
	switch {
	case !f.on && (f.strict || f.notes):
		return nil, usagef("nicless trace show --sanitize", "trace: --strict or --notes without --sanitize")
	case !f.on:
		return other, nil
	case !x.whole():
		return nil, usagef("mistakes concern several queue pairs and programs",
			"trace: --sanitize excludes --qp, --client and --program")
	case other.name != "text" && other.name != "json":
		return nil, usagef("--format text or json", "trace: --sanitize has no form %s", other.name)
	}
	open := func(w io.Writer, c trace.Clock, _ *traceFlags) (eventWriter, error) {
		return newSanitizeWriter(w, f.options(c), other.name == "json"), nil
	}
	return &traceForm{name: other.name, open: open}, nil
}

// A sanitizeWriter writes what the sanitizer finds in events: as text, or as JSON Lines.
type sanitizeWriter struct {
	s    *sanitize.Sanitizer
	w    io.Writer
	json bool
	err  error

	ours          func(pid uint64) bool // if not nil: reports that name none of these processes are left out
	mine          map[uint32]bool       // the result of ours for each client
	errors, notes uint64                // that were written
	stopped       bool                  // the events have ended because the engine has
}

func newSanitizeWriter(w io.Writer, o sanitize.Options, json bool) *sanitizeWriter {
	return &sanitizeWriter{s: sanitize.New(o), w: w, json: json}
}

// choose leaves out the reports that name none of the processes that ours chooses; nil chooses all.
func (x *sanitizeWriter) choose(ours func(pid uint64) bool) {
	x.ours, x.mine = ours, map[uint32]bool{}
}

func (x *sanitizeWriter) Event(e *trace.Event, _ trace.Clock) error {
	x.stopped = x.stopped || e.Kind == trace.KindEnd && e.Index == 1
	if x.ours != nil && e.Kind == trace.KindClient {
		x.mine[e.Queue] = x.ours(e.Value)
	}
	return x.write(x.s.Event(e))
}

func (x *sanitizeWriter) Close() error { return x.err }

func (x *sanitizeWriter) write(reports []sanitize.Report) error {
	for i := range reports {
		if x.err != nil {
			break
		}
		if !x.concerns(&reports[i]) {
			continue
		}
		if reports[i].Severity == sanitize.Error {
			x.errors++
		} else {
			x.notes++
		}
		if !x.json {
			_, x.err = io.WriteString(x.w, reports[i].String())
			continue
		}
		b, err := json.Marshal(&reports[i])
		if err != nil {
			return err
		}
		_, x.err = x.w.Write(append(b, '\n'))
	}
	return x.err
}

// concerns reports whether a report is of a mistake of a chosen process, or with one. Every report about a
// mistake names a client.
func (x *sanitizeWriter) concerns(r *sanitize.Report) bool {
	return x.ours == nil || len(r.Accesses) == 0 ||
		slices.ContainsFunc(r.Accesses, func(a sanitize.Access) bool { return x.mine[a.Client] })
}

// note says what was found, and what could not be.
func (x *sanitizeWriter) note() string {
	r := x.s.Result()
	s := "sanitizer: " + number(x.errors, "error")
	if x.notes > 0 {
		s += ", " + number(x.notes, "note")
	}
	if r.Repeated > 0 {
		s += fmt.Sprintf("; %d more like these", r.Repeated)
	}
	if r.Dropped > 0 {
		s += fmt.Sprintf("; %d accesses, receives and completions had no room, and mistakes there are not found", r.Dropped)
	}
	if !r.Recorded {
		s += "; the events were not recorded for a sanitizer: they do not say which memory was changed, and which " +
			"completions were taken"
	}
	return s
}

// failure returns an error if there were mistakes.
func (x *sanitizeWriter) failure(name string) error {
	if n := x.errors; n > 0 {
		return &hinted{err: fmt.Errorf("%s: the sanitizer has found %s", name, number(n, "error")),
			hint: "docs/SANITIZER.md describes each", status: statusSanitized}
	}
	return nil
}
