//go:build linux && (amd64 || arm64)

package plugin

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// A command is nicless-device-plugin.
type command struct {
	*exec.Cmd
	said *bytes.Buffer
}

// startCommand starts nicless-device-plugin with the capabilities that the manifest leaves it, where this
// process may take others away.
func (n *node) startCommand(flags ...string) *command {
	n.t.Helper()
	args := []string{filepath.Join(built, "nicless-device-plugin"), "--kubelet", n.kubelet, "--dir", n.state,
		"--cdi", n.cdi, "--devices", "2"}
	if os.Geteuid() == 0 && mayMount(n.t) {
		args = append([]string{"setpriv", "--bounding-set", "-all,+sys_ptrace" + n.capabilities, "--inh-caps", "-all",
			"--no-new-privs"}, args...)
	}
	c := &command{exec.Command(args[0], append(args[1:], flags...)...), new(bytes.Buffer)}
	c.Stderr = c.said
	require.NoError(n.t, c.Start())
	n.t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if n.t.Failed() {
			n.t.Log(c.said)
		}
	})
	return c
}

// status waits for the end and returns the exit status.
func (c *command) status() int {
	_ = c.Wait()
	return c.ProcessState.ExitCode()
}

// The command as the manifest starts it: a pod's program uses its device, also with memory that the engine
// has to copy, which takes the one capability. SIGTERM ends the plugin and its engines.
func TestCommand(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	c := n.startCommand("--", "--no-devx")
	p := k.plugin()
	require.Len(t, <-watch(t, p), 2)
	pod := newContainer(t, allocate(t, p, "0"))
	pod.env = append(pod.env, "NICLESS_VERBS_SLOW=1")
	require.Regexp(t, `65536 +1000 +[1-9]`, pod.run("sh", "-c", pair))
	socket := filepath.Join(n.state, "nicless.io-hca", "devices", "0", "engine.sock")
	require.NotEmpty(t, processes(t, socket))
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	require.Zero(t, c.status())
	require.Empty(t, processes(t, socket))
	require.NoFileExists(t, filepath.Join(n.kubelet, SocketName(Resource)))
}

// A plugin that is killed takes its engines with it, and the next one goes on.
func TestCommandIsKilled(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	c := n.startCommand()
	a := allocate(t, k.plugin(), "1")
	socket := filepath.Join(n.state, "nicless.io-hca", "devices", "1", "engine.sock")
	require.NotEmpty(t, processes(t, socket))
	require.NoError(t, c.Process.Kill())
	require.Equal(t, -1, c.status())
	await.Until(t, "the engine ends", func() bool { return len(processes(t, socket)) == 0 })
	n.startCommand()
	k.plugin()
	server := filepath.Join(a.Mounts[0].HostPath, "engine.sock.verbs", "server.sock")
	await.Until(t, "an engine for the container", func() bool { _, err := os.Stat(server); return err == nil })
	require.Contains(t, newContainer(t, a).run("ibv_devinfo"), "nicless0")
}

// Engines of another user take capabilities more, and another plugin of the node can have the other resource.
func TestCommandOfAnotherUser(t *testing.T) {
	needsNamespaces(t)
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.startCommand()
	k.plugin()
	n.capabilities = ",+chown,+dac_override,+kill,+setgid,+setuid"
	n.startCommand("--resource", "example.com/hca-1000", "--user", "1000")
	r := await.Receive(t, "the second plugin registers", k.asked)
	require.Equal(t, "example.com/hca-1000", r.ResourceName)
	p := k.dial(r.Endpoint)
	a := allocate(t, p, "0")
	require.Equal(t, "example.com/hca-1000=0", a.CdiDevices[0].Name)
	restart(t, p, "0")
	c := newContainer(t, a)
	c.uid, c.host = 1000, true
	require.Regexp(t, `65536 +1000 +[1-9]`, c.run("sh", "-c", pair))
}

// Errors of the command say what to do.
func TestCommandRefuses(t *testing.T) {
	n := newNode(t)
	k := startKubelet(t, n.kubelet)
	n.startCommand()
	k.plugin()
	for _, row := range []struct {
		flags  []string
		status int
		says   string
	}{
		{nil, 1, "lock: another process has this directory\nnicless-device-plugin: hint: one plugin for each resource and node"},
		{[]string{"--dir", n.state + "o"}, 1, "another plugin serves this resource on this node: nicless.io/hca"},
		{[]string{"--dir", n.state + "o", "--kubelet", n.cdi + "/none"}, 1, "no kubelet has ever run here"},
		{[]string{"--library", "/none"}, 1, "stat /none: no such file or directory"},
		{[]string{"--devices", "0"}, 1, "0 devices: 1 to 1024 are possible"},
		{[]string{"--devices", "x"}, 2, `invalid value "x" for flag -devices`},
		{[]string{"--user", "daemon"}, 2, "numbers are possible: UID or UID:GID"},
		{[]string{"--resource", "hca"}, 2, "a domain and a name are possible, such as nicless.io/hca"},
		{[]string{"--resource", "kubernetes.io/hca"}, 2, "or a domain of Kubernetes"},
		{[]string{"extra"}, 2, `argument "extra": only flags of nicless engine come after --`},
	} {
		c := n.startCommand(row.flags...)
		require.Equal(t, row.status, c.status(), row.flags)
		require.Contains(t, c.said.String(), row.says)
	}
	help := n.startCommand("--help")
	require.Zero(t, help.status())
	require.True(t, strings.HasPrefix(help.said.String(), "Offers RDMA devices"))
}
