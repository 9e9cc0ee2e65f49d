package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If this environment variable is set, the test binary runs the program. The tests
// therefore test real processes.
const asProgram = "NICLESS_TEST_RUN_WRITE"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx := await.Context(t)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0", "TMPDIR="+t.TempDir())
	return cmd
}

func TestWrite(t *testing.T) {
	cmd := program(t)
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
	out, err := program(t, "--help").Output()
	require.NoError(t, err)
	assert.Equal(t, usage, string(out))
	cmd := program(t, "more")
	require.Error(t, cmd.Run())
	assert.Equal(t, 2, cmd.ProcessState.ExitCode())
}

func TestWriterWithoutEngine(t *testing.T) {
	cmd := program(t, "writer", "/nonexistent/engine.sock")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "write: error: nicless: no engine at /nonexistent/engine.sock")
}

func TestWriterWithoutOwner(t *testing.T) {
	socket := t.TempDir() + "/engine.sock"
	require.NoError(t, startEngine(socket))
	cmd := program(t, "writer", socket)
	cmd.Stdin = strings.NewReader(`{"version":7}`)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, 1, cmd.ProcessState.ExitCode())
	assert.Contains(t, string(out), "write: error: descriptor of the peer: descriptor: version 7; this program knows 1")
}
