package include

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cudatest"
)

// buildForGPU compiles check/golden.c as CUDA, once, and returns the path of a program that runs it with an
// emulated GPU: kernels call the functions of the headers, those of RDMaxcel's interface too.
func buildForGPU(t *testing.T) string {
	t.Helper()
	if path := built["golden for a GPU"]; path != "" {
		return path
	}
	if testing.Short() {
		t.Skip("-short: the libraries of emulated GPUs are not built")
	}
	cudatest.Ready(t)
	dir := filepath.Join(scratch, "gpu")
	require.NoError(t, cudatest.Libraries("..", dir))
	program := cudatest.Compiler{Root: "..", Libraries: dir, Out: scratch}.Compile(t, "check/golden.c")
	script := program + ".sh"
	text := fmt.Sprintf("#!/bin/sh\nLD_LIBRARY_PATH=%s NICLESS_GPU=1 exec %s \"$@\"\n", dir, program)
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	built["golden for a GPU"] = script
	return script
}
