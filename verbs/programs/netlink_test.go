package programs

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/freeport"
	vm "github.com/nicless/nicless/internal/lab"
	"github.com/nicless/nicless/internal/proctest"
)

// Sockets of NETLINK_RDMA behave as the kernel's.
func TestNetlinkSockets(t *testing.T) {
	t.Parallel()
	path := check(t, "netlink")
	require.Contains(t, newLab(t).run(path), "netlink: names, options, copies, many: ok\n")
}

// rdmaRow is an object that rdma -j prints.
type rdmaRow map[string]any

// rdma runs iproute2's rdma, whose output has to be JSON.
func (l *lab) rdma(program []string, words ...string) (rows []rdmaRow) {
	l.t.Helper()
	said := l.run(append(append(slices.Clone(program), "-j", "-d"), words...)...)
	require.NoError(l.t, json.Unmarshal([]byte(said), &rows), "%v: %s", words, said)
	return rows
}

// iproute2's rdma lists devices, links and the resources of programs with their owners and states.
func TestRdma(t *testing.T) {
	t.Parallel()
	need(t, "rdma", "ib_write_bw")
	rdmaShowsResources(t, []string{"rdma"})
}

func rdmaShowsResources(t *testing.T, rdma []string) {
	l := newLab(t)
	devices := l.rdma(rdma, "dev", "show")
	require.Len(t, devices, 1)
	require.Equal(t, "nicless0", devices[0]["ifname"])
	require.Equal(t, "ca", devices[0]["node_type"])
	links := l.rdma(rdma, "link", "show")
	require.Equal(t, "ACTIVE", links[0]["state"])
	require.NotEmpty(t, links[0]["netdev"])
	require.Contains(t, l.run(append(slices.Clone(rdma), "system")...), "netns shared")
	require.Empty(t, strings.TrimSpace(l.run(append(slices.Clone(rdma), "res", "show", "qp")...)))

	server, client := l.startPair("ib_write_bw", "-d", "nicless0", "-q", "3", "-D", "3600")
	var qps []rdmaRow
	server.awaits("its queue pairs are connected", func() bool {
		if server.ended() || client.ended() {
			require.FailNow(t, "ended", "%s\n%s", server.said.String(), client.said.String())
		}
		said := l.run(append(slices.Clone(rdma), "-j", "res", "show", "qp")...)
		qps = nil
		return json.Unmarshal([]byte(said), &qps) == nil && len(qps) == 6 &&
			!slices.ContainsFunc(qps, func(q rdmaRow) bool { return q["state"] != "RTS" && q["state"] != "RTR" }) &&
			slices.ContainsFunc(qps, func(q rdmaRow) bool { return q["state"] == "RTS" })
	})
	numbers := make(map[any]any)
	for _, q := range qps {
		require.Equal(t, "RC", q["type"])
		require.Equal(t, "ib_write_bw", q["comm"])
		numbers[q["lqpn"]] = q["rqpn"]
	}
	for local, remote := range numbers {
		require.Equal(t, local, numbers[remote], "peers name each other")
	}
	pids := make(map[any]bool)
	for _, object := range []string{"ctx", "pd", "cq", "mr"} {
		rows := l.rdma(rdma, "res", "show", object)
		require.Len(t, rows, 2, object)
		for _, r := range rows {
			require.Equal(t, "ib_write_bw", r["comm"], object)
			pids[r["pid"]] = true
		}
	}
	require.Len(t, pids, 2)
	summary := l.rdmaOne(rdma, "res")
	require.EqualValues(t, 6, summary["qp"])
	require.EqualValues(t, 2, summary["ctx"])
	client.kill()
	server.kill()
	server.awaits("their resources go", func() bool { return l.rdmaOne(rdma, "res")["ctx"] == float64(0) })
	// Changes are refused with the option that makes them.
	said := l.start(append(slices.Clone(rdma), "dev", "set", "nicless0", "name", "mlx5_0")...).fails()
	require.Contains(t, said, "Operation not supported")
}

// rdmaOne returns the only object.
func (l *lab) rdmaOne(rdma []string, words ...string) rdmaRow {
	l.t.Helper()
	said := strings.TrimSpace(l.run(append(append(slices.Clone(rdma), "-j"), words...)...))
	var rows []rdmaRow
	if strings.HasPrefix(said, "{") {
		rows = make([]rdmaRow, 1)
		require.NoError(l.t, json.Unmarshal([]byte(said), &rows[0]), said)
		return rows[0]
	}
	require.NoError(l.t, json.Unmarshal([]byte(said), &rows), said)
	require.Len(l.t, rows, 1)
	return rows[0]
}

// Ids of rdma_cm are listed with their addresses.
func TestRdmaCMID(t *testing.T) {
	t.Parallel()
	need(t, "rdma", "rping")
	l := newLab(t)
	port := itoa(freeport.TCP(t))
	server := l.start("rping", "-s", "-a", "127.0.0.1", "-p", port)
	var ids []rdmaRow
	server.awaits("it listens", func() bool {
		ids = nil
		said := l.run("rdma", "-j", "res", "show", "cm_id")
		return json.Unmarshal([]byte(said), &ids) == nil && len(ids) == 1 && ids[0]["state"] == "LISTEN"
	})
	require.Equal(t, "rping", ids[0]["comm"])
	require.Equal(t, "TCP", ids[0]["ps"])
	require.Equal(t, "127.0.0.1:"+port, ids[0]["src-addr"])
	server.kill()
}

// newerRdma is rdma of Debian 13, as newest UCX is run (newer).
var newerRdma = sync.OnceValues(func() (string, error) {
	apt, err := vm.Suite("trixie")
	if err != nil {
		return "", err
	}
	return apt.Root("iproute2", "iproute2", "libmnl0", "libbsd0", "libmd0", "libcap2", "libc6")
})

// A newer rdma has the same resources, and may watch the devices.
func TestNewerRdma(t *testing.T) {
	t.Parallel()
	need(t, "ib_write_bw")
	proctest.Need(t, "apt-get", "dpkg-deb")
	dir, err := newerRdma()
	if err != nil {
		proctest.Missing(t, "packages of Debian 13: %v", err)
	}
	root := debianRoot{dir: dir}
	// nicless run refuses to run the dynamic linker, which is linked statically.
	rdma := append([]string{"env"}, strings.Fields(root.program(root.path("/usr/bin/rdma")))...)
	rdmaShowsResources(t, rdma)

	l := newLab(t)
	require.Contains(t, l.run(append(slices.Clone(rdma), "system")...), "monitor on")
}

// A process has the number of the reader's PID namespace, and none if it is not there.
func TestRdmaPIDs(t *testing.T) {
	t.Parallel()
	need(t, "rdma", "ibv_rc_pingpong", "unshare")
	below := []string{"unshare", "-Urpf", "--mount-proc"}
	if said, err := exec.Command(below[0], append(below[1:], "true")...).CombinedOutput(); err != nil {
		proctest.Missing(t, "needs user namespaces: %v %s", err, said)
	}
	l := newLab(t)
	line := "ibv_rc_pingpong -d nicless0 -g 0 -p "
	outer := l.start(strings.Fields(line + itoa(freeport.TCP(t)))...)
	outer.awaits("it has a PD", func() bool { return strings.Contains(l.run("rdma", "res", "show", "pd"), "comm ibv_rc_pingpong") })
	said := l.run(append(below, "sh", "-c", line+itoa(freeport.TCP(t))+` >/dev/null &
		until rdma res show pd | grep -q pid; do :; done
		rdma -j res show pd
		kill $!`)...)
	var pds []rdmaRow
	require.NoError(t, json.Unmarshal([]byte(said), &pds), said)
	require.Len(t, pds, 2)
	slices.SortFunc(pds, func(a, b rdmaRow) int { return len(a) - len(b) })
	require.NotContains(t, pds[0], "pid")
	require.EqualValues(t, 2, pds[1]["pid"], "the first child of the first process")
	require.Equal(t, "ibv_rc_pingpong", pds[1]["comm"])
	outer.kill()
}
