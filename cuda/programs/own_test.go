package programs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program that brings its own libcuda.so.1 gets that of the emulated GPUs, wherever it says that it is. One
// that it loads by another name is named, with what to do.
func TestOwnLibraries(t *testing.T) {
	t.Parallel()
	verbsLibrary(t)
	dir := t.TempDir()
	bring := func(name, soname string) string {
		path := filepath.Join(dir, name)
		made := compileC(t, "testdata/theirs.c", "-shared", "-fPIC", "-Wl,-soname,"+soname)
		require.NoError(t, os.Rename(made, path))
		return path
	}
	theirs := bring("libcuda.so.1", "libcuda.so.1")
	renamed, old := bring("driver.so", "libcuda.so.1"), bring("libcudart.so.10.2", "libcudart.so.10.2")
	opening := compileC(t, "testdata/own.c")
	linked := func(flag string) []string {
		return []string{compileC(t, "testdata/own.c", "-DLINKED", theirs, flag, "-Wl,-rpath,"+dir)}
	}
	for name, argv := range map[string][]string{
		"RPATH":                        linked("-Wl,--disable-new-dtags"),
		"RUNPATH":                      linked("-Wl,--enable-new-dtags"),
		"a path":                       {opening, theirs},
		"LD_LIBRARY_PATH, before":      {opening, "libcuda.so.1", dir},
		"LD_LIBRARY_PATH, for a child": {opening, "libcuda.so.1", dir, "1"},
		"no version":                   {opening, "libcuda.so"},
		"the version of NVIDIA's file": {opening, filepath.Join(dir, "libcuda.so.550.54.14")},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, "cuInit: 0\n", runOnGPU(t, argv...)) })
	}
	for path, soname := range map[string]string{renamed: "libcuda.so.1", old: "libcudart.so.10.2"} {
		said := runOnGPU(t, opening, path)
		require.Contains(t, said, "the program has loaded "+path+", which is "+soname+", but not that of the emulated")
		require.Contains(t, said, "there are libcuda.so.1, ")
		require.Contains(t, said, "cuInit: 100\n")
	}
}

// runOnGPU runs a program by nicless run --gpu, with an engine of its own, and returns what it has printed.
func runOnGPU(t *testing.T, argv ...string) string {
	t.Helper()
	nicless, err := command()
	require.NoError(t, err)
	libraries, err := libraries()
	require.NoError(t, err)
	run := append([]string{nicless, "run", "--gpu", "--private", "--"}, argv...)
	return start(t, []string{"NICLESS_GPU_LIBRARIES=" + libraries, "LD_LIBRARY_PATH="}, run...).succeeds(t)
}
