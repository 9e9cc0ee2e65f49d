package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
)

// An eventSource has events, in the order of their times.
type eventSource interface {
	// Clock returns the clock of the events' times.
	Clock() trace.Clock

	// Next reads the next event, whose data are valid until the next call. After the last one it returns
	// io.EOF.
	Next(*trace.Event) error
}

// A namedSource is a source whose errors name it.
type namedSource struct {
	eventSource
	io.Closer
	name string
	live bool // the events are those of an engine that runs, and are recorded
}

// openTrace opens a file with a trace; "-" is standard input.
func openTrace(name string, stdin io.Reader) (*namedSource, error) {
	s := &namedSource{name: text.Plain(name)}
	in := stdin
	if name == "-" {
		s.name, s.Closer = "standard input", io.NopCloser(nil)
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		in, s.Closer = file, file
	}
	r, err := trace.NewReader(in)
	if err != nil {
		s.Close()
		return nil, s.explain(err, 0)
	}
	s.eventSource = r
	return s, nil
}

// explain returns the error with which a source has ended after n events.
func (s *namedSource) explain(err error, n int) error {
	var damaged *trace.RecordError
	switch {
	case err == io.EOF:
		return nil
	case errors.Is(err, trace.ErrCut):
		return hintf(fmt.Sprintf("events shown: %d", n), "%s: %w", s.name, err)
	case errors.As(err, &damaged):
		return hintf(fmt.Sprintf("events shown: %d; what comes after cannot be read", n),
			"%s: %w", s.name, err)
	}
	return fmt.Errorf("%s: %w", s.name, err)
}
