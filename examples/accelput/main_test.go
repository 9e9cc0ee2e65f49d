package main

import (
	"testing"

	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// output runs the program, and returns what it prints.
func output(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := program.Command(t, args...)
	b, _ := cmd.CombinedOutput()
	return string(b), cmd.ProcessState.ExitCode()
}

func TestAccelput(t *testing.T) {
	out, code := output(t)
	require.Zero(t, code, out)
	assert.Regexp(t, `(?m)^  00  00 00 00 08 (.. ){3}03 00 00 00 08 00 00 00 00  control`, out)
	assert.Regexp(t, `(?m)^  10  .*40 (.. ){4}00 00 00 00  remote address and key`, out)
	assert.Regexp(t, `(?m)^  20  00 00 00 08 `, out)
	assert.Regexp(t, `(?m)^  00  00 00 00 00 00 00 00 01 .*count of receives, of send blocks`, out)
	assert.Regexp(t, `(?m)^  30  .* 08 (.. ){3}00 00 00 00  time`, out)
	assert.Regexp(t, `(?m)^  00  38 20 62 79 74 65 73 21 +8 bytes!$`, out)
}

func TestUsage(t *testing.T) {
	out, code := output(t, "more")
	assert.Equal(t, 2, code)
	assert.Equal(t, "accelput: error: \"more\" is not an option; there are none\n", out)
	out, code = output(t, "-h")
	assert.Zero(t, code)
	assert.Contains(t, out, "usage: accelput\n")
}
