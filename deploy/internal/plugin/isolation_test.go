//go:build linux && (amd64 || arm64)

package plugin

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/nicless/nicless/deploy/internal/engines"
	"github.com/stretchr/testify/require"
)

// pingpong starts a server with a queue pair that waits for its client, and returns the number of the queue
// pair.
func (c *container) pingpong() (qpn string) {
	c.t.Helper()
	r := c.start("local address", "stdbuf", "-oL", "ibv_rc_pingpong", "-g", "0")
	found := regexp.MustCompile(`QPN 0x([0-9a-f]{6})`).FindStringSubmatch(r.line)
	require.Len(c.t, found, 2, r.line)
	n, err := strconv.ParseUint(found[1], 16, 24)
	require.NoError(c.t, err)
	return strconv.FormatUint(n, 10)
}

// queuePairs returns the numbers of the queue pairs that rdma of iproute2 lists.
func (c *container) queuePairs() (list []string) {
	c.t.Helper()
	listed := c.run("rdma", "resource", "show", "qp")
	for _, found := range regexp.MustCompile(`lqpn (\d+)`).FindAllStringSubmatch(listed, -1) {
		list = append(list, found[1])
	}
	return list
}

// Two pods at once see nothing of each other: neither sockets, nor queue pairs, nor the other's files.
func TestPodsAreIsolated(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	p := k.plugin()
	a, b := newContainer(t, allocate(t, p, "0")), newContainer(t, allocate(t, p, "1"))
	require.NotEqual(t, a.mounts, b.mounts)
	require.NotEqual(t, n.engine("0"), n.engine("1"))
	inA, inB := a.pingpong(), b.pingpong()
	require.NotEqual(t, inA, inB)
	for _, pod := range []struct {
		*container
		qpn   string
		other *container
	}{{a, inA, b}, {b, inB, a}} {
		require.Equal(t, []string{pod.qpn}, pod.queuePairs())
		sockets := pod.run("find", "/", "-xdev", "-path", Sockets, "-o", "-path", "/proc", "-prune", "-o",
			"-type", "s", "-print")
		require.Empty(t, sockets, "sockets elsewhere than in "+Sockets)
		inode := pod.run("stat", "-c", "%i", Sockets+"/engine.sock.verbs/server.sock")
		require.NotEqual(t, pod.other.run("stat", "-c", "%i", Sockets+"/engine.sock.verbs/server.sock"), inode)
		pod.fails("ls", pod.other.mounts[0].host)
		require.Contains(t, pod.fails("touch", Sockets+"/file"), "Read-only file system")
		require.Contains(t, pod.fails("touch", Libraries+"/"+engines.LibraryName), "Read-only file system")
	}
}

// The next pod with a device finds nothing of the former one, which can still exist: the kubelet gives the
// device to others as soon as the pod counts as ended.
func TestNextPodFindsNothing(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	p := k.plugin()
	former := newContainer(t, allocate(t, p, "0", "1"))
	before := former.pingpong()
	engine := n.engine("0")

	next := newContainer(t, allocate(t, p, "1"))
	require.Zero(t, n.engine("0"))
	require.NotEqual(t, engine, n.engine("1"))
	require.Empty(t, next.queuePairs())
	require.NotEqual(t, before, next.pingpong())

	// A container that starts again is as a new one.
	engine = n.engine("1")
	restart(t, p, "1")
	require.NotEqual(t, engine, n.engine("1"))
	require.Empty(t, next.queuePairs())
}

// A former container that has its directory still mounted sees nothing there.
func TestFormerContainerSeesNothing(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	p := k.plugin()
	a := allocate(t, p, "0")
	// The mount of a container is the directory itself, as this descriptor is.
	mounted, err := os.Open(a.Mounts[0].HostPath)
	require.NoError(t, err)
	defer mounted.Close()
	list, err := os.ReadDir(a.Mounts[0].HostPath)
	require.NoError(t, err)
	require.NotEmpty(t, list)
	allocate(t, p, "0")
	_, err = mounted.ReadDir(-1)
	require.ErrorIs(t, err, os.ErrNotExist)
	list, err = os.ReadDir(a.Mounts[0].HostPath)
	require.NoError(t, err)
	require.NotEmpty(t, list)
}

// Only root and the engines' group reach the sockets from outside of containers.
func TestNobodyElseReachesSockets(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	allocate(t, k.plugin(), "0")
	for path, mode := range map[string]os.FileMode{"": 0o711, "lib": 0o755, "users": 0o711, "devices": 0o710} {
		info, err := os.Stat(filepath.Join(n.state, path))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), path)
	}
}
