//go:build linux && (amd64 || arm64)

package main

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/tools/torture"
	"github.com/rogpeppe/go-internal/testscript"
)

// tortureTries is how often a run is repeated whose verdict was "not judged".
const tortureTries = 3

// cleanRun is what the output of a run says that has a verdict and no fault.
var cleanRun = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^schedule +3146b90d2a200ec6, 13 of 13 actions$`),
	regexp.MustCompile(`(?m)^operations +[1-9][0-9]+ \(`),
	regexp.MustCompile(`(?m)^engine restarts +2 \(2 killed, 0 stopped\)$`),
	regexp.MustCompile(`(?m)^stalls +[0-9]+ waits above 100ms; without delays that the kernel\n +counts 0 are above`),
	regexp.MustCompile(`(?m)^verdict +OK$`),
}

// tortured runs nicless torture. The engine must do nothing wrong. On a machine that is too busy to judge,
// the run is repeated, and in the end the script checks what such a run still shows.
func tortured(ts *testscript.TestScript, _ bool, args []string) {
	asJSON := slices.Contains(args, "--json")
	for range tortureTries {
		err := ts.Exec("nicless", append([]string{"torture"}, args...)...)
		var exit interface{ ExitCode() int }
		if asJSON && (err == nil || errors.As(err, &exit)) {
			checkJSON(ts, ts.ReadFile("stdout"), exit)
			return
		}
		switch {
		case err == nil:
			out := ts.ReadFile("stdout")
			for _, re := range cleanRun {
				if !re.MatchString(out) {
					ts.Fatalf("%v is not in\n%s", re, out)
				}
			}
			return
		case !errors.As(err, &exit) || exit.ExitCode() != verdict.Undecided.Status():
			ts.Fatalf("nicless torture: %v", err)
		case !regexp.MustCompile(`(?m)^verdict +NOT JUDGED`).MatchString(ts.ReadFile("stdout")):
			ts.Fatalf("exit status %d without its verdict", exit.ExitCode())
		}
	}
	ts.Logf("not judged in %d runs: this machine is too busy", tortureTries)
}

// checkJSON checks what a run without faults says in JSON, also if its verdict is "not judged": data was
// moved, and its verdict is that of its exit status.
func checkJSON(ts *testscript.TestScript, out string, exit interface{ ExitCode() int }) {
	var r torture.Result
	ts.Check(json.Unmarshal([]byte(out), &r))
	status := 0
	if exit != nil {
		status = exit.ExitCode()
	}
	switch {
	case r.Verdict > verdict.Undecided || r.Verdict.Status() != status:
		ts.Fatalf("exit status %d with the verdict %v", status, r.Verdict)
	case r.Operations == 0 || r.Checked == 0:
		ts.Fatalf("no data was moved and checked")
	case r.Lost+r.Duplicated+r.Reordered > 0 || r.Leaked != "":
		ts.Fatalf("faults are counted that the verdict does not have")
	case len(r.Faults) == 0 != (r.Verdict == verdict.OK):
		ts.Fatalf("the verdict %v has %d faults", r.Verdict, len(r.Faults))
	}
}
