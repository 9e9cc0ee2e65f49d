//go:build linux

package steady

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Plan says what runs how often, beside what.
type Plan struct {
	Suites   []Suite
	Runs     int   // runs of each suite with each number in Procs
	Procs    []int // numbers for GOMAXPROCS
	Load     Load
	Limit    time.Duration // no limit if 0: then what runs is stopped, and does not count
	FuzzTime time.Duration // time of each fuzz target, more than 10 s
	More     []string      // further arguments of test binaries
	Log      io.Writer     // a line for each run, and for each failure
}

// ErrLimit is the reason for the end of runs at Plan.Limit.
var ErrLimit = errors.New("the time limit is over")

// Run does all runs. It returns the report even if it ends early, with the reason: the context's
// end, ErrLimit, or a load that has ended.
func (p Plan) Run(ctx context.Context) (report *Report, err error) {
	report = &Report{}
	if slices.ContainsFunc(p.Suites, func(s Suite) bool { return s.Fuzz }) && p.FuzzTime <= hungAfter {
		return report, fmt.Errorf("%v for each fuzz target: Go's fuzzer calls an input hung after %v, so it needs more", p.FuzzTime, hungAfter)
	}
	dir, err := os.MkdirTemp("", "steady")
	if err != nil {
		return report, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries := make([][]binary, len(p.Suites))
	for i := range p.Suites {
		begun := time.Now()
		binaries[i], err = p.Suites[i].compile(ctx, dir)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		} else if err != nil {
			return report, err
		}
		_, _ = fmt.Fprintf(p.Log, "%s: %d test binaries compiled in %v\n", p.Suites[i].Name, len(binaries[i]), time.Since(begun).Round(time.Second))
		report.Suites = append(report.Suites, SuiteReport{Name: p.Suites[i].Name})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if p.Limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, p.Limit, ErrLimit)
		defer stop()
	}
	load, err := p.Load.start(func(err error) { cancel(err) })
	if err != nil {
		return report, err
	}
	defer load.stop()
	for range p.Runs {
		for _, procs := range p.Procs {
			for i := range p.Suites {
				if err := p.runSuite(ctx, &report.Suites[i], binaries[i], procs, load, report); err != nil {
					return report, err
				}
			}
		}
	}
	return report, nil
}

// runSuite does one run of a suite.
func (p Plan) runSuite(ctx context.Context, s *SuiteReport, binaries []binary, procs int, load *running,
	report *Report) error {
	run := s.Runs + 1
	begun := time.Now()
	beside := runtime.NumCPU()
	if binaries[0].suite.Fuzz {
		beside = 1 // each fuzz target uses all cores
	}
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		failed int
		all    tally
		first  error
	)
	next := make(chan binary)
	for range beside {
		wg.Go(func() {
			for b := range next {
				list, n, err := p.runBinary(ctx, b, run, procs, load)
				mu.Lock()
				for _, f := range list {
					_, _ = fmt.Fprintf(p.Log, "FAIL %s %s %s (GOMAXPROCS %d, seed %d)\n", f.Suite, f.Package, f.Test, f.Procs, f.Seed)
				}
				report.Failures = append(report.Failures, list...)
				failed += len(list)
				all.ran += n.ran
				all.skipped += n.skipped
				if first == nil {
					first = err
				}
				mu.Unlock()
			}
		})
	}
	for _, b := range binaries {
		if ctx.Err() == nil {
			next <- b
		}
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.Runs++
	s.Ran += all.ran
	s.Skipped += all.skipped
	if failed > 0 {
		s.Failed++
	}
	took := time.Since(begun)
	s.Times = append(s.Times, took)
	_, _ = fmt.Fprintf(p.Log, "%s: run %d with GOMAXPROCS %d: %d failed, %d skipped, %v\n", s.Name, run, procs, failed, all.skipped, took.Round(time.Second))
	return first
}

func (p Plan) runBinary(ctx context.Context, b binary, run, procs int,
	load *running) ([]Failure, tally, error) {
	if b.suite.Fuzz {
		return b.fuzz(ctx, run, procs, p.FuzzTime, load)
	}
	return b.run(ctx, run, procs, p.More)
}
