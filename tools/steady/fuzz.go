//go:build linux

package steady

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// tries is how often a failing input may fail alone. One failure shows that it is the input.
const tries = 3

// DidNotRepeat begins the output of a fuzz target that failed with an input that does not fail alone.
const DidNotRepeat = "did not repeat: "

// hungAfter is the time after which Go's fuzzer calls an execution hung. If its own time ends
// before, it stops an input that hangs, and passes.
const hungAfter = 10 * time.Second

// DefaultFuzzTime finds an input that begins to hang in the first 20 s.
const DefaultFuzzTime = 30 * time.Second

var (
	written = regexp.MustCompile(`Failing input written to testdata/fuzz/(\S+)`)
	seed    = regexp.MustCompile(`(?m)^failure while testing seed corpus entry: (\S+)`)
	// The line that Go's fuzzer writes at the end of its time. A test that fails with these words has a file
	// and a line before them.
	timeOver = regexp.MustCompile(`(?m)^    context deadline exceeded$`)
)

// failing returns the name of the input, TARGET/NAME, with which a target has failed, "" if the output names
// none, and whether the input is new.
func failing(text []byte) (name string, isNew bool) {
	if m := written.FindSubmatch(text); m != nil {
		return string(m[1]), true
	}
	if m := seed.FindSubmatch(text); m != nil {
		return string(m[1]), false
	}
	return "", false
}

// fuzz runs each fuzz target of a binary for a time. A failing input is run alone, while the load
// stands still. If the input fails again, the code has an error, and the input stays in testdata, where
// Go has put it. If the input passes, the target is not steady: the input is printed, and removed if it is
// no seed. Both are failures.
//
// With few cores Go's fuzzer may report the end of its own time as a failure without an input. That
// is no failure.
func (b binary) fuzz(ctx context.Context, run, procs int, each time.Duration,
	load *running) (list []Failure, n tally, err error) {
	names, ended, err := b.start(ctx, procs, []string{"-test.list=^Fuzz"})
	if err != nil || ctx.Err() != nil {
		return nil, n, err
	}
	if ended != "" {
		return nil, n, fmt.Errorf("%s does not list its fuzz targets: %s\n%s", b.pkg, ended, names)
	}
	for _, target := range strings.Fields(string(names)) {
		if !strings.HasPrefix(target, "Fuzz") {
			continue
		}
		cache, err := os.MkdirTemp("", "steady-fuzz")
		if err != nil {
			return nil, n, err
		}
		text, ended, err := b.start(ctx, procs,
			[]string{"-test.run=^$", "-test.fuzz=^" + target + "$", "-test.fuzztime=" + each.String(),
				"-test.fuzzminimizetime=1x", "-test.fuzzcachedir=" + cache, "-test.timeout=0"})
		_ = os.RemoveAll(cache)
		if err != nil || ctx.Err() != nil {
			return list, n, err
		}
		n.ran++
		input, isNew := failing(text)
		if ended == "" || input == "" && timeOver.Match(text) {
			continue
		}
		f := Failure{b.suite.Name, b.pkg, target, run, procs, 0, b.repeat(target, procs), end(string(text))}
		if input == "" {
			f.Output = DidNotRepeat + "it failed without an input: " + ended + "\n" + f.Output
		} else if err := b.again(ctx, &f, input, isNew, load); err != nil {
			return list, n, err
		}
		list = append(list, f)
	}
	return list, n, nil
}

// again runs a failing input alone.
func (b binary) again(ctx context.Context, f *Failure, input string, isNew bool, load *running) error {
	load.signal(syscall.SIGSTOP)
	defer load.signal(syscall.SIGCONT)
	f.Repeat = b.repeat(input, f.Procs)
	path := filepath.Join(b.dir, "testdata", "fuzz", input)
	what := path
	if !isNew {
		what = "the seed " + input // a file or an argument of Add
	}
	for range tries {
		_, ended, err := b.start(ctx, f.Procs,
			[]string{"-test.run=^" + strings.ReplaceAll(input, "/", "$/^") + "$", "-test.timeout=5m"})
		if err != nil || ctx.Err() != nil {
			return err
		}
		if ended != "" {
			f.Output = "repeats, with " + what + "\n" + f.Output
			return nil
		}
	}
	if !isNew {
		f.Output = fmt.Sprintf("%s%s passes %d times alone\n%s", DidNotRepeat, what, tries, f.Output)
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f.Output = fmt.Sprintf("%sits input passes %d times alone:\n%s\n%s", DidNotRepeat, tries, text, f.Output)
	return os.Remove(path)
}
