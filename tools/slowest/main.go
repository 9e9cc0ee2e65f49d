// Slowest reads the output of go test -json. It prints what go test prints without -v, each failed test as
// soon as it has ended, and at the end a table of the tests that took longest. .ci/times runs it.
//
// A test's seconds are those in which it ran, without those in which it waited for other parallel tests. A
// test whose subtests ran one after the other contains them, so only tests without subtests are in the table.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// rows is how many tests the table has.
const rows = 15

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "slowest:", err)
		os.Exit(1)
	}
}

// An event is a line of go test -json: see go doc test2json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// A name is a test of a package. No test means the package.
type name struct{ pkg, test string }

type result struct {
	name
	seconds float64
}

func run(r io.Reader, w io.Writer) error {
	output := make(map[name]*strings.Builder) // of tests that run
	parents := make(map[name]bool)            // tests with subtests
	var all []result
	for lines := bufio.NewReader(r); ; {
		line, end := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(w, line) // of something else than a test
			} else {
				take(w, e, output, parents, &all)
			}
		}
		if end == io.EOF {
			break
		}
		if end != nil {
			return end
		}
	}
	for of, text := range output { // the process has ended in the middle of these
		fmt.Fprintf(w, "%s %s has not ended:\n%s", of.pkg, of.test, text)
	}
	all = slices.DeleteFunc(all, func(r result) bool { return parents[r.name] })
	slices.SortStableFunc(all, func(a, b result) int {
		switch {
		case a.seconds > b.seconds:
			return -1
		case a.seconds < b.seconds:
			return 1
		}
		return 0
	})
	sum := 0.0
	for _, r := range all {
		sum += r.seconds
	}
	fmt.Fprintf(w, "the slowest of %d tests, which took %.0f s one after the other:\n", len(all), sum)
	for _, r := range all[:min(rows, len(all))] {
		fmt.Fprintf(w, "%8.1f s  %s\n", r.seconds, r.test)
	}
	return nil
}

// take takes an event.
func take(w io.Writer, e event, output map[name]*strings.Builder, parents map[name]bool, all *[]result) {
	of := name{e.Package, e.Test}
	switch e.Action {
	case "run":
		output[of] = new(strings.Builder)
		if i := strings.LastIndex(e.Test, "/"); i >= 0 {
			parents[name{e.Package, e.Test[:i]}] = true
		}
	case "output", "build-output":
		if e.Test != "" && strings.HasPrefix(e.Output, "=== ") {
			return // a test begins, pauses or goes on
		}
		if text := output[of]; text != nil {
			text.WriteString(e.Output)
		} else if e.Output != "PASS\n" {
			fmt.Fprint(w, e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			return
		}
		if text := output[of]; e.Action == "fail" && text != nil {
			fmt.Fprint(w, text)
		}
		delete(output, of)
		if e.Action != "skip" {
			*all = append(*all, result{of, e.Elapsed})
		}
	}
}
