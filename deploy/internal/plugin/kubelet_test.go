//go:build linux && (amd64 || arm64)

package plugin

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// A kubelet is what the plugin sees of one: its socket for registration, and calls at the plugin's socket.
type kubelet struct {
	api.UnimplementedRegistrationServer
	t      *testing.T
	dir    string
	server *grpc.Server
	asked  chan *api.RegisterRequest
	refuse error // of all registrations
}

// startKubelet does as the kubelet when it starts: it removes the sockets of plugins, and makes its own.
func startKubelet(t *testing.T, dir string) *kubelet { return serveKubelet(t, dir, nil) }

func serveKubelet(t *testing.T, dir string, refuse error) *kubelet {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	require.NoError(t, err)
	for _, path := range list {
		require.NoError(t, os.Remove(path))
	}
	l, err := net.Listen("unix", filepath.Join(dir, "kubelet.sock"))
	require.NoError(t, err)
	k := &kubelet{t: t, dir: dir, server: grpc.NewServer(), asked: make(chan *api.RegisterRequest, 16), refuse: refuse}
	api.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(l) }()
	t.Cleanup(k.stop)
	return k
}

func (k *kubelet) stop() { k.server.Stop() }

func (k *kubelet) Register(_ context.Context, r *api.RegisterRequest) (*api.Empty, error) {
	k.asked <- r
	return new(api.Empty), k.refuse
}

// plugin waits until a plugin registers, and returns its client.
func (k *kubelet) plugin() api.DevicePluginClient {
	k.t.Helper()
	r := await.Receive(k.t, "a plugin registers", k.asked)
	require.Equal(k.t, "v1beta1", r.Version)
	require.Equal(k.t, Resource, r.ResourceName)
	require.True(k.t, r.Options.PreStartRequired)
	require.Equal(k.t, filepath.Base(r.Endpoint), r.Endpoint)
	return k.dial(r.Endpoint)
}

func (k *kubelet) dial(endpoint string) api.DevicePluginClient {
	k.t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.dir, endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(k.t, err)
	k.t.Cleanup(func() { _ = conn.Close() })
	return api.NewDevicePluginClient(conn)
}

// watch returns what the plugin says about its devices: ID and health of each. It waits for the socket, as
// the kubelet does: one that starts can remove the socket while the plugin registers, which then makes it
// again.
func watch(t *testing.T, c api.DevicePluginClient) <-chan map[string]string {
	t.Helper()
	stream, err := c.ListAndWatch(await.Context(t), new(api.Empty), grpc.WaitForReady(true))
	require.NoError(t, err)
	said := make(chan map[string]string, 64)
	go func() {
		defer close(said)
		for {
			all, err := stream.Recv()
			if err != nil {
				return
			}
			m := make(map[string]string)
			for _, d := range all.Devices {
				m[d.ID] = d.Health
			}
			said <- m
		}
	}()
	return said
}

// allocate asks for devices of one container, and prepares its start, as the kubelet does.
func allocate(t *testing.T, c api.DevicePluginClient, ids ...string) *api.ContainerAllocateResponse {
	t.Helper()
	all, err := c.Allocate(await.Context(t), &api.AllocateRequest{
		ContainerRequests: []*api.ContainerAllocateRequest{{DevicesIds: ids}}})
	require.NoError(t, err)
	require.Len(t, all.ContainerResponses, 1)
	restart(t, c, ids...)
	return all.ContainerResponses[0]
}

// restart prepares the start of a container that has its devices already.
func restart(t *testing.T, c api.DevicePluginClient, ids ...string) {
	t.Helper()
	_, err := c.PreStartContainer(await.Context(t), &api.PreStartContainerRequest{DevicesIds: ids})
	require.NoError(t, err)
}
