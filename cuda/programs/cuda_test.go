package programs

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/cudatest"
)

// A program that calls CUDA's runtime gets what it expects.
func TestRuntime(t *testing.T) {
	t.Parallel()
	path := compile(t, "testdata/runtime.cu")
	said := start(t, nil, path, "all").succeeds(t)
	require.Contains(t, said, "kernel: 42, text, 1.5\n")
	require.Contains(t, said, "add(unsigned int*, unsigned int, unsigned int): impossible launch: blocks of [2000 1 1] threads; at most 1024 by 1024 by 64 are possible")
	require.Contains(t, said, "ok\n")
}

// The mistake of a kernel is named, with its place, and stays the error of its device.
func TestFaults(t *testing.T) {
	t.Parallel()
	path := compile(t, "testdata/runtime.cu")
	for part, why := range map[string]string{
		"address":    "4 bytes at global address 0x40 cannot be reached",
		"beyond":     "cannot be reached",
		"misaligned": "is not a multiple of 4 bytes",
		"assert":     "runtime.cu:1: refuse: Assertion `n == 0' failed",
	} {
		said := start(t, nil, path, part).succeeds(t)
		require.Contains(t, said, why)
		require.Regexp(t, `: (store_to\(unsigned int\*\)|refuse\(int\)), block \[0 0 0\], thread 0, at `, said)
		require.Contains(t, said, "ok\n")
	}
}

// A program that returns from main while its kernel runs ends at once, without a complaint.
func TestLeaves(t *testing.T) {
	t.Parallel()
	said := start(t, nil, compile(t, "testdata/runtime.cu"), "leave").succeeds(t)
	require.Equal(t, "it runs\nok\n", said)
}

// A program that loads its kernels by CUDA's driver gets what it expects.
func TestDriver(t *testing.T) {
	t.Parallel()
	cc := cudatest.Need(t, "cc")
	path := filepath.Join(t.TempDir(), "driver")
	said, err := exec.Command(cc, "-std=gnu11", "-o", path, "testdata/driver.c", "-ldl", "-lpthread").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, start(t, nil, path).succeeds(t), "ok\n")
}

// The runtime initialises the driver, so a library may call the driver without cuInit.
func TestRuntimeInitialisesDriver(t *testing.T) {
	t.Parallel()
	cc := cudatest.Need(t, "cc")
	dir, err := libraries()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "both")
	said, err := exec.Command(cc, "-std=gnu11", "-Wno-strict-prototypes", "-o", path, "testdata/both.c", "-L"+dir,
		"-l:libcudart.so.11.0", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, start(t, nil, path).succeeds(t), "ok\n")
}

// A program that asks for the topology of the GPUs gets what it expects.
func TestNVML(t *testing.T) {
	t.Parallel()
	cc := cudatest.Need(t, "cc")
	path := filepath.Join(t.TempDir(), "nvml")
	said, err := exec.Command(cc, "-std=gnu11", "-o", path, "testdata/nvml.c", "-ldl").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, start(t, nil, path).succeeds(t), "ok\n")
}

// The private tables by which CUDA's static runtime calls the driver do what it expects. Slots that are not
// served are named.
func TestTables(t *testing.T) {
	t.Parallel()
	cc := cudatest.Need(t, "cc")
	path := filepath.Join(t.TempDir(), "tables")
	said, err := exec.Command(cc, "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I../driver", "-o", path,
		"testdata/tables.c", "../driver/digest.c", "-ldl", "-lpthread").CombinedOutput()
	require.NoError(t, err, "%s", said)
	printed := start(t, nil, path).succeeds(t)
	require.Contains(t, printed, "ok\n")
	for _, slot := range []string{
		"slot 1 of the driver's private table 42d85a81-23f6-cb47-8298-f6e78a3aecdc",
		"slot 3 of the driver's private table c693336e-1121-df11-a8c3-68f355d89593",
		"slot 11 of the driver's private table 6bd5fb6c-5bf4-e74a-8987-d93912fd9df9",
	} {
		require.Equal(t, 1, strings.Count(printed, slot), printed)
	}
	require.Contains(t, printed, "do not have the driver's private table 00112233-4455-6677-8899-aabbccddeeff")
	require.Contains(t, printed, "the unknown parameters (nil), (nil) and 1")
	require.NotContains(t, printed, "f8cff951")
}

// A program whose kernel never ends is ended by signals, as any other.
func TestEndlessKernel(t *testing.T) {
	t.Parallel()
	path := compile(t, "testdata/runtime.cu")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		r := start(t, nil, path, "endless")
		r.awaits(t, "the kernel runs", func() bool { return r.said.Len() > 0 })
		require.NoError(t, r.cmd.Process.Signal(s))
		_, err := r.ends(t)
		require.ErrorContains(t, err, "signal: "+s.String())
	}
}
