package share

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script runs .ci/share, with SHARE if share is not empty, and returns what it prints.
func script(t *testing.T, share, input string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	cmd := exec.Command("sh", append([]string{"../../.ci/share"}, args...)...)
	cmd.Env = append(os.Environ(), "SHARE="+share)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// N commits in a row have the N shares.
func TestScriptCountsCommits(t *testing.T) {
	if err := exec.Command("git", "-C", "../..", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("no checkout: ", err)
	}
	have := make(map[string]bool)
	for ahead := range 4 {
		have[script(t, "", "", fmt.Sprintf("4+%d", ahead))] = true
	}
	require.Equal(t, map[string]bool{"0/4": true, "1/4": true, "2/4": true, "3/4": true}, have)
	require.Equal(t, script(t, "", "", "4+0"), script(t, "", "", "4"))
	require.Equal(t, "0/1", script(t, "0/1", "", "4+1"))
}

// Each line, and each test, is in one share.
func TestScriptParts(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a_test.go"), []byte(`package a
func TestMain(m *testing.M) { os.Exit(0) }
func TestC(t *testing.T) {
	long(t)
}
func TestA(t *testing.T) {}
func TestCases(t *testing.T) {
	if share.Has(1) {
		return
	}
}
func TestRows(t *testing.T) { matrix(t, rows) }
func TestB(t *testing.T) {
}
`), 0o644))
	lines, tests, run := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range 2 {
		s := fmt.Sprintf("%d/2", i)
		for _, line := range strings.Fields(script(t, s, "x\ny\nz\n", "2", "lines")) {
			lines[line]++
		}
		pattern := regexp.MustCompile(script(t, s, "", "2", "tests", dir))
		skip := regexp.MustCompile(script(t, s, "", "2", "rest", dir))
		for _, name := range []string{"TestA", "TestB", "TestC", "TestCases", "TestRows"} {
			if pattern.MatchString(name) {
				tests[name]++
			}
			if !skip.MatchString(name) {
				run[name]++
			}
		}
	}
	require.Equal(t, map[string]int{"x": 1, "y": 1, "z": 1}, lines)
	require.Equal(t, map[string]int{"TestA": 1, "TestB": 1, "TestC": 1, "TestCases": 1, "TestRows": 1}, tests)
	// These two have cases of all shares.
	require.Equal(t, map[string]int{"TestA": 1, "TestB": 1, "TestC": 1, "TestCases": 2, "TestRows": 2}, run)
	everything := regexp.MustCompile(script(t, "0/1", "", "2", "rest", dir))
	require.False(t, everything.MatchString("TestA"))
}
