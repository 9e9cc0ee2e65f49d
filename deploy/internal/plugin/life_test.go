//go:build linux && (amd64 || arm64)

package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/deploy/internal/engines"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A device whose engine dies is unhealthy until another engine serves, in the directory that the container
// has mounted.
func TestEngineDies(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	command := n.command
	n.command = filepath.Join(n.cdi, "..", "nicless")
	require.NoError(t, os.Symlink(command, n.command))
	n.start()
	p := k.plugin()
	said := watch(t, p)
	a := allocate(t, p, "0", "2")
	mounted, err := os.Stat(a.Mounts[0].HostPath)
	require.NoError(t, err)
	is := func(want string) {
		await.Until(t, "devices 0 and 2 are "+want, func() bool {
			select {
			case m := <-said:
				require.Equal(t, "Healthy", m["1"])
				require.Equal(t, m["0"], m["2"], "devices of one engine")
				return m["0"] == want
			default:
				return false
			}
		})
	}
	require.NoError(t, os.Remove(n.command)) // so that no other engine starts
	n.kill("0")
	is("Unhealthy")
	require.NoError(t, os.Symlink(command, n.command))
	is("Healthy")
	require.NotZero(t, n.engine("0"))
	now, err := os.Stat(a.Mounts[0].HostPath)
	require.NoError(t, err)
	require.True(t, os.SameFile(mounted, now))
	require.Contains(t, newContainer(t, a).run("ibv_devinfo"), "hca_id:\tnicless1")
}

// A kubelet that starts again removes the plugin's socket. The plugin makes another and registers again;
// engines go on.
func TestKubeletRestarts(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	a := allocate(t, k.plugin(), "0")
	engine := n.engine("0")
	for range 3 {
		k.stop()
		k = startKubelet(t, n.kubelet)
		require.Len(t, <-watch(t, k.plugin()), 3)
	}
	require.Equal(t, engine, n.engine("0"))
	require.Contains(t, newContainer(t, a).run("ibv_devinfo"), "nicless0")
}

// A plugin that starts before the kubelet waits for it.
func TestKubeletIsAbsent(t *testing.T) {
	n := newNode(t)
	n.start()
	socket := filepath.Join(n.kubelet, SocketName(Resource))
	await.Until(t, "the plugin's socket", func() bool { _, err := os.Stat(socket); return err == nil })
	k := startKubelet(t, n.kubelet)
	require.Len(t, <-watch(t, k.plugin()), 3)
	n.end()
	require.NoFileExists(t, socket)

	absent := Config{Resource: Resource, Kubelet: filepath.Join(n.state, "nowhere"), Pool: n.pool}
	err := Run(t.Context(), absent)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "no kubelet has ever run here")
}

// A kubelet that refuses the plugin is asked again when it has started again.
func TestKubeletRefuses(t *testing.T) {
	n := newNode(t)
	k := serveKubelet(t, n.kubelet, errors.New("not now"))
	n.start()
	await.Receive(t, "the plugin registers", k.asked)
	k.stop()
	k = startKubelet(t, n.kubelet)
	require.Len(t, <-watch(t, k.plugin()), 3)
}

// After the plugin has ended and started again, a container has its engine in the same directory.
func TestPluginRestarts(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	a := allocate(t, k.plugin(), "1")
	before, err := os.Stat(a.Mounts[0].HostPath)
	require.NoError(t, err)
	n.end()
	require.Zero(t, n.engine("1"))
	n.start()
	k.plugin()
	await.Until(t, "an engine for the container", func() bool {
		_, err := os.Stat(filepath.Join(a.Mounts[0].HostPath, engines.SocketDirectory, "server.sock"))
		return err == nil
	})
	after, err := os.Stat(a.Mounts[0].HostPath)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.Contains(t, newContainer(t, a).run("ibv_devinfo"), "nicless0")
}

// Two plugins on a node: the second one ends, and says why. The first one goes on.
func TestTwoPlugins(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	p := k.plugin()
	_, err := engines.Open(t.Context(), n.config())
	require.ErrorIs(t, err, engines.ErrTaken)

	other := n.config()
	other.Dir = filepath.Join(filepath.Dir(n.state), "o")
	pool, err := engines.Open(t.Context(), other)
	require.NoError(t, err)
	defer func() { require.NoError(t, pool.Close()) }()
	second := n.plugin()
	second.Pool = pool
	require.ErrorIs(t, Run(t.Context(), second), ErrTaken)
	require.Contains(t, newContainer(t, allocate(t, p, "0")).run("ibv_devinfo"), "nicless0")
}

// A plugin that was killed has left its socket, which nobody serves: the next one replaces it.
func TestSocketOfADeadPlugin(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	e, err := listen(&Config{Resource: Resource, Kubelet: n.kubelet, Log: logOf(t)})
	require.NoError(t, err)
	e.stop()
	require.FileExists(t, e.path)
	n.start()
	require.Len(t, <-watch(t, k.plugin()), 3)
}

// Requests that name wrong devices change nothing, and say what is wrong.
func TestWrongDevices(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	p := k.plugin()
	allocate(t, p, "0")
	engine := n.engine("0")
	for _, row := range []struct {
		containers [][]string
		says       string
	}{
		{[][]string{{"3"}}, `there is no such device: "3": this node has 0 to 2`},
		{[][]string{{"-1"}}, `"-1"`},
		{[][]string{{"00"}}, `"00"`},
		{[][]string{{"../0"}}, `"../0"`},
		{[][]string{{"0"}, {"x"}}, `"x"`},
		{[][]string{{"0", "0"}}, "named twice"},
		{[][]string{{"0"}, {"0"}}, "named twice"},
		{[][]string{{}}, "an engine cannot have so many devices: 0"},
	} {
		r := new(api.AllocateRequest)
		for _, ids := range row.containers {
			r.ContainerRequests = append(r.ContainerRequests, &api.ContainerAllocateRequest{DevicesIds: ids})
		}
		_, err := p.Allocate(t.Context(), r)
		require.Equal(t, codes.InvalidArgument, status.Code(err), row.containers)
		require.ErrorContains(t, err, row.says)
	}
	_, err := p.PreStartContainer(t.Context(), &api.PreStartContainerRequest{DevicesIds: []string{"7"}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.Equal(t, engine, n.engine("0"))
}
