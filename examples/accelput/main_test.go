package main

import (
	"os"
	"os/exec"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If this environment variable is set, the test binary runs the program.
const asProgram = "NICLESS_TEST_RUN_ACCELPUT"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	ctx := await.Context(t)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	b, _ := cmd.CombinedOutput()
	return string(b), cmd.ProcessState.ExitCode()
}

func TestAccelput(t *testing.T) {
	out, code := program(t)
	require.Zero(t, code, out)
	assert.Regexp(t, `(?m)^  00  00 00 00 08 (.. ){3}03 00 00 00 08 00 00 00 00  control`, out)
	assert.Regexp(t, `(?m)^  10  .*40 (.. ){4}00 00 00 00  remote address and key`, out)
	assert.Regexp(t, `(?m)^  20  00 00 00 08 `, out)
	assert.Regexp(t, `(?m)^  00  00 00 00 00 00 00 00 01 .*count of receives, of send blocks`, out)
	assert.Regexp(t, `(?m)^  30  .* 08 (.. ){3}00 00 00 00  time`, out)
	assert.Regexp(t, `(?m)^  00  38 20 62 79 74 65 73 21 +8 bytes!$`, out)
}

func TestUsage(t *testing.T) {
	out, code := program(t, "more")
	assert.Equal(t, 2, code)
	assert.Equal(t, "accelput: error: \"more\" is not an option; there are none\n", out)
	out, code = program(t, "-h")
	assert.Zero(t, code)
	assert.Contains(t, out, "usage: accelput\n")
}
