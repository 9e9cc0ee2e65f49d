package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// command builds nicless, and returns its path.
var command = sync.OnceValues(func() (string, error) {
	out := filepath.Join(scratch, "nicless")
	said, err := exec.Command("go", "build", "-o", out, "../../cmd/nicless").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, said)
	}
	return out, nil
})

// engine starts an engine in a process of its own, with flags, and returns its socket.
func engine(t *testing.T, flags ...string) (socket string) {
	t.Helper()
	socket, _ = engineProcess(t, flags...)
	return socket
}

// engineProcess starts an engine in a process of its own, and returns that, too.
func engineProcess(t *testing.T, flags ...string) (socket string, e *program) {
	t.Helper()
	nicless, err := command()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "ng") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	e = start(t, nil, append([]string{nicless, "engine", "--socket", socket}, flags...)...)
	// When its socket is there, it still opens descriptors, which tests compare later.
	e.awaits(t, "the engine is ready", func() bool { return strings.Contains(e.said.String(), "engine ready at ") })
	return socket, e
}

// The kernels of accel/cuda post to an engine in another process, with no GPU and no NIC, and all words
// arrive: also if their stores are seen late.
func TestPosters(t *testing.T) {
	t.Parallel()
	poster, launch := compile(t, "../../accel/cuda/poster.cu"), compile(t, "../../accel/cuda/launch.cu")
	socket := engine(t)
	said := start(t, nil, poster, socket, "200").succeeds(t)
	require.Contains(t, said, "many blocks     256 parties of 32 lanes,     1024 rounds")
	require.Contains(t, start(t, nil, launch, socket).succeeds(t), "200 WRITEs, each by three kernels: ok\n")
	for _, seed := range []string{"1", "2", "3"} {
		start(t, []string{"NICLESS_GPU_ORDER=" + seed}, poster, socket, "5").succeeds(t)
	}
}

// PEs of the put library, each a process with a GPU of its own, put into each other's memory by kernels, and
// all words arrive: also if their stores are seen late.
func TestGPUPut(t *testing.T) {
	t.Parallel()
	program := compile(t, "../../examples/gpuput/gpuput.cu")
	socket := engine(t)
	said := start(t, nil, program, socket, "3").succeeds(t)
	require.Contains(t, said, "gpuput: 3 PEs, 20 rounds of 1500 words and 240 tickets: ok\n")
	for _, seed := range []string{"1", "2", "3"} {
		start(t, []string{"NICLESS_GPU_ORDER=" + seed}, program, socket, "2", "2").succeeds(t)
	}
}

// A program that makes its queues by libmlx5 and posts to them from kernels, as RDMaxcel's do, runs: the
// library for verbs programs and that of the GPU are in one process.
func TestVerbsAndKernels(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/include/infiniband/mlx5dv.h"); err != nil {
		proctest.Missing(t, "the headers of rdma-core are not installed (Debian: apt install libibverbs-dev)")
	}
	program := compile(t, "../../examples/rdmaxcel/rdmaxcel.c", "-lmlx5", "-libverbs")
	nicless, err := command()
	require.NoError(t, err)
	verbsLibrary(t)
	dir, err := os.MkdirTemp("", "ng")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := start(t, []string{"XDG_RUNTIME_DIR=" + dir}, nicless, "run", "--gpu", "--private", "--", program)
	require.Contains(t, run.succeeds(t), "rdmaxcel: 200 writes, 200 with immediate: ok\n")
}
