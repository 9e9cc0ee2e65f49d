//go:build linux && (amd64 || arm64)

package niclesstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program in another module tests its error path by this package, and a test that leaves something fails
// there. A bubble that waits for nothing ends at once.
func TestInAnotherModule(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds another module")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command here")
	}
	dir := t.TempDir()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/external")))
	sums, err := os.ReadFile("../go.sum")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sums, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/put\n\ngo 1.26.0\n\n"+
		"require github.com/nicless/nicless v0.0.0\n\nreplace github.com/nicless/nicless => "+root+"\n"), 0o666))
	run := func(args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-mod=mod"}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off")
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run("-v")
	require.NoError(t, err, out)
	require.Contains(t, out, "--- PASS: TestPutBeyondTheBuffer")
	require.Contains(t, out, "niclesstest: a (QP 0x", "the explanation is logged")
	require.NotContains(t, out, "SKIP")

	out, err = run("-tags", "left", "-run", "TestLeft")
	require.Error(t, err)
	for _, want := range []string{
		"objects were not closed", "PD 0x1 of client 1, made at ", "left_test.go:15",
		"completions were not polled", "wqe 0: success", "wqe 1: ",
		"explanations were not expected", "key-range: ",
		"lines of the trace:",
	} {
		require.Contains(t, out, want)
	}

	out, err = run("-tags", "left", "-run", "TestNeverComes")
	require.Error(t, err)
	require.Contains(t, out, "deadlock: all goroutines in bubble are blocked")
}
