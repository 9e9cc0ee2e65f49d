package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// The matrix of UCX: two versions, each with its rdma-core; the transports by which UCX posts itself; queues
// that UCX makes by firmware commands (DEVX) and by verbs. UCX is told which of the two, so that it fails
// where it would take the other one silently.

// A maker is a way in which UCX makes its queues.
type maker struct {
	devx   string   // the value of UCX_IB_MLX5_DEVX
	engine []string // flags of the engine
}

var makers = []maker{{"no", []string{"--no-devx"}}, {"yes", []string{"--devx"}}}

// A ucxTest is a test of ucx_perftest: the transports' own ones first, and those of endpoints.
type ucxTest struct {
	name, options string
	atomic        bool // of the transport itself
}

// ucxMatrixTests are short: they find out what works, not how fast. tag, stream and wake choose the transport
// by UCX_TLS. The last three sleep between messages until the device wakes them by an event.
var ucxMatrixTests = []ucxTest{
	{"put_short", "-t put_lat -D short -s 8 -n 100 -w 10", false},
	{"put_bcopy", "-t put_lat -D bcopy -s 1024 -n 100 -w 10", false},
	{"put_zcopy", "-t put_bw -D zcopy -s 65536 -n 50 -w 2", false},
	{"get_bcopy", "-t get -D bcopy -s 1024 -n 100 -w 10", false},
	{"get_zcopy", "-t get -D zcopy -s 65536 -n 50 -w 2", false},
	{"am_short", "-t am_lat -D short -s 8 -n 100 -w 10", false},
	{"am_bcopy", "-t am_bw -D bcopy -s 1024 -n 100 -w 10", false},
	{"am_zcopy", "-t am_bw -D zcopy -s 4096 -n 100 -w 10", false},
	{"fadd", "-t fadd -s 8 -n 100 -w 10", true},
	{"cswap", "-t cswap -s 8 -n 100 -w 10", true},
	{"add", "-t add_mr -s 8 -n 100 -w 10", true},
	{"ucp_put", "-t ucp_put_bw -s 65536 -n 20 -w 2", false},
	{"ucp_get_short", "-t ucp_get -s 8 -n 100 -w 10", false},
	{"ucp_get_long", "-t ucp_get -s 1048576 -n 5 -w 1", false},
	{"tag_short", "-t tag_lat -s 8 -n 100 -w 10", false},
	{"tag_long", "-t tag_bw -s 1048576 -n 5 -w 1", false},
	{"stream_short", "-t stream_lat -s 8 -n 100 -w 10", false},
	{"stream_long", "-t stream_bw -s 1048576 -n 5 -w 1", false},
	{"wake_am", "-t ucp_am_lat -E sleep -s 8 -n 50 -w 5", false},
	{"wake_tag", "-t tag_lat -E sleep -s 8 -n 50 -w 5", false},
	{"wake_long", "-t tag_lat -E sleep -s 65536 -n 20 -w 2", false},
}

// A ucxVersion is a UCX, and the rdma-core that it uses.
type ucxVersion struct {
	name string
	root func(t *testing.T) debianRoot
	// UCX 1.18 without DEVX writes 8 to 2040 bytes beside the target of its transports' atomics: it adds an
	// offset to their addresses that only keys made by DEVX have (uct_ib_verbs_mkey_pack, rc_mlx5_ep.c 813).
	noAtomics map[string]bool // by the value of UCX_IB_MLX5_DEVX
}

var ucxVersions = []ucxVersion{
	{"UCX 1.13 of Debian 12", hostRoot, nil},
	{"UCX 1.18 of Debian 13", newerUCX, map[string]bool{"no": true}},
}

// Every operation of UCX, in two versions, works over queues made by DEVX and over those made by verbs.
func TestUCXMatrix(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "ucx_perftest")
	data := check(t, "ucp")
	for _, m := range makers {
		t.Run("DEVX="+m.devx, func(t *testing.T) {
			t.Parallel()
			l := newLabAt(t, places()[0], m.engine...)
			for i, v := range ucxVersions {
				for j, transport := range []string{"rc_mlx5", "dc_mlx5"} {
					if !share.Has(2*i + j) {
						continue // both makers, so that each commit runs both
					}
					t.Run(v.name+"/"+transport, func(t *testing.T) {
						t.Parallel()
						root := v.root(t)
						allTests(t, root, transport, m, v.noAtomics[m.devx]).run(l.with(t))
						if root.dir == "" && m.devx == "no" {
							return // TestUCXData does the rest
						}
						bytes := row{
							client: ucxEnvironment(transport, m) + root.environment + root.program(data),
							says:   []string{"(?m)^ucp: .*: ok$"},
						}
						bytes.run(l.with(t))
					})
				}
			}
		})
	}
}

// ucxEnvironment lets UCX use one transport, and make its queues in one way.
func ucxEnvironment(transport string, m maker) string {
	// Of the two names of a transport, this one includes the datagrams by which endpoints are connected.
	short := strings.TrimSuffix(transport, "_mlx5") + "_x"
	return fmt.Sprintf("env UCX_TLS=%s,self UCX_NET_DEVICES=nicless0:1 UCX_IB_MLX5_DEVX=%s ", short, m.devx)
}

// allTests runs all tests of ucxMatrixTests in two processes.
func allTests(t *testing.T, root debianRoot, transport string, m maker, noAtomics bool) row {
	t.Helper()
	var batch strings.Builder
	var says []string
	for _, test := range ucxMatrixTests {
		if test.atomic && noAtomics {
			continue
		}
		fmt.Fprintf(&batch, "%s %s\n", test.name, test.options)
		says = append(says, `(?m)^`+regexp.QuoteMeta(test.name)+`,(\s*([0-9.]+|inf),){7}\s*[0-9.]+$`)
	}
	file := filepath.Join(t.TempDir(), "batch")
	require.NoError(t, os.WriteFile(file, []byte(batch.String()), 0o600))
	line := ucxEnvironment(transport, m) + root.environment +
		root.program(root.path("/usr/bin/ucx_perftest"), root.options...) +
		" -x " + transport + " -d nicless0:1 -p PORT -b " + file
	return row{server: line, ready: listensTCP, client: line + " -f -v ADDR", says: says}
}

// Programs of MPI and OpenSHMEM work over queues that UCX makes by DEVX, and over those made by verbs.
func TestUCXMatrixMPI(t *testing.T) {
	t.Parallel()
	long(t)
	mpi, shmem := mpiProgram(t, "openmpi"), shmemProgram(t)
	const mpirun = "mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ucx"
	for _, m := range makers {
		t.Run("DEVX="+m.devx, func(t *testing.T) {
			t.Parallel()
			l := newLabAt(t, places()[0], m.engine...)
			for i, transport := range []string{"rc_mlx5", "dc_mlx5"} {
				for j, r := range []row{
					{client: mpirun + " -n 2 " + mpi, says: []string{"(?m)^mpi: 2 ranks: ok$"}},
					{client: oshrun + " -n 2 " + shmem, says: []string{"(?m)^shmem: 2 PEs: ok$"}},
				} {
					if !share.Has(2*i + j) {
						continue
					}
					t.Run(strings.Fields(r.client)[0]+"/"+transport, func(t *testing.T) {
						t.Parallel()
						r.client = ucxEnvironment(transport, m) + r.client
						r.run(l.with(t))
					})
				}
			}
		})
	}
}
