// Package cudatest compiles CUDA programs for tests, by clang and without NVIDIA's tools. They run on
// emulated GPUs. Only tests import it.
package cudatest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/fatbin"
	"github.com/nicless/nicless/internal/proctest"
)

// Libraries builds in dir the libraries that programs find in place of NVIDIA's. root is the root of the
// tree.
func Libraries(root, dir string) error {
	said, err := exec.Command("make", "-C", filepath.Join(root, "cuda"), "OUT="+dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make: %w: %s", err, said)
	}
	return nil
}

// Need skips the test if no program with one of the names is installed, and returns the path of the first.
// In CI it fails instead.
func Need(t *testing.T, names ...string) (path string) {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	proctest.Missing(t, "%s is not installed", names[0])
	return ""
}

// A Compiler compiles and links programs. It needs make, a C compiler and clang: see Ready.
type Compiler struct {
	Root      string // of the tree
	Libraries string // the directory of the libraries
	Out       string // the directory of programs
	Runtime   string // the version of CUDA's runtime in the name of its library; none: "11.0"
	Shared    bool   // what is compiled is a shared library
}

// Ready skips the test if a tool is not installed; in CI the test fails.
func Ready(t *testing.T) {
	t.Helper()
	Need(t, "make")
	Need(t, "cc")
	clang(t)
}

func clang(t *testing.T) string {
	t.Helper()
	return Need(t, "clang++", "clang++-19", "clang++-14")
}

// Compile compiles a source file, and links it with CUDA's runtime and with others, which are arguments for
// the compiler and the linker. The program has the name of the source without its extension.
func (c Compiler) Compile(t *testing.T, source string, others ...string) (program string) {
	t.Helper()
	compiler := clang(t)
	out := filepath.Join(c.Out, strings.TrimSuffix(filepath.Base(source), filepath.Ext(source)))
	other := func(arg string) bool { return !strings.HasPrefix(arg, "-D") }
	defines := slices.DeleteFunc(slices.Clone(others), other)
	flags := []string{
		"-x", "cuda", "--cuda-gpu-arch=sm_80", "-nocudainc", "-nocudalib", "-Xclang", "-target-sdk-version=11.5",
		"-I" + filepath.Join(c.Root, "accel/cuda/stub"), "-include", "cuda_runtime.h",
		"-I" + filepath.Join(c.Root, "include"), "-std=c++17", "-O2", "-g",
		"-Wall", "-Wextra", "-Werror", "-Wno-unknown-cuda-version",
	}
	flags = append(flags, defines...)
	run := func(args ...string) {
		t.Helper()
		said, err := exec.Command(compiler, args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, said)
	}
	device := []string{"--cuda-device-only", "-Xclang", "-target-feature", "-Xclang", "+ptx70", "-S"}
	if c.Shared {
		flags = append(flags, "-fPIC")
	}
	host := []string{"--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", out + ".fatbin", "-c"}
	run(slices.Concat(flags, device, []string{source, "-o", out + ".ptx"})...)
	ptx, err := os.ReadFile(out + ".ptx")
	require.NoError(t, err)
	entry, err := fatbin.Entry(string(ptx))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(out+".fatbin", fatbin.Container(entry), 0o600))
	run(slices.Concat(flags, host, []string{source, "-o", out + ".o"})...)
	runtime := "-l:libcudart.so." + cmp.Or(c.Runtime, "11.0")
	link := []string{"-o", out, out + ".o", "-L" + c.Libraries, runtime}
	if c.Shared {
		link = append(link, "-shared")
	}
	run(append(link, others...)...)
	return out
}
