package programs

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// mpis are ways to start a program of MPI with a number of processes: the implementation, what
// comes before the arguments of mpirun, and these.
var mpis = []struct{ of, before, arguments string }{
	{"mpich", "", ""}, // as people start it: UCX chooses
	{"mpich", "env UCX_TLS=rc_v,self UCX_NET_DEVICES=nicless0:1 ", ""},
	{"openmpi", "", ""},
	{"openmpi", "", "--mca pml ucx "},
	{"openmpi", "env UCX_TLS=rc_v,self UCX_NET_DEVICES=nicless0:1 ", "--mca pml ucx "},
	{"mpich", "env UCX_TLS=ud_v,self UCX_NET_DEVICES=nicless0:1 ", ""},
	{"mpich", "env UCX_TLS=rc_x,self UCX_NET_DEVICES=nicless0:1 ", ""},
	{"mpich", "env UCX_TLS=ud_x,self UCX_NET_DEVICES=nicless0:1 ", ""},
	{"mpich", "env UCX_TLS=dc_x,self UCX_NET_DEVICES=nicless0:1 ", ""},
	{"openmpi", "env UCX_TLS=rc_x,ud_x,self UCX_NET_DEVICES=nicless0:1 ", "--mca pml ucx "},
	// libfabric over connections. Its other way, ofi_rxd, stops in this program over provider udp
	// too, where there is no device at all.
	{"openmpi", "", "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm "},
}

// Programs of MPI get their data right with 2 and with 4 processes.
func TestMPI(t *testing.T) {
	t.Parallel()
	long(t)
	var rows []row
	for _, m := range mpis {
		path := mpiProgram(t, m.of)
		run := "mpirun." + m.of
		if m.of == "openmpi" {
			run += " --allow-run-as-root --oversubscribe"
		}
		for _, n := range []int{2, 4} {
			rows = append(rows, row{
				client: fmt.Sprintf("%s%s -n %d %s%s", m.before, run, n, m.arguments, path),
				says:   []string{fmt.Sprintf("(?m)^mpi: %d ranks: ok$", n)},
				long:   true,
			})
		}
	}
	matrix(t, rows)
}

// oshrun starts a program of OpenSHMEM. Without the last option the oshmem of Open MPI 4.1.4 crashes when it
// ends, without any device too: its memory hooks call a function of a component that is gone.
const oshrun = "oshrun --allow-run-as-root --oversubscribe --mca memory ^patcher"

// Programs of OpenSHMEM put, get, wait for flags and add, by Open MPI's spml ucx.
func TestOpenSHMEM(t *testing.T) {
	t.Parallel()
	long(t)
	path := shmemProgram(t)
	var rows []row
	for _, s := range []struct {
		before string
		n      int
	}{
		{"", 4},
		{"env UCX_TLS=rc,ud,self UCX_NET_DEVICES=nicless0:1 ", 4},
		{"env UCX_TLS=rc_v,self UCX_NET_DEVICES=nicless0:1 ", 2},
		{"env UCX_TLS=dc_x,self UCX_NET_DEVICES=nicless0:1 ", 2},
	} {
		rows = append(rows, row{
			client: fmt.Sprintf("%s%s -n %d %s", s.before, oshrun, s.n, path),
			says:   []string{fmt.Sprintf("(?m)^shmem: %d PEs: ok$", s.n)},
			more:   true,
		})
	}
	matrix(t, rows)
}

// mpiProgram compiles verbs/check/mpi.c with an implementation's compiler.
func mpiProgram(t *testing.T, of string) string {
	t.Helper()
	return withCompiler(t, "mpicc."+of, "lib"+of+"-dev", "mpi."+of, "../check/mpi.c", "../check/check.c", "-libverbs")
}

// shmemProgram compiles verbs/check/shmem.c with Open MPI's compiler for OpenSHMEM.
func shmemProgram(t *testing.T) string {
	t.Helper()
	return withCompiler(t, "oshcc", "libopenmpi-dev", "shmem", "../check/shmem.c")
}

// withCompiler compiles a program with a compiler that a package of Debian has.
func withCompiler(t *testing.T, compiler, debian, name string, sources ...string) string {
	t.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		proctest.Missing(t, "%v (Debian: apt install %s)", err, debian)
	}
	return builtOnce(name, func(path string) {
		args := append([]string{"-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-O2", "-g", "-o", path}, sources...)
		said, err := exec.Command(compiler, args...).CombinedOutput()
		require.NoError(t, err, "%s:\n%s", compiler, said)
	})
}
