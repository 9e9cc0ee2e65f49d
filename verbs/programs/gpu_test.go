package programs

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The driver of a GPU, whose part a preloaded library plays, accepts registers of the device as I/O memory,
// and pages that it has pinned stay where they are.
func TestGPUDriver(t *testing.T) {
	t.Parallel()
	path := check(t, "gpu")
	driver := filepath.Join(t.TempDir(), "driver.so")
	cc := compiler()
	args := append(cc[1:len(cc):len(cc)], "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", driver, "../check/gpu_driver.c", "-ldl")
	said, err := exec.Command(cc[0], args...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, said)
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			l := newLab(t, append([]string{"--devx", "--explain"}, mode.flags...)...)
			said := l.run("env", "LD_PRELOAD="+preloaded(t, l)+":"+driver, path)
			require.Contains(t, said, "gpu: registers, refused, kept, raced: ok\n")
			require.Contains(t, said, "the driver of a GPU has pinned them; make the umem or the queue first")
			l.works()
		})
	}
}

// The library of accel/cuda for programs that allocate their queues in GPU memory gives them memory that the
// engine shares, with a stub of the CUDA runtime.
func TestHostMemoryForGPUPrograms(t *testing.T) {
	t.Parallel()
	const cuda = repository + "/accel/cuda"
	path := check(t, "hostmem")
	dir := t.TempDir()
	l := newLab(t, "--devx")
	preload := preloaded(t, l)
	for _, source := range []string{cuda + "/hostmem.c", cuda + "/stub/cudart.c"} {
		library := filepath.Join(dir, filepath.Base(source)+".so")
		cc := compiler()
		args := append(cc[1:len(cc):len(cc)], "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", cuda+"/stub", "-o", library, source, "-ldl")
		said, err := exec.Command(cc[0], args...).CombinedOutput()
		require.NoError(t, err, "%v: %s", args, said)
		preload += ":" + library
	}
	require.Equal(t, "hostmem: ok\n", l.run("env", "LD_PRELOAD="+preload, path))
	l.works()
}
