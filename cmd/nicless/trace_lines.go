package main

import (
	"fmt"
	"io"

	"github.com/nicless/nicless/model"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/lines"
)

// A linesWriter writes the accesses to cache lines that follow from a trace.
type linesWriter struct {
	*lines.Maker
	w    io.Writer
	full bool
}

func openLines(w io.Writer, _ trace.Clock, _ *traceFlags) (eventWriter, error) {
	return &linesWriter{Maker: lines.New(), w: w}, nil
}

func (x *linesWriter) Close() error {
	t, full := x.Trace()
	x.full = full
	return model.WriteTrace(x.w, t)
}

// note says what is missing.
func (x *linesWriter) note() string {
	if !x.full {
		return ""
	}
	return fmt.Sprintf("only the beginning of the trace is written: the form has room for %d accesses to %d lines",
		lines.MostAccesses, lines.MostLines)
}
