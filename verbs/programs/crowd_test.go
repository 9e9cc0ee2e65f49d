package programs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/verdict"
)

// A hundred programs open the device at once.
func TestHundred(t *testing.T) {
	long(t)
	need(t, "ibv_devinfo")
	l := newLab(t)
	before := l.holds()
	var all []*process
	for range 100 {
		all = append(all, l.start("ibv_devinfo"))
	}
	for _, p := range all {
		require.Contains(t, p.succeeds(), "PORT_ACTIVE")
	}
	l.eventually("everything is released", func() bool { return l.holds() == before })
}

// Several pairs of programs move data at once. Meanwhile nicless torture runs on engines of
// its own and uses all the processor time that it can get. Other programs on the engine of the
// pairs send random ioctls or are killed.
func TestPairsBesideTorture(t *testing.T) {
	long(t)
	life, misuse := check(t, "life"), check(t, "misuse")
	l := newLab(t)
	before := l.holds()
	torture := start(t, nil, binary, "torture", "--seconds", "10", "--seed", "1")
	var pairs [][2]*process
	for _, line := range []string{
		"ibv_rc_pingpong -c -e -n 1000 -g 0", "ibv_srq_pingpong -c -e -n 100 -g 0", "ibv_ud_pingpong -c -e -n 1000 -g 0",
		"ib_write_bw -F -n 2000 -q 4", "ib_read_bw -F -n 2000", "ib_send_bw -F -n 1000 -e",
	} {
		argv := strings.Fields(line)
		need(t, argv[0])
		server, client := l.startPair(append(argv, "-d", "nicless0")...)
		pairs = append(pairs, [2]*process{server, client})
	}
	for seed := range 3 {
		random := l.start(misuse, itoa(seed+100), "300")
		p := l.start(life, "hold")
		p.says("life: holds")
		p.kill()
		random.succeeds()
	}
	for _, pair := range pairs {
		pair[1].succeeds()
		pair[0].succeeds()
	}
	// Its status says whether it found a fault. All this at once may be too much for a machine to judge a
	// delay by, which is a verdict too: torture is the load here, and its faults have other statuses.
	err := torture.wait()
	if torture.cmd.ProcessState.ExitCode() != verdict.Undecided.Status() {
		require.NoError(t, err, "%s\n%s", torture.cmd, torture.said.String())
	}
	l.eventually("everything is released", func() bool { return l.holds() == before })
}

// holdings are the resources of an engine's process.
type holdings struct{ descriptors, mappings int }

// holds counts the resources that the engine has for its clients.
func (l *lab) holds() (h holdings) {
	l.t.Helper()
	proc := filepath.Join("/proc", itoa(l.engine.cmd.Process.Pid))
	list, err := os.ReadDir(filepath.Join(proc, "fd"))
	require.NoError(l.t, err)
	h.descriptors = len(list)
	maps, err := os.ReadFile(filepath.Join(proc, "maps"))
	require.NoError(l.t, err)
	h.mappings = strings.Count(string(maps), "/memfd:")
	return h
}

// eventually waits for something that the engine does in the background.
func (l *lab) eventually(what string, is func() bool) {
	l.t.Helper()
	l.engine.awaits(what, is)
}
