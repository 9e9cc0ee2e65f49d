package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/jsonl"
	"github.com/nicless/nicless/trace/perfetto"
	"github.com/nicless/nicless/trace/text"
)

// An eventWriter writes events in some form.
type eventWriter interface {
	Event(*trace.Event, trace.Clock) error
	Close() error // writes what comes after the last event
}

// A traceForm is a form in which events are written.
type traceForm struct {
	name    string
	endings []string // of files that have it
	binary  bool     // not for terminals
	open    func(io.Writer, trace.Clock, *traceFlags) (eventWriter, error)
}

// traceForms has all forms; the first is the usual one.
var traceForms = []traceForm{
	{"text", []string{".txt"}, false, openText},
	{"json", []string{".jsonl"}, false, openJSON},
	{"perfetto", []string{".pftrace", ".perfetto-trace"}, true, openPerfetto},
	{"pcapng", []string{".pcapng"}, true, openPcapng},
	{"lines", []string{".lines"}, false, openLines},
	{"trace", []string{".nictrace"}, true, openRaw},
}

// chooseForm returns the form of a name, or of the ending of a file.
func chooseForm(name, file string) (*traceForm, error) {
	if name != "" {
		for i := range traceForms {
			if traceForms[i].name == name {
				return &traceForms[i], nil
			}
		}
		return nil, usagef("one of "+strings.Join(formNames(), ", "), "trace: --format %q does not exist", name)
	}
	f, err := formOfFile(file)
	if err != nil {
		return nil, usagef("the endings are "+endings()+"; or --format FORM", "trace: %w", err)
	}
	return f, nil
}

// formOfFile returns the form of the ending of a file's name. For what is no regular file, such as a pipe or
// a terminal, and for no file, it is text.
func formOfFile(file string) (*traceForm, error) {
	for i := range traceForms {
		for _, ending := range traceForms[i].endings {
			if strings.HasSuffix(file, ending) {
				return &traceForms[i], nil
			}
		}
	}
	info, err := os.Stat(file)
	switch {
	case file == "", err == nil && !info.Mode().IsRegular() && !info.IsDir():
		return &traceForms[0], nil
	case file == "-":
		return nil, errors.New("- is no file; /dev/stdout is standard output")
	}
	return nil, fmt.Errorf("the ending of %s says no form", text.Plain(file))
}

// endings returns the endings of files that have a form.
func endings() string {
	var list []string
	for _, f := range traceForms {
		list = append(list, f.endings...)
	}
	return strings.Join(list, ", ")
}

// formNames returns the names of the forms.
func formNames() (list []string) {
	for _, f := range traceForms {
		list = append(list, f.name)
	}
	return list
}

func openText(w io.Writer, _ trace.Clock, f *traceFlags) (eventWriter, error) {
	p := text.New(w)
	if !f.utc {
		p.Zone = time.Local
	}
	return open(p)
}

func openJSON(w io.Writer, _ trace.Clock, _ *traceFlags) (eventWriter, error) {
	return open(jsonl.New(w))
}

func openPerfetto(w io.Writer, _ trace.Clock, _ *traceFlags) (eventWriter, error) {
	return open(perfetto.New(w))
}

// open returns a printer that writes nothing after the last event.
func open(p eventPrinter) (eventWriter, error) { return endless{p}, nil }

type eventPrinter interface {
	Event(*trace.Event, trace.Clock) error
}

type endless struct{ eventPrinter }

func (endless) Close() error { return nil }

// A rawWriter writes a trace.
type rawWriter struct {
	w       *trace.Writer
	last    uint64 // time of the last event
	stopped bool
	ended   bool
}

func openRaw(w io.Writer, c trace.Clock, _ *traceFlags) (eventWriter, error) {
	t, err := trace.NewWriter(w, c)
	return &rawWriter{w: t}, err
}

func (x *rawWriter) Event(e *trace.Event, _ trace.Clock) error {
	x.last = e.Time
	if e.Kind == trace.KindEnd { // the new end counts the events that were chosen
		x.ended, x.stopped = true, e.Index == 1
		return nil
	}
	return x.w.Write(e)
}

func (x *rawWriter) flush() error { return x.w.Flush() }

// Close ends the trace if the one that was read has an end. Otherwise the new one is cut short, too.
func (x *rawWriter) Close() error {
	if !x.ended {
		return x.w.Flush()
	}
	return x.w.Close(x.last, x.stopped)
}
