//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nicless/nicless/field/known"
	"github.com/nicless/nicless/trace"
	"github.com/nicless/nicless/trace/text"
)

// statusExplained is the exit status of a program that has ended with status 0, but made mistakes that the
// engine has explained (--fail-on-explanation). No shell and no command such as env or timeout uses it.
const statusExplained = 121

// mostExplained is how many explanations are printed and written to a file; a program in a loop makes as many
// as it likes. All are counted.
const mostExplained = 100

// allCodes is the value of --fail-on-explanation alone.
const allCodes = "all"

// injected are the codes of explanations of faults that rules have made: ports go down, and GIDs change, by
// rules alone.
var injected = []string{"fault-injected", "port-down", "gid-changed"}

// checkCodes returns an error if a code of --fail-on-explanation does not exist.
func checkCodes(codes []string) error {
	for _, code := range codes {
		if _, ok := known.Explain(code); !ok && code != allCodes {
			hint := "docs/EXPLANATIONS.md lists the codes"
			if near := known.Near(code); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "? " + hint
			}
			return usagef(hint, "--fail-on-explanation: code %.63q does not exist", code)
		}
	}
	return nil
}

// counts reports whether explanations of a code count. Faults that rules have made are no mistakes of the
// program.
func counts(codes []string, code string) bool {
	if len(codes) == 0 || slices.Contains(codes, allCodes) {
		return !slices.Contains(injected, code) || slices.Contains(codes, code)
	}
	return slices.Contains(codes, code)
}

// collect begins to collect explanations, if a flag asks for it. end takes the error with which the program
// has ended, and returns that of this command.
func (f *runFlags) collect(socket string, args []string, w io.Writer) (end func(error) error, err error) {
	if f.codes == nil && f.junit == "" && f.gpu.order == 0 {
		return func(program error) error { return program }, nil
	}
	var report *os.File
	if f.junit != "" {
		report, err = os.Create(f.junit)
		if err != nil {
			return nil, fmt.Errorf("--junit: %w", err)
		}
	}
	stop, err := collectExplanations(socket, f.codes)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	return func(program error) error {
		j, err := stop()
		if report != nil {
			err = errors.Join(err, writeJUnit(report, args, began, program, j))
		}
		if (f.codes != nil || f.gpu.order != 0) && !f.explain {
			j.print(w)
		}
		if program != nil || j.count > 0 {
			f.gpu.orders.print(w)
		}
		switch {
		case program != nil:
			if err != nil {
				fmt.Fprintf(w, "nicless: error: %v\n", err)
			}
			return program
		case err != nil:
			return failed(err)
		case f.codes != nil && j.count > 0:
			return failf(statusExplained, "nicless explain CODE says more about each", "run: %v", j)
		}
		return nil
	}, nil
}

// An explained has the explanations for a program.
type explained struct {
	codes  []string
	choice eventChoice
	count  uint64
	lines  []string // the first mostExplained
	kinds  []string // their codes, each once
	lost   bool     // the watch was too slow
}

// collectExplanations collects the explanations for descendants of this process, whose codes are chosen,
// until stop is called.
func collectExplanations(socket string, codes []string) (stop func() (*explained, error), err error) {
	j := &explained{codes: codes, choice: eventChoice{ours: isDescendant}}
	ctx, cancel := context.WithCancel(context.Background())
	in, err := openWatch(ctx, socket, &j.choice)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("--fail-on-explanation: %w", err)
	}
	in.eventSource.(*watchSource).onIdle(func() error { return nil })
	ended := make(chan error)
	go func() { ended <- j.read(in) }()
	return func() (*explained, error) {
		cancel() // all that was recorded before is read first
		return j, errors.Join(<-ended, in.Close())
	}, nil
}

// read reads events until they end.
func (j *explained) read(in *namedSource) error {
	for {
		var e trace.Event
		if err := in.Next(&e); err != nil {
			return in.explain(err, 0)
		}
		if err := j.choice.pass(&e, func(e *trace.Event) error { j.add(e); return nil }); err != nil {
			return err
		}
	}
}

// add counts an event that is an explanation.
func (j *explained) add(e *trace.Event) {
	if e.Kind == trace.KindLost {
		j.lost = true
	}
	if e.Kind != trace.KindExplanation {
		return
	}
	code, words := text.Explanation(e)
	if !counts(j.codes, code) {
		return
	}
	j.count++
	if !slices.Contains(j.kinds, code) {
		j.kinds = append(j.kinds, code)
	}
	if len(j.lines) == mostExplained {
		return
	}
	who := ""
	if c := j.choice.table.ClientOf(e); c != nil {
		who = fmt.Sprintf("pid %d (%s): ", c.PID, plain(c.Program()))
	}
	j.lines = append(j.lines, fmt.Sprintf("%s%s: %s", who, plain(code), plain(words)))
}

// String says how many explanations there were, and which codes they have.
func (j *explained) String() string {
	s := fmt.Sprintf("%s: %s", number(j.count, "explanation"), plain(strings.Join(j.kinds, ", ")))
	if j.lost {
		s += "; there may be more, because events were lost"
	}
	return s
}

// print prints the explanations.
func (j *explained) print(w io.Writer) {
	for _, line := range j.lines {
		fmt.Fprintf(w, "nicless: explanation: %s\n", line)
	}
	if n := j.count - uint64(len(j.lines)); n > 0 {
		fmt.Fprintf(w, "nicless: and %s more\n", number(n, "explanation"))
	}
}

// A JUnit report, in the elements that Jenkins, GitLab and GitHub's actions read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"` // seconds
		Began    string      `xml:"timestamp,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitFailure `xml:"failure,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a report with one case: the run of a program, which has begun at a time and ended with an
// error, nil for status 0.
func writeJUnit(file *os.File, args []string, began time.Time, program error, j *explained) error {
	seconds := fmt.Sprintf("%.3f", time.Since(began).Seconds())
	c := junitCase{Class: "nicless.run", Name: plain(strings.Join(args, " ")), Time: seconds}
	var why []string
	kind := "explanation"
	if program != nil {
		kind = "status"
		var h *hinted
		if errors.As(program, &h) {
			why = append(why, fmt.Sprintf("exit status %d", h.status))
		}
	}
	if j.count > 0 {
		why = append(why, j.String())
	}
	s := junitSuite{Name: "nicless run", Tests: 1, Time: seconds,
		Began: began.UTC().Format("2006-01-02T15:04:05")}
	if len(why) > 0 {
		s.Failures = 1
		c.Failure = &junitFailure{strings.Join(why, "; "), kind, strings.Join(j.lines, "\n")}
	}
	s.Cases = []junitCase{c}
	b, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	if err == nil {
		_, err = file.WriteString(xml.Header + string(b) + "\n")
	}
	return errors.Join(err, file.Close())
}
