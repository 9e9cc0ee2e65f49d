package include

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// The CUDA programs compile to PTX, in which the publishes, observes and fences of the poster
// have system scope. The code is not run, because that needs a GPU.
func TestCUDACompiles(t *testing.T) {
	clang := ""
	for _, name := range []string{"clang", "clang-19", "clang-18", "clang-17"} {
		if _, err := exec.LookPath(name); err == nil {
			clang = name
			break
		}
	}
	if _, err := exec.LookPath("make"); err != nil || clang == "" {
		t.Skip("no clang, or no make: accel/cuda is not compiled")
	}
	out, err := exec.Command("make", "-C", "../accel/cuda", "check-syntax", "CLANG="+clang, "OUT="+t.TempDir()).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "check-syntax: sm_80: ")
}
