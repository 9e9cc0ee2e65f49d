package verbs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/freeport"
	"github.com/nicless/nicless/internal/shimtest"
	"github.com/stretchr/testify/require"
)

// missing skips a test that needs something that is not installed. In CI the test fails
// instead.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("in CI it has to be there: "+format, args...)
	}
	t.Skipf(format, args...)
}

// library builds the library that programs preload.
func library(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "shim.so")
	if err := shimtest.Build("..", path); err != nil {
		missing(t, "the library does not build here: %v", err)
	}
	return path
}

// Installed programs of rdma-core run unmodified on the device.
func TestPrograms(t *testing.T) {
	for tool, of := range map[string]string{"make": "make", "cc": "gcc", "ibv_devinfo": "ibverbs-utils", "ibv_rc_pingpong": "ibverbs-utils"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing(t, "%s is not installed (Debian: apt install %s libc6-dev ibverbs-providers)", tool, of)
		}
	}
	shim := library(t)
	dir, _ := serving(t, 2)
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(await.Context(t), name, args...)
		c.Env = append(os.Environ(), "LD_PRELOAD="+shim, "NICLESS_VERBS="+dir)
		return c
	}
	out, err := command("ibv_devinfo", "-v").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, want := range []string{"nicless0", "nicless1", "PORT_ACTIVE"} {
		require.Contains(t, string(out), want)
	}
	slow := []string{"-n", "300"} // the payload stays where it is
	for _, p := range []struct {
		name string
		args []string
	}{
		{"ibv_rc_pingpong", []string{"-s", "4096"}}, {"ibv_rc_pingpong", []string{"-e"}}, {"ibv_rc_pingpong", []string{"-t"}}, {"ibv_uc_pingpong", []string{"-s", "4096"}},
		{"ibv_ud_pingpong", []string{"-s", "1024"}}, {"ibv_srq_pingpong", []string{"-e"}}, {"ibv_rc_pingpong", slow},
	} {
		if p.args[0] == slow[0] {
			t.Setenv("NICLESS_VERBS_SLOW", "1")
		}
		port := strconv.Itoa(freeport.TCP(t))
		args := append([]string{"-g", "0", "-n", "200", "-p", port}, p.args...)
		var said bytes.Buffer
		server := command(p.name, append(args, "-d", "nicless0")...)
		server.Stdout, server.Stderr = &said, &said
		require.NoError(t, server.Start())
		// Waits until the server listens. The test does not connect, because the server would
		// take the connection for its client's.
		await.Until(t, "the server listens", func() bool { return listens(port) })
		out, err := command(p.name, append(args, "-d", "nicless1", "localhost")...).CombinedOutput()
		require.NoError(t, err, "%s %v: %s", p.name, p.args, out)
		require.NoError(t, server.Wait(), "%s %v: %s", p.name, p.args, said.String())
		require.Contains(t, string(out), " iters", p.name)
	}
}

// listens reports whether the kernel's list has a process that listens at a port.
func listens(port string) bool {
	n, _ := strconv.Atoi(port)
	want := []byte(":" + string(bytes.ToUpper([]byte(strconv.FormatInt(0x10000+int64(n), 16)))[1:]) + " ")
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		b, _ := os.ReadFile(file)
		for line := range bytes.Lines(b) {
			f := bytes.Fields(line)
			if len(f) > 3 && string(f[3]) == "0A" && bytes.HasSuffix(append(f[1], ' '), want) {
				return true
			}
		}
	}
	return false
}
