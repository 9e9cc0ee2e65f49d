package include

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The CUDA programs compile to PTX, in which a post has one fence of system scope: docs/CUDA.md has the
// numbers. The code is not run, because that needs a GPU.
func TestCUDACompiles(t *testing.T) {
	clang := ""
	for _, name := range []string{"clang", "clang-19", "clang-18", "clang-17", "clang-14"} {
		if _, err := exec.LookPath(name); err == nil {
			clang = name
			break
		}
	}
	if _, err := exec.LookPath("make"); err != nil || clang == "" {
		t.Skip("no clang, or no make: accel/cuda is not compiled")
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		argv := append([]string{"-C", "../accel/cuda", "CLANG=" + clang, "OUT=" + dir}, args...)
		out, err := exec.Command("make", argv...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	said := run("check-syntax")
	// The third release publishes a copy of freed, which a post does only when the ring looks full.
	require.Contains(t, said, "check-syntax: sm_80: post: 1 atom.acquire.gpu 1 fence.acq_rel.sys 2 fence.sc.gpu 3 ld.acquire.gpu 3 st.release.gpu\n")
	require.Contains(t, said, "check-syntax: sm_80: look: 1 atom.release.gpu 1 ld.acquire.gpu 1 ld.acquire.sys\n")

	// A program whose posters are more than one GPU has one scope.
	run("ptx", `FLAGS=-DNICLESS_POSTER_SCOPE='"sys"'`)
	ptx, err := os.ReadFile(filepath.Join(dir, "post.ptx"))
	require.NoError(t, err)
	require.Contains(t, string(ptx), "fence.sc.sys;")
	require.NotContains(t, string(ptx), ".gpu.")
}
