//go:build linux && (amd64 || arm64)

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// listenAsManager makes the socket of a manager of services, and returns how to read the next state.
func listenAsManager(t *testing.T, name string) (next func() string) {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	await.Deadline(t, c)
	return func() string {
		b := make([]byte, 512)
		n, err := c.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
}

func TestManagers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	for _, name := range []string{path, "@nicless-" + filepath.Base(t.TempDir()) + path} {
		next := listenAsManager(t, name)
		t.Setenv(managerVariable, name)
		m := takeManager()
		_, has := os.LookupEnv(managerVariable)
		require.False(t, has, "children are no services")
		var log strings.Builder
		m.report("READY=1", &log)
		require.Equal(t, "READY=1", next())
		require.Empty(t, log.String())
	}
}

func TestManagersThatAreNotThere(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for m, want := range map[manager]string{
		"":               "",
		manager(none):    "no such file",
		"vsock:2:1234":   "neither a path nor an abstract socket",
		"relative/notif": "neither a path nor an abstract socket",
	} {
		var log strings.Builder
		m.report("READY=1", &log)
		require.Contains(t, log.String(), want)
		if want != "" {
			require.Contains(t, log.String(), "nicless: the service manager does not hear of READY=1: NOTIFY_SOCKET="+string(m))
		}
	}
}

// An engine says that it is ready when programs can connect, and says when it stops.
func TestEngineTellsItsManager(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "engine.sock")
	next := listenAsManager(t, filepath.Join(dir, "notify"))
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Args = []string{"nicless", "engine", "--socket", socket, "--verbs"} // TestMain
	cmd.Env = append(os.Environ(), managerVariable+"="+filepath.Join(dir, "notify"))
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.Equal(t, "READY=1", next())
	require.NoError(t, place{socket: socket}.alive())
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "STOPPING=1", next())
	require.NoError(t, cmd.Wait(), log.String())
}
