package programs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// A linked place is two engines, each with its own programs, and what is between them. Clients run
// on the engine that is lab.far of the servers' one.
type linkedPlace struct {
	name  string
	link  string   // what --link names; "": RoCE, which opens by itself and is closed otherwise
	keys  bool     // RoCE with keys, encrypted
	apart bool     // each engine in a network namespace of its own, with a virtual cable between them
	gid   string   // index of the GID by which programs without rdma_cm connect
	flags []string // of both engines
}

// In namespaces, entry 3 is the first address of the network, by RoCE v2: entries 0 and 1 are the
// device's own GID. On one host, both engines have the addresses of the host, so only the devices'
// own GIDs lead from one to the other.
var linkedPlaces = []linkedPlace{
	{name: "roce", apart: true, gid: "3"},
	{name: "roce with keys", keys: true, apart: true, gid: "3"},
	{name: "pool", link: "pool", gid: "1"},
	{name: "pool, apart", link: "pool", apart: true, gid: "3"},
	{name: "ucx", link: "ucx", apart: true, gid: "3"},
}

// nearAddress is the address of the servers' namespace, farAddress of the clients'.
const nearAddress, farAddress = "10.77.0.1", "10.77.0.2"

// newLinked starts two engines. Programs that are started on the lab are servers.
func newLinked(t *testing.T, p linkedPlace) *lab {
	t.Helper()
	need(t)
	near := &lab{t: t, engineFlags: append([]string{"--log-level", "debug"}, p.flags...)}
	near.far = &lab{t: t, engineFlags: near.engineFlags}
	if p.apart {
		near.inside, near.far.inside = newNamespaces(t)
	}
	links := [2]string{}
	if p.keys { // each engine pins the key that it sees first
		for i := range links {
			key := filepath.Join(t.TempDir(), "key")
			start(t, nil, binary, "key", "new", key).succeeds()
			links[i] = "auto,key=" + key + ",trust=first,encrypt"
		}
	}
	switch p.link {
	case "pool":
		memory := poolFile(t)
		links = [2]string{"pool:" + memory + ",node=0,nodes=2", "pool:" + memory + ",node=1"}
	case "ucx":
		// UCX finds the interfaces of its namespace in /sys, as a container has it.
		near.under = []string{"unshare", "--mount", "sh", "-c", `mount -t sysfs sysfs /sys && exec "$@"`, "sh", "env", "NICLESS_UCX=" + ucxProgram(t)}
		near.far.under = near.under
		links = [2]string{"ucx:listen=" + nearAddress + ":9999,tls=tcp+self", "ucx:" + nearAddress + ":9999,tls=tcp+self"}
	}
	ends := [2]*lab{near, near.far}
	for i, l := range ends {
		if links[i] != "" {
			l.engineFlags = append(slices.Clone(l.engineFlags), "--link", links[i])
		}
		l.open()
	}
	for _, l := range ends {
		if p.link != "" {
			l.linked()
		}
	}
	return near
}

// poolFile returns the name of a file of tmpfs for a pool. Node 0 makes the file.
func poolFile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "nicless-programs")
	if err != nil {
		proctest.Missing(t, "a pool needs memory in /dev/shm: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir + "/pool"
}

// ucxProgram returns the path of the program that carries packets over UCX. It is built beside
// the command.
func ucxProgram(t *testing.T) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/*-linux-gnu/libucp.so.0"); found == nil {
		proctest.Missing(t, "NOT TESTED: libucp.so.0 is not installed (Debian: apt install libucx0)")
	}
	return builtOnce("nicless-ucx", func(path string) {
		said, err := exec.Command("make", "-s", "-C", repository+"/fabric/ucx/carrier", "OUT="+path).CombinedOutput()
		require.NoError(t, err, "%s", said)
	})
}

// newNamespaces makes a user namespace with two network namespaces and a virtual cable between
// them. It needs no privileges. It returns the command lines under which programs run in each.
func newNamespaces(t *testing.T) (near, far []string) {
	t.Helper()
	need(t, "unshare", "nsenter", "ip")
	if said, err := exec.Command("unshare", "--user", "--map-root-user", "--net", "true").CombinedOutput(); err != nil {
		proctest.Missing(t, "needs user namespaces: %v %s", err, said)
	}
	// The second namespace lives as long as a process in it.
	const setup = `set -e
unshare --net sleep infinity & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do :; done
there="nsenter --net=/proc/$other/ns/net"
ip link add near0 type veth peer name far0 netns $other
ip addr add ` + nearAddress + `/24 dev near0
$there ip addr add ` + farAddress + `/24 dev far0
ip link set lo up && $there ip link set lo up
ip link set near0 up && $there ip link set far0 up
until ip link show near0 | grep -q 'state UP' && $there ip link show far0 | grep -q 'state UP'; do :; done
echo "other: $other."
exec sleep infinity`
	p := start(t, nil, "unshare", "--user", "--map-root-user", "--net", "sh", "-c", setup)
	p.says(".\n")
	var other int
	_, err := fmt.Sscanf(p.said.String(), "other: %d.", &other)
	require.NoError(t, err, p.said.String())
	enter := func(pid int) []string {
		return []string{"nsenter", "--preserve-credentials", "--user", "--net", "--target", itoa(pid), "--"}
	}
	return enter(p.cmd.Process.Pid), enter(other)
}

// A linkReport is what nicless links --json prints of a link.
type linkReport struct {
	Link, Why string
	Peers     []linkPeer
}

type linkPeer struct {
	Name  string
	Up    bool
	Why   string
	Keys  string
	MTU   int
	Stats struct{ Sent, Received uint64 }
}

// reports returns what nicless links --json prints.
func (l *lab) reports() (list []linkReport) {
	l.t.Helper()
	said := start(l.t, l.user, binary, "links", "--engine", l.socket, "--json").succeeds()
	require.NoError(l.t, json.Unmarshal([]byte(said), &list), said)
	return list
}

// linked waits until the engine's links are up.
func (l *lab) linked() {
	l.t.Helper()
	l.peer(func(_ linkReport, p linkPeer) bool { return p.Up })
}

// peer waits until nicless links prints a peer of which enough is true.
func (l *lab) peer(enough func(linkReport, linkPeer) bool) {
	l.t.Helper()
	l.engine.awaits("nicless links prints what is expected of a peer", func() bool {
		for _, r := range l.reports() {
			for _, p := range r.Peers {
				if enough(r, p) {
					return true
				}
			}
		}
		return false
	})
}

// tail returns the last lines of a text.
func tail(text string) string {
	all := strings.Split(text, "\n")
	return strings.Join(all[max(0, len(all)-30):], "\n")
}
