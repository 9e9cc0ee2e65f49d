package programs

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cudatest"
)

// Two runtimes in one process, each with the fat binary of its own library, share devices, memory and
// streams. Kernels, variables and errors are those of their runtime, though stubs and shadows are the same.
func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	cudatest.Ready(t)
	dir, err := libraries()
	require.NoError(t, err)
	var parts []string
	for _, runtime := range []string{"11.0", "12"} {
		c := cudatest.Compiler{Root: root, Libraries: dir, Out: t.TempDir(), Runtime: runtime, Shared: true}
		parts = append(parts, c.Compile(t, "testdata/part.cu", "-DPART="+runtime[:2]))
	}
	linked := compileC(t, "testdata/runtimes.c", append(parts, "-Wl,-rpath-link,"+dir)...)
	require.Equal(t, "ok\n", start(t, nil, linked).succeeds(t))
	opening := compileC(t, "testdata/runtimes.c", "-DOPEN")
	require.Equal(t, "ok\n", start(t, nil, append([]string{opening}, parts...)...).succeeds(t))
}

// compileC compiles a program of C, with arguments for the compiler and the linker.
func compileC(t *testing.T, source string, others ...string) (program string) {
	t.Helper()
	cc := cudatest.Need(t, "cc")
	program = filepath.Join(t.TempDir(), "program")
	args := append([]string{"-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", program, source}, others...)
	said, err := exec.Command(cc, append(args, "-ldl", "-lpthread")...).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return program
}
