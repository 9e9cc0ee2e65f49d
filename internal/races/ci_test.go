package races

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// plant copies .ci/run into a tree of its own, whose stages are these, and runs it.
func plant(t *testing.T, stages map[string]string, args ...string) (said string, err error) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".ci", "stages"), 0o755))
	for _, name := range []string{"run", "steps"} {
		text, err := os.ReadFile(filepath.Join("..", "..", ".ci", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".ci", name), text, 0o755))
	}
	for name, text := range stages {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ".ci", "stages", name), []byte(text), 0o644))
	}
	cmd := exec.Command("bash", append([]string{filepath.Join(dir, ".ci", "run")}, args...)...)
	cmd.Env = append(os.Environ(), Variable+"=") // of another run, if there is one around this test
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The summary adds up the runs that tests have repeated for races of other programs, in all steps and stages.
// The steps write what Summary does.
func TestSummaryOfCICountsRaces(t *testing.T) {
	said, err := plant(t, map[string]string{
		"one": `step first sh -c 'echo "verbs/programs: 2 runs repeated for the race of rping, https://github.com/a/b" >>"$NICLESS_RACES"'
beside second sh -c 'echo "verbs/programs: 1 runs repeated for the race of rping, https://github.com/a/b" >>"$NICLESS_RACES"'
together`,
		"two": `step third sh -c 'echo "verbs/programs: 10 runs repeated for the race of perftest -R, https://github.com/c/d" >>"$NICLESS_RACES"'`,
	}, "one", "two")
	require.NoError(t, err, said)
	require.Contains(t, said, "races of foreign programs: 13 runs repeated\n"+
		"       3  rping, https://github.com/a/b\n      10  perftest -R, https://github.com/c/d\n")
}

// Nothing counted is not the same as none.
func TestSummaryOfCIWithoutPrograms(t *testing.T) {
	said, err := plant(t, map[string]string{"one": "step first echo verbs/programs: 2 runs repeated for the race of rping, x"}, "one")
	require.NoError(t, err, said)
	require.Contains(t, said, "races of foreign programs: not counted")
}

// A stage that fails ends the run, and the summary comes all the same.
func TestStageOfCIFails(t *testing.T) {
	said, err := plant(t, map[string]string{
		"one": `step first sh -c 'echo "verbs/programs: 2 runs repeated for the race of rping, x" >>"$NICLESS_RACES"; echo a word; exit 3'`,
		"two": "step second echo another",
	}, "one", "two")
	require.Error(t, err)
	require.Contains(t, said, "a word\n")
	require.Contains(t, said, "FAILED (status 3)")
	require.Contains(t, said, "races of foreign programs: 2 runs repeated\n")
	require.NotContains(t, said, "another")
}

// A stage that starts something beside its steps and does not wait for it fails, because it would not be seen
// how that ends.
func TestStageOfCIWaitsForAll(t *testing.T) {
	said, err := plant(t, map[string]string{"one": "beside lost false\nstep first true"}, "one")
	require.Error(t, err, said)
	require.Contains(t, said, "FAILED: one: the stage ends without together, so nobody has waited for: lost")
	said, err = plant(t, map[string]string{"one": "beside lost false\nstep first true\ntogether"}, "one")
	require.Error(t, err, said)
	require.Contains(t, said, "FAILED (status 1)")
	said, err = plant(t, map[string]string{"one": "beside found true\nstep first true\ntogether"}, "one")
	require.NoError(t, err, said)
}

// A commit that does not exist is no reason to compare with nothing.
func TestQuickCheckNeedsItsBase(t *testing.T) {
	for _, program := range []string{"bash", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	text, err := os.ReadFile("../../.ci/check")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".ci"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".ci", "check"), text, 0o755))
	cmd := exec.Command("bash", ".ci/check")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BASE=nosuch", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), ".ci/check: BASE=nosuch is no commit")
}
