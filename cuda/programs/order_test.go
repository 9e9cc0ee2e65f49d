package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/shimtest"
)

// If the engine has found a WQE wrong, nicless run --gpu-order names, with its explanation, the store that
// came before those of the WQE. It says nothing of a program that is right, though its stores come late too.
func TestOrderIsReported(t *testing.T) {
	t.Parallel()
	unfenced, launch := compile(t, "testdata/unfenced.cu"), compile(t, "../../accel/cuda/launch.cu")
	verbsLibrary(t)
	early := lineOf(t, "testdata/unfenced.cu", "*record = nicless_be32")
	socket := engine(t, "--verbs")
	nicless, err := command()
	require.NoError(t, err)
	run := func(seed int, program string) (said string, err error) {
		libraries, err := libraries()
		require.NoError(t, err)
		return start(t, []string{"NICLESS_GPU_LIBRARIES=" + libraries}, nicless, "run", "--engine", socket,
			"--gpu", "--gpu-order", fmt.Sprint(seed), "--", program, socket).ends(t)
	}
	for seed := 1; ; seed++ {
		said, err := run(seed, unfenced)
		if err == nil && seed < 50 { // the engine had no core while the stores were late
			continue
		}
		var status *exec.ExitError
		require.True(t, errors.As(err, &status), "seed %d: %v: %s", seed, err, said)
		require.Equal(t, 1, status.ExitCode(), said)
		require.Regexp(t, `nicless: explanation: pid \d+ \(unfenced\): [a-z-]+: .*
nicless: order: the system has seen the store of post\(wqe_params_t\), \S+/unfenced\.cu:`+early+` \(PTX line \d+\) before that of post\(wqe_params_t\), \S+/base\.h:\d+ `+
			`\(PTX line \d+\), to address 0x\w+, which only the \w+ had seen: between them there is no fence\.acq_rel\.sys`, said)
		break
	}
	said, err := run(1, launch)
	require.NoError(t, err, said)
	require.NotContains(t, said, "order:")
}

// lineOf returns the number of the line of a file that contains a text.
func lineOf(t *testing.T, file, text string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(b), text)
	require.True(t, found)
	return strconv.Itoa(strings.Count(before, "\n") + 1)
}

// verbsLibrary builds the library that nicless run preloads, beside nicless.
func verbsLibrary(t *testing.T) {
	t.Helper()
	require.NoError(t, shimtest.Build(root, filepath.Join(scratch, "libnicless_verbs.so")))
}
