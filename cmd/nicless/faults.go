//go:build linux && (amd64 || arm64)

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/fault"
	"github.com/nicless/nicless/fault/rulefile"
)

// readRules reads a file of rules of faults for a command; "" is none. Rules with a mistake are an error of
// the command line.
func readRules(command, file string) (*fault.Rules, error) {
	if file == "" {
		return nil, nil
	}
	r, err := rulefile.Read(file)
	var wrong rulefile.Errors
	switch {
	case errors.As(err, &wrong):
		text := plainLines(wrong.Error())
		return nil, usagef("docs/FAULTS.md describes the rules; nicless fault --check FILE checks them", "%s: rules of faults:\n%s", command, text)
	case err != nil:
		return nil, usagef("docs/FAULTS.md describes the rules", "%s: rules of faults: %w", command, err)
	}
	return r, nil
}

// setRules sets rules at the engine of a client.
func setRules(c *nicless.Context, r *fault.Rules) (*nicless.Faults, error) {
	f, err := c.Faults(*r)
	if errors.Is(err, nicless.ErrUnsupported) {
		return nil, hintf("the engine must be at least as new as this command", "%w", err)
	}
	return f, err
}

// printCounts says how often each rule has acted.
func printCounts(w io.Writer, prefix string, r *fault.Rules, acted []uint64) {
	for i := range r.Rules {
		times := number(acted[i], "time")
		if acted[i] == 0 {
			times = "never"
		}
		fmt.Fprintf(w, "%srule %d, %s: %s\n", prefix, i+1, plain(r.Rules[i].String()), times)
	}
}

// runFaults sets rules at the engine at a socket, until stop is called, which says how often they have acted.
func runFaults(socket string, r *fault.Rules, stderr io.Writer) (stop func(), err error) {
	c, err := nicless.Dial(socket)
	if err != nil {
		return nil, fmt.Errorf("--faults: %w", err)
	}
	f, err := setRules(c, r)
	if err != nil {
		return nil, fmt.Errorf("--faults: %w", errors.Join(err, c.Close()))
	}
	return func() {
		acted, err := f.Counts()
		if err == nil {
			printCounts(stderr, "nicless: faults: ", r, acted)
		}
		if err = errors.Join(err, f.Close(), c.Close()); err != nil {
			fmt.Fprintf(stderr, "nicless: error: --faults: %v\n", err)
		}
	}, nil
}
