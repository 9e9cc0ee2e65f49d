//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// checkTraceFile returns an error if the name of a file says no form.
func checkTraceFile(file string) error {
	if file == "" {
		return nil
	}
	if _, err := formOfFile(file); err != nil {
		return usagef("the endings are "+endings(), "--trace: %w", err)
	}
	return nil
}

// recordProgram writes to a file what the engine at a socket does for descendants of this process, until stop
// is called; with what a replay, or the sanitizer, needs. The ending of the file's name says in which form.
// stop returns the first error of the file.
func recordProgram(
	socket, file string, replay, sanitize bool, stderr io.Writer,
) (stop func() error, err error) {
	f := &traceFlags{out: file, choice: eventChoice{ours: isDescendant, replay: replay, sanitize: sanitize}}
	form, err := formOfFile(file)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	in, err := openWatch(ctx, socket, &f.choice)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("--trace: %w", err)
	}
	out, err := os.Create(file)
	if err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("--trace: %w", err), in.Close())
	}
	ended := make(chan error)
	go func() { ended <- f.show(in, out, form, stderr) }()
	return func() error {
		cancel() // all that was recorded before is read first
		return errors.Join(<-ended, in.Close(), out.Close())
	}, nil
}

// isDescendant reports whether a process is a descendant of this one, or has ended already: then nobody knows
// whether it was one.
func isDescendant(pid uint64) bool {
	self := uint64(os.Getpid())
	for pid != self {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return true
		}
		// The parent's id is the second field after the name, which is in parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 {
			return true
		}
		pid, err = strconv.ParseUint(string(fields[1]), 10, 64)
		if err != nil || pid <= 1 {
			return false
		}
	}
	return true
}
