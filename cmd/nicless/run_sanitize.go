//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/nicless/nicless/trace"
)

// sanitizeProgram prints what the sanitizer finds in what an engine does for the processes that ours chooses,
// or for all if it is nil, until stop is called. stop takes the error with which the program has ended, and
// returns that of this command.
func (f *sanitizeFlags) sanitizeProgram(
	socket string, ours func(pid uint64) bool, w io.Writer,
) (stop func(error) error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	in, err := openWatch(ctx, socket, &eventChoice{sanitize: true})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("--sanitize: %w", err)
	}
	in.eventSource.(*watchSource).onIdle(func() error { return nil })
	x := newSanitizeWriter(w, f.options(in.Clock()), false)
	x.choose(ours)
	ended := make(chan error)
	go func() { ended <- x.read(in) }()
	return func(program error) error {
		cancel() // all that was recorded before is read first
		failure := <-ended
		if failure == nil && x.stopped {
			failure = errors.New("--sanitize: the engine has ended before the program: mistakes after that were not seen")
		}
		failure = errors.Join(failure, in.Close())
		r := x.s.Result()
		if x.errors+x.notes > 0 || r.Dropped > 0 {
			fmt.Fprintf(w, "nicless: %s\n", x.note())
		}
		switch {
		case program != nil && failure != nil:
			fmt.Fprintf(w, "nicless: error: %v\n", failure)
			return program
		case program != nil:
			return program
		case failure != nil:
			return failed(failure)
		}
		return x.failure("run")
	}, nil
}

// read reads events until they end.
func (x *sanitizeWriter) read(in *namedSource) error {
	for n := 0; ; n++ {
		var e trace.Event
		err := in.Next(&e)
		if err == nil {
			err = x.Event(&e, in.Clock())
		} else {
			return errors.Join(in.explain(err, n), x.Close())
		}
		if err != nil {
			return err
		}
	}
}
