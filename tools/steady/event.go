//go:build linux

package steady

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// mostOutput is how much output of a failed test is kept: its end. A dump of all goroutines fits.
const mostOutput = 256 << 10

// An event is a line of go tool test2json.
type event struct{ Action, Test, Output string }

// A verdict is a test that failed, with its output. No name means the package: what its process
// printed outside tests.
type verdict struct{ test, output string }

// A tally counts tests, with their subtests. Those that skip have not run.
type tally struct{ ran, skipped int }

func (n *tally) count(e event) {
	switch {
	case e.Test == "": // the package
	case e.Action == "skip":
		n.skipped++
	case e.Action == "pass" || e.Action == "fail":
		n.ran++
	}
}

// parse reads the events of one test binary and returns what failed, and how many tests ran. A test whose
// subtest failed is left out. ended says how the process ended, "" if with status 0. Whatever it says, tests
// that have begun and not ended failed too, because the process ended in the middle of them: a test that
// calls exit may do so with 0.
func parse(r io.Reader, ended string) (failed []verdict, n tally, err error) {
	output := make(map[string]*bytes.Buffer)
	open := make(map[string]bool) // tests that have begun and not ended
	bad := make(map[string]bool)
	var order []string
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				e = event{Action: "output", Output: string(line)} // printed by something else than a test
			}
			if output[e.Test] == nil {
				output[e.Test] = new(bytes.Buffer)
				order = append(order, e.Test)
			}
			n.count(e)
			switch e.Action {
			case "output":
				output[e.Test].WriteString(e.Output)
			case "run":
				open[e.Test] = true
			case "pass", "skip":
				delete(open, e.Test)
			case "fail":
				delete(open, e.Test)
				bad[e.Test] = true
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, n, err
		}
	}
	for test := range open {
		if test != "" {
			bad[test] = true
			output[test].WriteString("\nthe process ended while this test ran: " + cmp.Or(ended, "status 0") + "\n")
		}
	}
	delete(bad, "") // the package fails whenever a test does
	for _, test := range order {
		if bad[test] && !slices.ContainsFunc(order,
			func(other string) bool { return bad[other] && strings.HasPrefix(other, test+"/") }) {
			failed = append(failed, verdict{test, end(output[test].String())})
		}
	}
	if len(failed) == 0 && ended != "" {
		var all string
		if output[""] != nil {
			all = output[""].String()
		}
		failed = append(failed, verdict{"", end(all + "\n" + ended + "\n")})
	}
	return failed, n, nil
}

func end(s string) string {
	if len(s) > mostOutput {
		return "(...)\n" + s[len(s)-mostOutput:]
	}
	return s
}
