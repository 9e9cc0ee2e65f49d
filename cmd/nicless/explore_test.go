//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/verdict"
	"github.com/nicless/nicless/tools/explore"
	"github.com/stretchr/testify/require"
)

// tortures runs nicless torture in a directory of its own, and returns what it prints.
func tortures(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("third.yaml", []byte(
		"rules:\n  - match: {opcode: RDMA_WRITE, nth: 3}\n    flip: {}\n"), 0o644))
	var o, e strings.Builder
	status = run(append([]string{"torture"}, args...), strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

func TestExplore(t *testing.T) {
	status, out, errs := tortures(t, "--explore", "1", "--runs", "20")
	require.Zero(t, status, errs)
	require.Empty(t, errs)
	require.Regexp(t, `^seeds            1 to 20, 20 runs \(\d+ in a second\)\n`+
		`work requests    \d+\ncompletions      \d+: \d+ with an error, \d+ flushed\n`+
		`virtual time     \d+.*\nverdict          OK\n$`, out)
	left, err := filepath.Glob("*.nictrace")
	require.NoError(t, err)
	require.Empty(t, left)
}

// A failure is told with its seed. Its trace repeats it, and the exit status of the repetition is that of the
// failure.
func TestExploreFails(t *testing.T) {
	status, out, errs := tortures(t, "--explore", "1", "--faults", "third.yaml", "--shrink")
	require.Equal(t, 3, status)
	require.Regexp(t, `seed 2           wrong bytes at qp 0x100\d\n  expected       0x[0-9a-f]{2}\n`+
		`  found          0x[0-9a-f]{2} at byte \d+ of its .*\n`+
		`plan             [12] steps? of \d+ are left after \d+ runs\n`+
		`  link 0           .*\n(  step [01]           .*\n)+`+
		`trace            explore-2.nictrace\nverdict          NOT OK: corruption \(wrong bytes\)\n$`, out)
	require.Regexp(t, `^nicless: note: seed 2 fails: wrong bytes: .*; it is shortened now\n`+
		`nicless: error: torture: seed 2: wrong bytes: .*\n`+
		`nicless: hint: to repeat it: nicless replay explore-2.nictrace\n$`, errs)

	status, out, errs = replays("explore-2.nictrace")
	require.Equal(t, 3, status)
	require.Empty(t, errs)
	require.Regexp(t, `^explore-2.nictrace: the same: seed 2, [12] steps, \d+ WQEs, \d+ completions, \d+ events\n`+
		`fault: qp 0x100\d: wrong bytes\n  expected  0x..\n  found     0x`, out)

	f, err := os.Open("explore-2.nictrace")
	require.NoError(t, err)
	rec, err := explore.Read(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	rec.Plan.Plant = nil // as if the device were mended
	f, err = os.Create("mended.nictrace")
	require.NoError(t, err)
	require.NoError(t, rec.Write(f))
	require.NoError(t, f.Close())
	status, out, _ = replays("mended.nictrace")
	require.Zero(t, status)
	require.Regexp(t, `^event \d+: recorded `, out)
	require.Regexp(t, `mended.nictrace: it differs: seed 2`, out)
	require.Regexp(t, `gone: qp 0x100\d: wrong bytes: `, out)
}

// Without --shrink, the hint says how to shorten the run.
func TestExploreInJSON(t *testing.T) {
	status, out, errs := tortures(t, "--explore", "2", "--faults", "third.yaml", "--json", "--out", "x.nictrace")
	require.Equal(t, 3, status)
	var r explore.Result
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	require.EqualValues(t, 2, *r.Failed)
	require.Equal(t, verdict.WrongBytes, r.Verdict)
	require.Equal(t, "x.nictrace", r.Trace)
	require.Contains(t, errs, "to shorten it: nicless torture --explore 2 --runs 1 --shrink --faults third.yaml\n")
	require.FileExists(t, "x.nictrace")
}

func TestExploreUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"torture: --shrink is for runs that are drawn":                     {"--shrink"},
		"torture: --explore draws everything from its own seed; --seed is": {"--explore", "1", "--seed", "2"},
		"torture: --runs 0; 1 to 1073741824 are possible":                  {"--explore", "1", "--runs", "0"},
		"torture: --explore 18446744072635809792; at most 1844":            {"--explore", "18446744072635809792"},
		"torture: rules of faults: open nothing.yaml: no such file":        {"--explore", "1", "--faults", "nothing.yaml"},
		"torture: --seconds 0; 1 to 86400 are possible":                    {"--explore", "1", "--seconds", "0"},
	} {
		status, _, errs := tortures(t, args...)
		require.Equal(t, 2, status, errs)
		require.Contains(t, errs, want)
	}
}

// A trace that cannot be written is told before the search, if that can be known. A full disk takes nothing
// of the result away.
func TestExploreCannotWrite(t *testing.T) {
	status, out, errs := tortures(t, "--explore", "2", "--faults", "third.yaml", "--out", "no/file")
	require.Equal(t, 1, status)
	require.Empty(t, out)
	require.Contains(t, errs, "torture: the trace of a run that fails cannot be written: open no/file: no such file")

	status, out, errs = tortures(t, "--explore", "2", "--faults", "third.yaml", "--out", "/dev/full")
	require.Equal(t, 3, status)
	require.Contains(t, out, "seed 2           wrong bytes at qp 0x100")
	require.NotContains(t, out, "trace ")
	require.Regexp(t, `torture: seed 2 fails \(wrong bytes: .*\), and its trace cannot be written: write /dev/full: no space left`, errs)
	require.Contains(t, errs, "hint: to repeat it: nicless torture --explore 2 --runs 1 --faults third.yaml\n")

	status, out, _ = tortures(t, "--explore", "2", "--faults", "third.yaml", "--out", "x\x1b[2J")
	require.Equal(t, 3, status)
	require.Contains(t, out, `trace            x\x1b[2J`)
}

// An interrupted search says what it has done.
func TestExploreInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := newTorture()
	var o, e strings.Builder
	c.SetOut(&o)
	c.SetErr(&e)
	c.SetArgs([]string{"--explore", "1"})
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.ExecuteContext(ctx)
	require.Equal(t, interrupted, complain(&e, err))
	require.Contains(t, o.String(), "verdict          OK\n")
	require.Contains(t, e.String(), "torture: interrupted after 0 runs, which are OK\n")
}

// A recorded run does the same again.
func TestReplayExplored(t *testing.T) {
	status, out, errs := replays("../../testdata/explored/rc.nictrace")
	require.Zero(t, status, errs)
	require.Regexp(t, `rc.nictrace: the same: seed 101, \d+ steps, \d+ WQEs, \d+ completions, \d+ events\n$`, out)
}
