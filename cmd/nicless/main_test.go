package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/tools/bench"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nicless": main, "puts": puts})
}

// TestScript runs the command as its users do: each script of testdata/script
// is a session at a shell.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"until":    until,
			"tortured": tortured,
			"faulted":  faulted,
		},
		Condition: condition,
		Setup: func(env *testscript.Env) error {
			// by default the race detector sleeps a second at the end of each command
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("XDG_RUNTIME_DIR", env.WorkDir)
			env.Setenv("NICLESS_SHIM", harmless())
			env.Setenv("NICLESS_RECORDER", harmless())
			raw, err := filepath.Abs("../../trace/record/testdata/raw")
			if err != nil {
				return err
			}
			env.Setenv("RAW", raw)
			cpus, err := bench.AllowedCPUs()
			if len(cpus) > 0 {
				env.Setenv("CORE", fmt.Sprint(cpus[0]))
			}
			if len(cpus) > 1 {
				env.Setenv("TWO_CORES", fmt.Sprintf("%d,%d", cpus[0], cpus[1]))
			}
			return err
		},
	})
}

// harmless returns a library that can be preloaded in place of libnicless_verbs.so, which not
// every machine can build. It does nothing, so programs that are not of rdma-core can load it.
func harmless() string {
	for _, pattern := range []string{"/lib/*-linux-gnu/libm.so.6", "/lib64/libm.so.6", "/usr/lib/libm.so.6"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// exits runs a command that must fail with a status: exits 2 nicless decode.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	status := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		status = err.Error()
		var exit interface{ ExitCode() int }
		if errors.As(err, &exit) {
			status = strconv.Itoa(exit.ExitCode())
		}
	}
	if status != args[0] {
		ts.Fatalf("exit status %s, want %s", status, args[0])
	}
}

// condition knows [multicore]: the process may run on two cores.
func condition(name string) (bool, error) {
	if name != "multicore" {
		return false, fmt.Errorf("condition %q is not known", name)
	}
	cpus, err := bench.AllowedCPUs()
	return len(cpus) > 1, err
}

// until waits for an engine to answer at a socket: until PATH.
func until(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	await.Until(waits{ts: ts}, "an engine answers at "+path, func() bool {
		c, err := nicless.Dial(path)
		return err == nil && c.Close() == nil
	})
}

// waits lets await fail the script that waits. It has no other methods of testing.TB.
type waits struct {
	testing.TB
	ts *testscript.TestScript
}

func (s waits) Helper()             {}
func (s waits) Fatal(values ...any) { s.ts.Fatalf("%s", fmt.Sprint(values...)) }

// helpLines is the most lines of a help text: what fits on a printed page.
const helpLines = 66

// The help texts are written by hand. They must name every flag and fit a terminal.
func TestUsageNamesEveryFlag(t *testing.T) {
	var visit func(c *cobra.Command)
	visited := 0
	visit = func(c *cobra.Command) {
		visited++
		assert.Contains(t, c.Long, c.CommandPath(), c.CommandPath())
		assert.Contains(t, c.Long, "Example:", c.CommandPath())
		assert.NotEmpty(t, c.Short, c.CommandPath())
		assert.LessOrEqual(t, strings.Count(c.Long, "\n"), helpLines, "lines of the help of %s", c.CommandPath())
		for line := range strings.Lines(c.Long) {
			assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), columns, line)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			assert.True(t, f.Hidden || strings.Contains(c.Long, "--"+f.Name), "%s --%s", c.CommandPath(), f.Name)
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
	require.Equal(t, 40, visited)
}

func TestCompletionsOfDecode(t *testing.T) {
	var out, errs strings.Builder
	require.Zero(t, run([]string{"__complete", "decode", ""}, strings.NewReader(""), &out, &errs))
	for _, k := range kindNames() {
		assert.Contains(t, out.String(), k+"\n")
		assert.Contains(t, decodeUsage, "\n  "+k+" ")
	}
}

// The help of nicless model lists the operations, and only these.
func TestUsageNamesEveryOperation(t *testing.T) {
	_, text, _ := strings.Cut(modelUsage, "  --synth OP ")
	text, _, _ = strings.Cut(text, "(default: write)")
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '-' && !unicode.IsLetter(r) })
	for _, op := range synthOps() {
		assert.Contains(t, words, op)
	}
	_, text, _ = strings.Cut(text, ", write,")
	require.Len(t, strings.FieldsFunc("write,"+strings.ReplaceAll(text, " or ", ", "), func(r rune) bool { return r != '-' && !unicode.IsLetter(r) }), len(synthOps())-1)
}
