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

// mpiProgram compiles verbs/check/mpi.c with an implementation's compiler.
func mpiProgram(t *testing.T, of string) string {
	t.Helper()
	compiler := "mpicc." + of
	if _, err := exec.LookPath(compiler); err != nil {
		proctest.Missing(t, "%v (Debian: apt install lib%s-dev)", err, of)
	}
	return builtOnce("mpi."+of, func(path string) {
		said, err := exec.Command(compiler, "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-O2", "-g", "-o", path,
			"../check/mpi.c", "../check/check.c", "-libverbs").CombinedOutput()
		require.NoError(t, err, "%s:\n%s", compiler, said)
	})
}
