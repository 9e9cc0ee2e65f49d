//go:build linux

package steady

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// A Failure is one test that failed once.
type Failure struct {
	Suite, Package string
	Test           string // "" if the process failed outside tests
	Run, Procs     int    // the run, and its GOMAXPROCS
	Seed           uint64 // seed of the order of the tests; 0 of fuzz targets
	Repeat         string // the command that runs this test alone
	Output         string
}

// longest is the limit of one binary: three times that of .ci/run, because a third of a core is left.
const longest = "90m"

// run runs all tests of a binary in a new order. It returns nothing if ctx has ended meanwhile,
// because then the tests have been killed.
func (b binary) run(ctx context.Context, run, procs int, more []string) (list []Failure, n tally, err error) {
	seed := rand.Uint64N(1 << 53)
	args := append([]string{"-test.v=test2json", fmt.Sprintf("-test.shuffle=%d", seed),
		"-test.timeout=" + longest}, b.suite.Args...)
	text, ended, err := b.start(ctx, procs, append(args, more...))
	if err != nil || ctx.Err() != nil {
		return nil, n, err
	}
	c := exec.Command(b.converter, "-t", "-p", b.pkg)
	c.Stdin = bytes.NewReader(text)
	events, err := c.Output()
	if err != nil {
		return nil, n, fmt.Errorf("test2json: %w", err)
	}
	verdicts, n, err := parse(bytes.NewReader(events), ended)
	if err != nil {
		return nil, n, err
	}
	for _, v := range verdicts {
		list = append(list,
			Failure{b.suite.Name, b.pkg, v.test, run, procs, seed, b.repeat(v.test, procs), v.output})
	}
	return list, n, nil
}

// start runs the binary in the directory of its package, as go test does, and like go test lets os.Exit(0)
// panic in the middle of a test. It returns what the binary printed, and how it ended, "" for status 0.
// Processes that it leaves behind are killed.
func (b binary) start(ctx context.Context, procs int, args []string) (text []byte, ended string, err error) {
	out, err := os.CreateTemp("", "steady-output") // no pipe, which a process left behind would hold open
	if err != nil {
		return nil, "", err
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }()
	c := exec.CommandContext(ctx, b.path, append([]string{"-test.paniconexit0"}, args...)...)
	c.Dir = b.dir
	c.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", procs), "PWD="+b.dir)
	c.Stdout, c.Stderr = out, out
	// If this process is killed, the kernel kills the binary when the thread that has started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	if err := c.Start(); err != nil {
		return nil, "", fmt.Errorf("%s: %w", b.pkg, err)
	}
	if err := c.Wait(); err != nil {
		ended = err.Error() // "exit status 1", "signal: killed"
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	text, err = os.ReadFile(out.Name())
	return text, ended, err
}

// repeat returns the command that runs one test, or all if there is no name.
func (b binary) repeat(test string, procs int) string {
	command := fmt.Sprintf("GOMAXPROCS=%d go test", procs)
	if os.Getenv("CI") == "true" {
		command = "CI=true " + command
	}
	if b.suite.Race {
		command += " -race"
	}
	command += " " + b.pkg + " -count=1"
	if test != "" {
		command += " -run '^" + strings.ReplaceAll(test, "/", "$/^") + "$'"
	}
	for _, arg := range b.suite.Args {
		command += " " + arg
	}
	return command
}
