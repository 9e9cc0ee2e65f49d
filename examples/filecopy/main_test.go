//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { program.Main(m, main) }

// command runs the program with a folder of its own for temporary files.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := program.Command(t, args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	return cmd
}

// input makes a file of so many random bytes.
func input(t *testing.T, size int) (path string, content []byte) {
	t.Helper()
	content = make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content)
	path = filepath.Join(t.TempDir(), "in")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path, content
}

// serve runs an engine until the test ends.
func serve(t *testing.T, socket string, links ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- nicless.Serve(ctx, socket, 0o600, nicless.Config{Links: links}, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-ended })
}

func requireCopy(t *testing.T, cmd *exec.Cmd, out string, want []byte) {
	t.Helper()
	said, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Contains(t, string(said), fmt.Sprintf("copied %d bytes", len(want)))
	require.Contains(t, string(said), fmt.Sprintf("SHA-256 at both ends: %x", sha256.Sum256(want)))
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "%d bytes, %d wanted", len(got), len(want))
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Len(t, left, 1, "files left behind")
}

func TestCopy(t *testing.T) {
	for _, size := range []int{0, 1, chunk - 1, chunk, slots * chunk, 2*slots*chunk + 77} {
		in, content := input(t, size)
		out := filepath.Join(t.TempDir(), "out")
		requireCopy(t, command(t, "-in", in, "-out", out), out, content)
	}
}

// Sender and receiver are clients of two engines, between which there is a link.
func TestTwoEngines(t *testing.T) {
	memory, err := os.MkdirTemp("/dev/shm", "filecopy")
	if err != nil {
		t.Skipf("a pool needs memory in /dev/shm: %v", err)
	}
	defer os.RemoveAll(memory)
	dir := t.TempDir()
	var sockets []string
	for node := range 2 {
		socket := filepath.Join(dir, fmt.Sprint(node))
		sockets = append(sockets, socket)
		serve(t, socket, fmt.Sprintf("pool:%s/pool,node=%d,nodes=2,dead=1m", memory, node))
	}
	for _, socket := range sockets {
		var links []struct{ Peers []struct{ Up bool } }
		await.Until(t, socket+" has a link", func() bool {
			conn, err := net.Dial("unix", socket+nicless.LinksSuffix)
			require.NoError(t, err)
			links = nil
			require.NoError(t, json.NewDecoder(conn).Decode(&links))
			require.NoError(t, conn.Close())
			return len(links) == 1 && len(links[0].Peers) > 0 && links[0].Peers[0].Up
		}, func() any { return links })
	}
	in, content := input(t, 5*chunk+1)
	out := filepath.Join(t.TempDir(), "out")
	requireCopy(t, command(t, "-in", in, "-out", out, "-socket", sockets[0], "-to", sockets[1]), out, content)
}

// If something fails, there is no file.
func TestFailures(t *testing.T) {
	in, _ := input(t, 1000)
	dir := t.TempDir()
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-in", in}, 2, "-in FILE and -out FILE are needed"},
		{[]string{"-in", dir + "/missing", "-out", dir + "/out"}, 1, "no such file or directory"},
		{[]string{"-in", in, "-out", dir + "/missing/out"}, 1, "no such file or directory"},
		{[]string{"-in", in, "-out", dir + "/out", "-socket", dir + "/missing"}, 1, "no engine at"},
	} {
		cmd := command(t, row.args...)
		said, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Equal(t, row.code, cmd.ProcessState.ExitCode(), "%v: %s", row.args, said)
		require.Contains(t, string(said), row.want)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A receiver whose sender ends too early keeps nothing.
func TestSenderDies(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir+"/socket")
	e, err := dial(dir + "/socket")
	require.NoError(t, err)
	defer e.nic.Close()
	out := filepath.Join(t.TempDir(), "out")
	cmd := command(t, "-receiver", "-to", dir+"/socket", "-out", out)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	text, err := e.qp.Descriptor().MarshalJSON()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.Copy(stdin, bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, stdin.Close())
	require.Error(t, cmd.Wait())
	left, err := os.ReadDir(filepath.Dir(out))
	require.NoError(t, err)
	require.Empty(t, left)
}
