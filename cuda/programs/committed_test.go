package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cudatest"
	"github.com/nicless/nicless/internal/proctest"
)

// The PTX that clang has made for the tests of package accel is what its sources are today.
func TestCommittedPTX(t *testing.T) {
	const of = "clang version 14." // others make another text
	clang := cudatest.Need(t, "clang", "clang-14")
	version, err := exec.Command(clang, "--version").Output()
	require.NoError(t, err)
	if !strings.Contains(string(version), of) {
		proctest.Missing(t, "%s is %q, not %s*", clang, version, of)
	}
	for name, dir := range map[string]string{"gpuput": "examples/gpuput", "bytes": "accel/cuda"} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			said, err := exec.Command("make", "-s", "-C", filepath.Join(root, dir), "ptx", "OUT="+out, "CLANG="+clang).CombinedOutput()
			require.NoError(t, err, "%s", said)
			now, err := os.ReadFile(filepath.Join(out, name+".ptx"))
			require.NoError(t, err)
			committed, err := os.ReadFile(filepath.Join(root, "accel/testdata", name+".ptx"))
			require.NoError(t, err)
			require.Equal(t, string(committed), string(now), "make -C %s ptx, and copy %s.ptx to accel/testdata", dir, name)
		})
	}
}
