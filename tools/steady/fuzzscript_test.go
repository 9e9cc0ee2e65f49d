//go:build linux

package steady

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fuzzScript runs .ci/fuzz in a module that has a package with a target, one without, and one that does
// not compile.
func fuzzScript(t *testing.T, env ...string) (said string, err error) {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("../../.ci/fuzz")
	require.NoError(t, err)
	for name, text := range map[string]string{
		".ci/fuzz":           string(script),
		"go.mod":             "module planted\n\ngo 1.26\n",
		"target/a_test.go":   "package target\n\nimport \"testing\"\n\nfunc FuzzNothing(f *testing.F) { f.Fuzz(func(*testing.T, byte) {}) }\n",
		"deadline/a_test.go": "package deadline\n\nimport (\n\t\"context\"\n\t\"testing\"\n)\n\nfunc FuzzFails(f *testing.F) { f.Fatal(context.DeadlineExceeded) }\n",
		"two/a_test.go": "package two\n\nimport \"testing\"\n\nfunc FuzzZero(f *testing.F) { f.Fuzz(func(*testing.T, byte) {}) }\n\n" +
			"func FuzzOne(f *testing.F) { f.Fuzz(func(*testing.T, byte) {}) }\n",
		"none/a_test.go":        "package none\n\nimport \"testing\"\n\nfunc TestNothing(*testing.T) {}\n",
		"broken/broken_test.go": "package broken\n\nfunc FuzzBroken(f *testing.F) {}\n",
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	cmd := exec.Command("sh", ".ci/fuzz")
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), "GO=go", "FUZZ=.", "FUZZTIME=1x", "SHARE=0/1"), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestFuzzScriptNeedsATarget(t *testing.T) {
	said, err := fuzzScript(t, "PACKAGES=./none ./target")
	require.NoError(t, err, said)
	require.Contains(t, said, "FuzzNothing: ")

	for env, why := range map[string]string{
		"PACKAGES=./none":   "no fuzz target matches . in ./none",
		"PACKAGES=./nosuch": "nosuch",
		"PACKAGES=./broken": "FAIL: FuzzBroken",
	} {
		said, err := fuzzScript(t, env)
		require.Error(t, err, "%s: %s", env, said)
		require.Contains(t, said, why)
	}
	said, err = fuzzScript(t, "PACKAGES=./target", "FUZZ=NoSuch")
	require.Error(t, err, said)
}

// The shares of two runs have each target once.
func TestFuzzScriptShare(t *testing.T) {
	for share, want := range map[string][2]string{"SHARE=0/2": {"FuzzNothing", "FuzzOne"}, "SHARE=1/2": {"FuzzZero", "FuzzZero"}} {
		said, err := fuzzScript(t, "PACKAGES=./target ./two", share)
		require.NoError(t, err, said)
		for _, name := range []string{"FuzzNothing", "FuzzZero", "FuzzOne"} {
			require.Equal(t, name == want[0] || name == want[1], strings.Contains(said, name+": "), "%s of %s: %s", name, share, said)
		}
	}
	said, err := fuzzScript(t, "PACKAGES=./target", "SHARE=1/2")
	require.Error(t, err, said)
	require.Contains(t, said, "share 1/2")
}

// A target that fails with the words with which Go's fuzzer ends its own time has failed.
func TestFuzzScriptKnowsGosOwnDeadline(t *testing.T) {
	said, err := fuzzScript(t, "PACKAGES=./deadline")
	require.Error(t, err, said)
	require.Contains(t, said, "FAIL: FuzzFails")
}
