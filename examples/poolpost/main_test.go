//go:build linux && (amd64 || arm64)

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// command runs the program with a folder of its own for temporary files.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program.Command(t, args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	return cmd
}

func TestPoolpost(t *testing.T) {
	out, err := command(t).CombinedOutput()
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
		cmd := command(t, "poster", "1", pool)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		require.Error(t, err, in)
		require.Contains(t, string(out), want)
		require.Equal(t, 1, cmd.ProcessState.ExitCode())
	}
}

func TestUsage(t *testing.T) {
	out, err := command(t, "-h").Output()
	require.NoError(t, err)
	require.Equal(t, usage, string(out))
	cmd := command(t, "poster", "2", "x")
	require.Error(t, cmd.Run())
	require.Equal(t, 2, cmd.ProcessState.ExitCode())
}
