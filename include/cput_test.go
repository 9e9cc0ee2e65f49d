package include

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cput compiles examples/cput with the command from its first comment.
func cput(t *testing.T) string {
	t.Helper()
	languages[0].build(t, "client") // skips, or fails in CI, without a compiler
	out := filepath.Join(t.TempDir(), "cput")
	said, err := exec.Command("gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-I.", "-o", out, "../examples/cput/cput.c").CombinedOutput()
	require.NoError(t, err, "%s", said)
	return out
}

func TestCPut(t *testing.T) {
	path, socket := cput(t), serve(t)
	const wqe = `(?s)^00 00 00 08 (?:[0-9a-f]{2} ){3}03 00 00 00 %s 00 00 00 00\n` +
		`(?:[0-9a-f]{2} ){12}00 00 00 00\n00 00 00 08 .*\nput 0123456789abcdef from 0x[0-9a-f]+ to 0x[0-9a-f]+\n$`
	out, err := run(t, path, socket)
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, fmt.Sprintf(wqe, "08"), out)
	out, err = run(t, path, "-rdmaxcel", socket)
	require.NoError(t, err, "%s", out)
	assert.Regexp(t, fmt.Sprintf(wqe, "0a"), out, "signaled is solicited there")
}

// 200 puts pass through rings of 64 entries, so blocks have to be freed.
func TestCPutFreesItsBlocks(t *testing.T) {
	path, socket := cput(t), serve(t)
	for _, args := range [][]string{{"-n", "200", socket}, {"-rdmaxcel", "-n", "200", socket}} {
		out, err := run(t, path, args...)
		require.NoError(t, err, "%v: %s", args, out)
		assert.Contains(t, out, "\nput 0123456789abceb6 from ", "the last of 200 values")
	}
}

func TestCPutWithoutEngine(t *testing.T) {
	out, err := run(t, cput(t), "/nonexistent/engine.sock")
	require.Error(t, err)
	assert.Equal(t, "cput: error: no engine at /nonexistent/engine.sock: No such file or directory\n", out)
}
