// Package races names the races in programs of others that can fail a test, and counts how often one did.
//
// A test may run such a program again only if its failure is in the table here. Each entry names the code
// that races, so that readers can decide whether the fault is there and not in nicless.
//
// Only tests import this package.
package races

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// A Race is in a program.
type Race struct {
	Name     string
	Versions string         // versions that have the race
	Command  *regexp.Regexp // command lines of the program
	Output   *regexp.Regexp // output of a program that fails by the race
	Why      string         // what races with what
	Upstream string         // address at which the authors name the race, or of the code
}

// Table has all races that are known.
var Table = []Race{
	{
		Name:     "rping",
		Versions: "rdma-core 44 (Debian 12) and all others before July 2025",
		Command:  regexp.MustCompile(`\brping `),
		Output:   regexp.MustCompile(`rdma_get_cm_event: Bad file descriptor`),
		Why: "The main thread destroys the event channel, while the thread for events is about to call rdma_get_cm_event " +
			"again. That call fails then, and its thread ends the process with a failure.",
		Upstream: "https://github.com/linux-rdma/rdma-core/pull/1622",
	},
	{
		Name:     "perftest -R",
		Versions: "perftest 4.5+0.17 (Debian 12), and the newest at present",
		Command:  regexp.MustCompile(`\bib_[a-z]+_(bw|lat) .*-(R|z)\b`),
		Output:   regexp.MustCompile(`RDMA_CM_EVENT_(REJECTED; error: 8|UNREACHABLE; error: 1)\.`),
		Why: "Both ends connect twice. For the second time they shake hands over the first connection, and after that the server " +
			"calls rdma_listen and the client rdma_connect. A client that is earlier is rejected, which it does not try again. " +
			"(create_rdma_cm_connection in src/perftest_communication.c)",
		Upstream: "https://github.com/linux-rdma/perftest/issues/93",
	},
}

// most is how often a test may fail by a race, and run again. A race that fails a small part of the runs does
// not fail four in a row, so that is something else.
const most = 3

var (
	mu     sync.Mutex
	counts = make([]int, len(Table))
	byTest = make(map[string]int)
)

// Found reports whether a program has failed by a race, so that the test may run it again, and counts that.
func Found(t testing.TB, command []string, said string) bool {
	t.Helper()
	i := find(strings.Join(command, " "), said)
	if i < 0 {
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	if byTest[t.Name()] == most {
		return false
	}
	byTest[t.Name()]++
	counts[i]++
	t.Logf("%s has failed by a race of its own (%s), and runs again; it said:\n%s", strings.Join(command, " "), Table[i].Upstream, said)
	return true
}

// find returns the index of a race, or -1.
func find(command, said string) int {
	for i, r := range Table {
		if r.Command.MatchString(command) && r.Output.MatchString(said) {
			return i
		}
	}
	return -1
}

// Variable is the environment variable that names a file for Summary. go test does not show what a package
// prints that passes.
const Variable = "NICLESS_RACES"

// Summary says how often programs ran again in this process, for each race of the table. It prints that, and
// adds it to the file that the environment names.
func Summary(of string) {
	mu.Lock()
	defer mu.Unlock()
	var text strings.Builder
	for i, r := range Table {
		fmt.Fprintf(&text, "%s: %d runs repeated for the race of %s, %s\n", of, counts[i], r.Name, r.Upstream)
	}
	fmt.Print(text.String())
	path := os.Getenv(Variable)
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(text.String())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	_ = f.Close()
}
