package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
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

func TestWrite(t *testing.T) {
	cmd := command(t)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, `(?s)^owner  \(pid \d+\) sends its descriptor
  \{"version":1,.*"name":"mailbox".*
writer \(pid \d+\) has written 28 bytes to the mailbox
owner  \(pid \d+\) finds "hello from the other process"
$`, string(out))
	tmp, _ := strings.CutPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	assert.Empty(t, left, "files left behind")
}

func TestUsage(t *testing.T) {
	out, err := command(t, "--help").Output()
	require.NoError(t, err)
	assert.Equal(t, usage, string(out))
	cmd := command(t, "more")
	require.Error(t, cmd.Run())
	assert.Equal(t, 2, cmd.ProcessState.ExitCode())
}

func TestWriterWithoutEngine(t *testing.T) {
	cmd := command(t, "writer", "/nonexistent/engine.sock")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "write: error: nicless: no engine at /nonexistent/engine.sock")
}

func TestWriterWithoutOwner(t *testing.T) {
	socket := t.TempDir() + "/engine.sock"
	require.NoError(t, startEngine(socket))
	cmd := command(t, "writer", socket)
	cmd.Stdin = strings.NewReader(`{"version":7}`)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "write: error: descriptor of the peer: descriptor: version 7; this program knows 1")
}
