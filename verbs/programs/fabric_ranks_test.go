package programs

import (
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// partOfRank is what each engine adds to the pool: room for rings to 67 others.
const partOfRank = 4 << 20

// exchanged is how many packets of 4096 bytes two ranks send each other at least: the largest exchange with
// all is of 64 KiB, twice.
const exchanged = 2 * 65536 / 4096

// ranksOnEngines starts a program of MPI. Ranks that wait give the processor up, because there are more of
// them than processors, and the engines need those too. MPICH 4.0 has no such option, and takes far longer.
const ranksOnEngines = "env UCX_TLS=rc_x,self UCX_NET_DEVICES=nicless0:1 UCX_IB_GID_INDEX=1 UCX_RNDV_THRESH=16384 " +
	"mpirun.openmpi --allow-run-as-root --oversubscribe --mca pml ucx --mca mpi_yield_when_idle 1 -n"

// runRank is what the launcher starts: a shell that runs the program on an engine of its own. Of the sockets
// behind the program it takes the one that the rank says.
const runRank = `program=$1; shift $((OMPI_COMM_WORLD_RANK + 1)); exec "$0" run --engine "$1" -- "$program"`

// Many engines share a pool, each with one rank of an MPI program, which reduces to all and exchanges with
// all, and gets its data right. Its data went over the pool, between each engine and each other one. -ranks
// says how many there are.
func TestRanksOnEngines(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "mpirun.openmpi")
	path := withCompiler(t, "mpicc.openmpi", "libopenmpi-dev", "collectives",
		"../check/collectives.c", "../check/check.c", "-libverbs")
	engines := newRack(t, *ranks)
	argv := append(strings.Fields(ranksOnEngines), itoa(len(engines)), "sh", "-c", runRank, binary, path)
	for _, l := range engines {
		argv = append(argv, l.socket)
	}
	var release io.Closer
	job := startWith(t, nil, func(cmd *exec.Cmd) {
		var err error
		release, err = cmd.StdinPipe()
		require.NoError(t, err)
	}, argv...)
	job.says(fmt.Sprintf("collectives: %d ranks: all is right\n", len(engines)))
	for _, l := range engines {
		l.awaitPeers(len(engines)-1, func(p linkPeer) bool {
			return p.Stats.Sent >= exchanged && p.Stats.Received >= exchanged
		})
	}
	require.NoError(t, release.Close())
	job.succeeds()
}

// newRack starts engines that share a pool. All are nodes of it when it returns.
func newRack(t *testing.T, n int) (engines []*lab) {
	t.Helper()
	memory := poolFile(t)
	for i := range n {
		link := fmt.Sprintf("pool:%s,node=%d,nodes=%d,size=%d", memory, i, n, max(n, 16)*partOfRank)
		l := &lab{t: t, engineFlags: []string{"--link", link}}
		l.open()
		engines = append(engines, l)
	}
	for _, l := range engines {
		l.awaitPeers(n-1, func(p linkPeer) bool { return p.Up })
	}
	return engines
}

// awaitPeers waits until nicless links prints so many peers of which something is true. Its counts are up to
// a second old.
func (l *lab) awaitPeers(n int, is func(linkPeer) bool) {
	l.t.Helper()
	l.engine.awaits(fmt.Sprintf("nicless links prints %d peers as they are expected", n), func() bool {
		found := 0
		for _, r := range l.reports() {
			for _, p := range r.Peers {
				if is(p) {
					found++
				}
			}
		}
		return found == n
	})
}
