package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/share"
	"github.com/stretchr/testify/require"
)

// mpisAcross are ways to start a program of MPI with one rank on each engine: the implementation,
// the environment of UCX, and arguments of mpirun. A datagram of UCX would have 4096 bytes, the
// MTU of the device's port, if it did not get the MTU of the network.
var mpisAcross = []struct{ of, environment, arguments string }{
	{"mpich", "UCX_TLS=rc_v,self", ""},
	{"mpich", "UCX_TLS=rc_x,self", ""},
	{"mpich", "UCX_TLS=ud_x,self UCX_UD_MLX5_SEG_SIZE=1024", ""},
	{"openmpi", "UCX_TLS=rc_x,ud_x,self", "--mca pml ucx --mca osc ucx"},
}

// A program of MPI has one rank on each of two engines, and gets its data right. For mpirun the two
// engines are two hosts: it starts the second rank by a remote shell, which is a script.
func TestLinkedMPI(t *testing.T) {
	t.Parallel()
	long(t)
	for place, p := range linkedPlaces {
		if p.name == "pool, apart" {
			continue // as in a pool on one host
		}
		t.Run(p.name, func(t *testing.T) {
			l := newLinked(t, p)
			ways := mpisAcross
			if !p.apart {
				ways = ways[:2]
			}
			for i, m := range ways {
				if !share.Has(i, place) {
					continue
				}
				t.Run(m.of+" "+m.environment, func(t *testing.T) {
					l := l.with(t)
					path := mpiProgram(t, m.of)
					crossed := l.crossed()
					argv := l.mpirun(p, m.of, m.arguments, "env "+m.environment+" UCX_NET_DEVICES=nicless0:1 UCX_IB_GID_INDEX="+p.gid, path)
					ranks := start(t, nil, argv...)
					ranks.awaits("it ends", func() bool { crossed.count(); return ranks.ended() })
					require.Contains(t, ranks.succeeds(), "mpi: 2 ranks: ok\n")
					crossed.reaches(1000, "the data of the ranks did not cross the link")
				})
			}
		})
	}
}

// sent returns how many packets the engine has sent over its links.
func (l *lab) sent() (n uint64) {
	for _, r := range l.reports() {
		for _, p := range r.Peers {
			n += p.Stats.Sent
		}
	}
	return n
}

// A crossing counts the packets that an engine sends over its links. A link that opens by itself closes some
// seconds after its last queue pair, and its counts with it, so they are taken while programs run.
type crossing struct {
	l       *lab
	last, n uint64
}

func (l *lab) crossed() *crossing { return &crossing{l: l, last: l.sent()} }

// count takes the counts, and returns the number of packets since the crossing began.
func (c *crossing) count() uint64 {
	now := c.l.sent()
	if now < c.last {
		c.last = 0 // the link has closed, and may be open again
	}
	c.n += now - c.last
	c.last = now
	return c.n
}

// reaches requires that so many packets have been sent. The counts of UCX are up to a second old.
func (c *crossing) reaches(least uint64, otherwise string) {
	c.l.t.Helper()
	what := fmt.Sprintf("it has sent %d packets or more; otherwise %s", least, otherwise)
	c.l.engine.awaits(what, func() bool { return c.count() >= least })
}

// mpirun returns a command line that runs a program with one rank on each engine.
func (l *lab) mpirun(p linkedPlace, of, arguments, env, program string) []string {
	l.t.Helper()
	need(l.t, "mpirun."+of)
	hosts := [2]string{"127.0.0.1", "127.0.0.2"}
	if p.apart {
		hosts = [2]string{nearAddress, farAddress}
	}
	// A remote shell is called with the name of a host and a command. MPICH puts an option before.
	// mpirun is in the servers' namespace, and so in the user namespace of both.
	far := "exec"
	if p.apart {
		target := slices.Index(l.far.inside, "--target")
		far = "exec nsenter --net --target " + l.far.inside[target+1]
	}
	shell := filepath.Join(l.t.TempDir(), "rsh")
	text := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != -x ] || shift\nhost=$1 && shift\n[ $host != %s ] || %s sh -c \"$*\"\nexec sh -c \"$*\"\n", hosts[1], far)
	require.NoError(l.t, os.WriteFile(shell, []byte(text), 0o700))
	run := map[string]string{
		"mpich":   "mpirun.mpich -launcher ssh -launcher-exec SHELL -localhost HOST0 -hosts HOST0:1,HOST1:1 ARGS -n 1 PROGRAM0 : -n 1 PROGRAM1",
		"openmpi": "mpirun.openmpi --allow-run-as-root --mca plm_rsh_agent SHELL ARGS -n 1 -H HOST0 PROGRAM0 : -n 1 -H HOST1 PROGRAM1",
	}[of]
	command := func(on *lab) string {
		return fmt.Sprintf("%s %s run --engine %s -- %s", env, binary, on.socket, program)
	}
	line := strings.NewReplacer("SHELL", shell, "ARGS", arguments, "HOST0", hosts[0], "HOST1", hosts[1],
		"PROGRAM0", command(l), "PROGRAM1", command(l.far)).Replace(run)
	return append(l.inside[:len(l.inside):len(l.inside)], strings.Fields(line)...)
}
