//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// If this environment variable is set, the test binary runs the program.
const asProgram = "NICLESS_TEST_RUN_POOLPOST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(await.Context(t), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "TMPDIR="+t.TempDir())
	return cmd
}

func TestPoolpost(t *testing.T) {
	out, err := program(t).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `^(poster \d \(pid \d+\) has posted 1001 requests
){2}poster 0 has got "greetings from poster 1, through memory alone"
poster 1 has got "greetings from poster 0, through memory alone"
the counter is 2000: no addition of the two is lost
$`, string(out))
}

// Layouts that are not those of this memory are refused.
func TestWrongLayouts(t *testing.T) {
	pool := t.TempDir() + "/pool"
	require.NoError(t, os.WriteFile(pool, make([]byte, poolSize), 0o600))
	for in, want := range map[string]string{"": "layouts: EOF", "[]": "poolpost: error: "} {
		cmd := program(t, "poster", "1", pool)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, in)
		require.Contains(t, string(out), want)
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
	}
}

func TestUsage(t *testing.T) {
	out, err := program(t, "-h").Output()
	require.NoError(t, err)
	require.Equal(t, usage, string(out))
	cmd := program(t, "poster", "2", "x")
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
}
