package programs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/proctest"
	"github.com/stretchr/testify/require"
)

func (l *lab) fields(line string) []string {
	return strings.Fields(strings.ReplaceAll(line, "IP", hostAddress(l.t)))
}

// connects runs a client, again and again until the server listens. A request that comes before
// is rejected, and the server does not see it.
func (l *lab) connects(server *process, client ...string) string {
	l.t.Helper()
	var said string
	server.awaits("a client connects", func() bool {
		c := l.start(client...)
		together(server, c)
		err := c.wait()
		server.with = nil
		said = c.said.String()
		early := strings.Contains(said, "REJECTED") || strings.Contains(said, "Unexpected CM event bl blka 8") ||
			strings.Contains(said, "UNREACHABLE") || strings.Contains(said, "Connection refused")
		require.True(l.t, err == nil || early, "%s: %v\n%s\nserver:\n%s", c.cmd, err, said, server.said.String())
		return err == nil
	})
	return said
}

// Datagrams to a multicast group that was joined by rdma_cm arrive.
func TestMulticastCM(t *testing.T) {
	t.Parallel()
	need(t, "mckey", "stdbuf")
	l := newLab(t)
	argv := l.fields("stdbuf -oL mckey -m 239.1.1.1 -b IP -c 3")
	s := l.start(argv...)
	s.says("receiving data transfers")
	l.run(append(argv, "-s")...)
	s.succeeds()
}

// The client of qperf connects as soon as it knows the port, which the server sends before it listens.
func TestQPerfCM(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "qperf")
	l := newLab(t)
	port := freeport.TCP(t)
	s := l.start("qperf", "-lp", itoa(port))
	listens(s, port)
	for range 5 {
		said := l.run("qperf", "127.0.0.1", "-lp", itoa(port), "-cm1", "-t", "1", "rc_lat", "rc_bw", "rc_rdma_write_bw")
		require.Equal(t, 3, strings.Count(said, " = "), said)
	}
}

// A file arrives whole by stream sockets.
func TestRCopy(t *testing.T) {
	t.Parallel()
	long(t)
	need(t, "rcopy")
	l := newLab(t)
	s := l.start("rcopy")
	to := filepath.Join(t.TempDir(), "copy")
	l.connects(s, "rcopy", binary, "127.0.0.1:"+to)
	want, err := os.ReadFile(binary)
	require.NoError(t, err)
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, len(want), len(got))
	require.True(t, string(want) == string(got))
}

// It is explained to the user why a connection fails.
func TestExplainedConnection(t *testing.T) {
	t.Parallel()
	need(t, "rping")
	l := newLab(t, "--explain")
	said := l.start("rping", "-c", "-a", "127.0.0.1", "-p", "7999").fails()
	require.Contains(t, said, "rdma_cm: no program of this engine listens at 127.0.0.1:7999")
	// With links, the server there would be asked for over a minute.
	l = newLabAt(t, places()[0], "--link", "none")
	l.flags = []string{"--explain"}
	said = l.start("rping", "-c", "-a", "192.0.2.1").fails()
	require.Contains(t, said, "192.0.2.1")
}

// The rules of rdma_cm, and commands written without librdmacm.
func TestCM(t *testing.T) {
	t.Parallel()
	path := check(t, "cm")
	for _, mode := range modesNow() {
		t.Run(mode.name, func(t *testing.T) {
			said := newLab(t, mode.flags...).run(path)
			require.Contains(t, said, "cm: descriptor, ports, refusals, migration, killed peers, copies, garbage, 100 connections: ok\n")
		})
	}
}

// Two network namespaces, with a link between them: two servers listen on one port, and each
// client reaches the one that has the address. The clients are in the first namespace.
func TestCMNamespaces(t *testing.T) {
	t.Parallel()
	need(t, "ucmatose", "udaddy", "ip", "nsenter", "unshare")
	if said, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		proctest.Missing(t, "needs user namespaces: %v %s", err, said)
	}
	// One user namespace owns both network namespaces. The second one lives as long as a process in it.
	const setup = `set -e
unshare --net sleep 1000 & other=$!
trap 'kill $other' EXIT
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
there="nsenter --net=/proc/$other/ns/net"
ip link set lo up && $there ip link set lo up
ip link add near0 type veth peer name far0 netns $other
ip addr add 10.7.0.1/24 dev near0 && ip link set near0 up
$there ip addr add 10.7.0.2/24 dev far0 && $there ip link set far0 up
# until_ok CLIENT: starts a client again and again, because the server may not listen yet. Each has one
# connection: of several, some could come too early.
until_ok() { for n in $(seq 500); do "$@" >out 2>&1 && return; grep -q 'REJECTED\|UNREACHABLE' out || break; done; cat out; return 1; }
ucmatose -b 10.7.0.1 & here=$!
$there ucmatose -b 10.7.0.2 & second=$!
until_ok ucmatose -s 10.7.0.1
until_ok ucmatose -s 10.7.0.2
wait $here; wait $second
$there udaddy & second=$!
until_ok udaddy -s 10.7.0.2
wait $second
ucmatose -b 127.0.0.1 & here=$!
if $there ucmatose -s 127.0.0.1; then echo "loopback reaches another namespace"; exit 1; fi
until_ok ucmatose -s 127.0.0.1
wait $here
echo namespaces: ok`
	l := newLab(t)
	script := filepath.Join(t.TempDir(), "setup")
	require.NoError(t, os.WriteFile(script, []byte("cd "+t.TempDir()+"\n"+setup), 0o600))
	argv := append([]string{"unshare", "--user", "--map-root-user", "--net"}, l.argv("bash", script)...)
	require.Contains(t, start(t, l.user, argv...).succeeds(), "namespaces: ok")
}
