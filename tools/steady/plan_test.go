//go:build linux

package steady

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planted goes to a copy of the module with planted failures.
func planted(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/planted")))
	t.Setenv("STEADY_PLANTED", t.TempDir())
	t.Setenv("CI", "")
	t.Chdir(dir)
}

func TestPlantedFailuresAreFound(t *testing.T) {
	planted(t)
	var log bytes.Buffer
	p := Plan{Suites: []Suite{{Name: "tests", Packages: []string{"./tests"}}}, Runs: 2, Procs: []int{1, 2},
		Load: Load{Busy: 1, Memory: 1, Disk: 1}, Log: &log}
	r, err := p.Run(t.Context())
	require.NoError(t, err, log.String())
	require.Equal(t, 4, r.Suites[0].Runs)
	require.NotZero(t, r.Suites[0].Skipped)
	require.NoError(t, r.Nothing())
	tests := make(map[string]int)
	for _, f := range r.Failures {
		tests[f.Test]++
		require.NotZero(t, f.Seed)
	}
	require.Equal(t, map[string]int{"TestFirstFails/part": 1, "TestFirstIsKilled": 1, "TestFirstExits": 1}, tests, log.String())
	var text bytes.Buffer
	r.Print(&text)
	require.Contains(t, text.String(), "tests planted/tests TestFirstFails/part: failed once\n")
	require.Contains(t, text.String(), "alone: GOMAXPROCS=1 go test planted/tests -count=1 -run '^TestFirstFails$/^part$'")
	require.Contains(t, text.String(), "-shuffle=")
}

func TestPlantedInputs(t *testing.T) {
	planted(t)
	var log bytes.Buffer
	p := Plan{Suites: []Suite{{Name: "fuzz", Packages: []string{"./fuzz"}, Fuzz: true}}, Runs: 1, Procs: []int{2},
		FuzzTime: 10 * time.Minute, Log: &log} // all fail long before
	r, err := p.Run(t.Context())
	require.NoError(t, err, log.String())
	require.Len(t, r.Failures, 4, log.String())
	chance, seed, once, wrong := r.Failures[0], r.Failures[1], r.Failures[2], r.Failures[3]
	require.Equal(t, "FuzzChance", chance.Test)
	require.True(t, strings.HasPrefix(chance.Output, DidNotRepeat), chance.Output)
	require.Contains(t, chance.Output, "go test fuzz v1") // the input
	require.True(t, strings.HasPrefix(wrong.Output, "repeats, with "), wrong.Output)
	require.True(t, strings.HasPrefix(seed.Output, "repeats, with the seed FuzzSeed/seed#0\n"), seed.Output)
	require.Contains(t, seed.Repeat, "-run '^FuzzSeed$/^seed#0$'")
	require.True(t, strings.HasPrefix(once.Output, DidNotRepeat+"the seed FuzzSeedOnce/file passes 3 times alone\n"), once.Output)
	left, err := filepath.Glob("fuzz/testdata/fuzz/*/*")
	require.NoError(t, err)
	require.Len(t, left, 2, "the input that repeats stays, and so does a seed")
	require.Contains(t, left, "fuzz/testdata/fuzz/FuzzSeedOnce/file")
}

func TestTimeLimit(t *testing.T) {
	planted(t)
	p := Plan{Suites: []Suite{{Name: "tests", Packages: []string{"./tests"}}}, Runs: 1 << 30, Procs: []int{1}, Limit: time.Nanosecond, Log: new(bytes.Buffer)}
	r, err := p.Run(t.Context())
	require.ErrorIs(t, err, ErrLimit)
	require.Empty(t, r.Failures, "a test that was stopped has not failed")
	require.EqualError(t, r.Nothing(), "suite tests has no whole run")
}

func TestNothingRuns(t *testing.T) {
	planted(t)
	for pattern, why := range map[string]string{"NoSuch": "no test of suite tests ran (0 skipped)", "TestSkips": "no test of suite tests ran (1 skipped)"} {
		p := Plan{Suites: []Suite{{Name: "tests", Packages: []string{"./tests"}}}, Runs: 1, Procs: []int{1}, More: []string{"-test.run=" + pattern}, Log: new(bytes.Buffer)}
		r, err := p.Run(t.Context())
		require.NoError(t, err)
		require.Empty(t, r.Failures)
		require.EqualError(t, r.Nothing(), why)
	}
}

func TestCommandsHaveTheEnvironment(t *testing.T) {
	b := binary{suite: &Suite{}, pkg: "a/b"}
	t.Setenv("CI", "")
	require.Equal(t, "GOMAXPROCS=1 go test a/b -count=1 -run '^TestA$'", b.repeat("TestA", 1))
	t.Setenv("CI", "true")
	require.Equal(t, "CI=true GOMAXPROCS=1 go test a/b -count=1 -run '^TestA$'", b.repeat("TestA", 1))
}

func TestStopped(t *testing.T) {
	planted(t)
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	p := Plan{Suites: []Suite{{Name: "tests", Packages: []string{"./tests"}}}, Runs: 1 << 30, Procs: []int{1}, Log: writer(func(text string) {
		if strings.Contains(text, ": run 3 ") {
			stop(why)
		}
	})}
	r, err := p.Run(ctx)
	require.ErrorIs(t, err, why)
	require.Equal(t, 3, r.Suites[0].Runs)
}

type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }
