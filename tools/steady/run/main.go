//go:build linux

// Command run runs suites of tests beside a load that it makes, and prints which tests failed how
// often. Its exit status is 0 if none failed, 1 if one did, and 2 if it could not do what it was
// asked for: no room, a load that ended, a signal, a suite of which nothing ran. A fuzz target whose input
// does not fail again alone counts as a failure too.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nicless/nicless/tools/steady"
)

func main() {
	// the suites have the tests of all modules; see internal/modules
	_ = os.Setenv("NICLESS_MODULES_APART", "yes")
	if len(os.Args) > 1 && os.Args[1] == steady.LoadWord {
		if err := steady.LoadMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	failures, err := run()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "steady:", err)
		os.Exit(2)
	case failures:
		os.Exit(1)
	}
}

// run returns whether a test failed.
func run() (failures bool, err error) {
	flags := flag.NewFlagSet("steady", flag.ContinueOnError)
	runs := flags.Int("n", 1, "`runs` of each suite with each number of -procs")
	procs := flags.String("procs", "1,2", "the `numbers` for GOMAXPROCS")
	names := flags.String("suites", "tests,race", "a `list` of tests, race, programs, networks and fuzz; race includes tests, built with the race detector")
	l := flags.String("load", "", "changes of the load as a `list` of busy=N, memory=MIB and disk=MIB; 0 leaves a part out")
	limit := flags.Duration("for", 0, "end all runs after this `time`; the suite that runs then does not count")
	file := flags.String("o", "", "write the failures with their outputs into a `file`, as JSON")
	fuzzTime := flags.Duration("fuzztime", steady.DefaultFuzzTime, "the `time` for each fuzz target, more than 10 s; an input that begins to hang in the last 10 s is not found")
	packages := flags.String("packages", "", "a `list` of packages, in place of those of the suites")
	only := flags.String("run", "", "only tests that match a `pattern`, as with go test")
	explore := flags.Bool("explore", false, "with -explore, for -packages whose tests have that flag")
	ci := flags.Bool("ci", false, "with CI=true, as in .ci/run: tests whose programs are missing fail; without, they skip, and count as skipped")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return false, err
	}
	if flags.NArg() > 0 {
		return false, fmt.Errorf("arguments that are no options: %v", flags.Args())
	}
	if *runs < 1 {
		return false, fmt.Errorf("-n %d: at least 1", *runs)
	}
	p := steady.Plan{Runs: *runs, Limit: *limit, FuzzTime: *fuzzTime, Log: os.Stdout}
	p.Procs, err = numbers(*procs)
	if err != nil {
		return false, err
	}
	p.Suites, err = choose(*names, *packages)
	if err != nil {
		return false, err
	}
	if *only != "" {
		p.More = append(p.More, "-test.run="+*only)
	}
	if *ci {
		_ = os.Setenv("CI", "true") // the test binaries have this process's environment
	}
	if *explore {
		p.More = append(p.More, "-explore")
	}
	p.Load, err = steady.ParseLoad(*l, steady.DefaultLoad())
	if err != nil {
		return false, err
	}
	if err := p.Load.Check(); err != nil {
		return false, err
	}
	for _, note := range steady.Notes() {
		fmt.Println("note:", note)
	}
	fmt.Printf("the load: %d busy loops, %d MiB of memory, a file of %d MiB\n", p.Load.Busy, p.Load.Memory, p.Load.Disk)

	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() { stop(fmt.Errorf("stopped by a signal: %v", <-signals)) }()
	report, err := p.Run(ctx)
	report.Print(os.Stdout)
	if *file != "" {
		text, _ := json.MarshalIndent(report.Failures, "", "\t")
		if err := os.WriteFile(*file, append(text, '\n'), 0o644); err != nil {
			return false, err
		}
	}
	if errors.Is(err, steady.ErrLimit) {
		fmt.Println("ended after", *limit)
		err = nil
	}
	if nothing := report.Nothing(); err == nil && nothing != nil {
		if len(report.Failures) == 0 {
			return false, nothing
		}
		fmt.Println("note:", nothing) // the failures say more
	}
	return len(report.Failures) > 0, err
}

func numbers(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-procs %q: %q is no number of processors", text, part)
		}
		list = append(list, n)
	}
	return list, nil
}

func choose(names, packages string) (list []steady.Suite, err error) {
	all := steady.Suites()
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(s steady.Suite) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("-suites: no suite %q; there are tests, race, programs, networks and fuzz", name)
		}
		s := all[i]
		if packages != "" {
			s.Packages = strings.Split(packages, ",")
		}
		list = append(list, s)
	}
	return list, nil
}
