//go:build linux && (amd64 || arm64)

package plugin

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	oci "github.com/opencontainers/runtime-spec/specs-go"
)

// pair runs two programs of perftest in a container: a server, and a client as soon as the server listens, at
// port 18515 (0x4853). A server that has ended early is a zombie, or is gone, because the shell waits for any
// child when it waits for one.
const pair = `ib_write_bw -n 1000 >/tmp/server 2>&1 &
server=$!
until grep -qs ':4853 [0-9A-F]*:0000 0A' /proc/net/tcp /proc/net/tcp6; do
	case $(cat /proc/$server/stat 2>/dev/null) in
	"" | *") Z "*) cat /tmp/server; exit 1 ;;
	esac
done
ib_write_bw -n 1000 localhost && wait $server`

// A pod that asks for a device has one, and unmodified programs use it.
func TestPodHasADevice(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	p := k.plugin()
	require.Equal(t, map[string]string{"0": "Healthy", "1": "Healthy", "2": "Healthy"}, <-watch(t, p))
	a := allocate(t, p, "1")
	require.Equal(t, environment(), a.Envs)
	c := newContainer(t, a)
	said := c.run("ibv_devinfo")
	require.Contains(t, said, "hca_id:\tnicless0")
	require.NotContains(t, said, "nicless1")
	require.Regexp(t, `65536 +1000 +[1-9]`, c.run("sh", "-c", pair))
}

// The same by CDI: a runtime that knows it makes of the device's name what the kubelet makes of the answer.
func TestCDI(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	a := allocate(t, k.plugin(), "2")
	require.Len(t, a.CdiDevices, 1)
	require.Equal(t, "nicless.io/hca=2", a.CdiDevices[0].Name)

	cache, err := cdi.NewCache(cdi.WithSpecDirs(n.cdi), cdi.WithAutoRefresh(false))
	require.NoError(t, err)
	require.Empty(t, cache.GetErrors())
	require.Equal(t, []string{"nicless.io/hca=0", "nicless.io/hca=1", "nicless.io/hca=2"}, cache.ListDevices())
	spec := &oci.Spec{Process: &oci.Process{Env: []string{"LANG=C"}}}
	missing, err := cache.InjectDevices(spec, a.CdiDevices[0].Name)
	require.NoError(t, err)
	require.Empty(t, missing)

	byKubelet := newContainer(t, a)
	byRuntime := &container{t: t, env: spec.Process.Env}
	for _, m := range spec.Mounts {
		require.Subset(t, m.Options, []string{"ro", "nosuid", "nodev"})
		byRuntime.mounts = append(byRuntime.mounts, mount{container: m.Destination, host: m.Source})
	}
	require.ElementsMatch(t, byKubelet.mounts, byRuntime.mounts)
	require.ElementsMatch(t, append(byKubelet.env, "LANG=C"), byRuntime.env)
	require.Contains(t, byRuntime.run("ibv_devinfo"), "hca_id:\tnicless0")
}

// A container with two devices has one engine with two, which reach each other.
func TestTwoDevicesOfAContainer(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.start()
	a := allocate(t, k.plugin(), "2", "0")
	require.Equal(t, "nicless.io/hca=0", a.CdiDevices[0].Name)
	c := newContainer(t, a)
	said := c.run("ibv_devinfo")
	require.Contains(t, said, "nicless0")
	require.Contains(t, said, "nicless1")
	other := strings.Replace(strings.ReplaceAll(pair, "ib_write_bw", "ib_write_bw -d nicless0"), "-d nicless0", "-d nicless1", 1)
	require.Regexp(t, `65536 +1000 +[1-9]`, c.run("sh", "-c", other))
	require.NotZero(t, n.engine("0"))
	require.Zero(t, n.engine("2"))
}

// A pod that has not asked for a device has none: this is what its user sees.
func TestPodWithoutADevice(t *testing.T) {
	needsPrograms(t)
	// The second on kernels without ib_uverbs.
	require.Regexp(t, "No IB devices found|Failed to get IB devices list: Function not implemented",
		(&container{t: t}).fails("ibv_devinfo"))
}
