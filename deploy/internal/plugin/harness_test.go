//go:build linux && (amd64 || arm64)

package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nicless/nicless/deploy/internal/engines"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/shimtest"
	"github.com/stretchr/testify/require"
)

// built has the commands and the library, of this tree.
var built string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nicless-built-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // engines of another user are made of it
		panic(err)
	}
	built = dir
	return m.Run()
}

// build makes what is in built, for the first test that needs it.
var build = sync.OnceValue(func() error {
	const root = "../../.."
	c := exec.Command("go", "build", "-o", built, "./cmd/nicless", "./deploy/nicless-device-plugin")
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", c.Args, err, out)
	}
	return shimtest.Build(root, filepath.Join(built, engines.LibraryName))
})

// programs are what the tests run: packages gcc, make, mount, util-linux, iproute2, ibverbs-utils, perftest.
var programs = []string{"cc", "make", "mount", "setpriv", "ip", "rdma", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw"}

// needsPrograms builds the commands, and skips the test where programs are missing or no user may make
// namespaces. In CI nothing is missing.
func needsPrograms(t *testing.T) {
	t.Helper()
	var err error
	for _, p := range programs {
		if err == nil {
			_, err = exec.LookPath(p)
		}
	}
	if err == nil {
		c := exec.Command("true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS}
		err = c.Run()
	}
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NoError(t, build())
}

// A node has a plugin, and directories as those of a node.
type node struct {
	t       *testing.T
	kubelet string // directories
	cdi     string
	state   string
	pool    *engines.Pool
	user    *engines.User
	command string
	// of the command, besides SYS_PTRACE: as setpriv takes them, each after a comma
	capabilities string
	stop         context.CancelFunc
	ended        chan error
}

// newNode makes the directories of a node without a plugin. Their paths are short, as sockets need.
func newNode(t *testing.T) *node {
	t.Helper()
	needsPrograms(t)
	dir, err := os.MkdirTemp("", "nk")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o711)) // engines of another user look for their directories in it
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	n := &node{t: t, kubelet: filepath.Join(dir, "kubelet"), cdi: filepath.Join(dir, "cdi"), state: filepath.Join(dir, "s"),
		command: filepath.Join(built, "nicless")}
	require.NoError(t, os.Mkdir(n.kubelet, 0o700))
	return n
}

func (n *node) config() engines.Config {
	return engines.Config{Dir: n.state, Devices: 3, Command: n.command,
		Library: filepath.Join(built, engines.LibraryName), User: n.user, Log: logOf(n.t)}
}

// start starts the plugin.
func (n *node) start() *node {
	n.t.Helper()
	pool, err := engines.Open(n.t.Context(), n.config())
	require.NoError(n.t, err)
	ctx, stop := context.WithCancel(context.Background())
	n.pool, n.stop, n.ended = pool, stop, make(chan error, 1)
	go func() { n.ended <- Run(ctx, n.plugin()) }()
	n.t.Cleanup(n.end)
	return n
}

func (n *node) plugin() Config {
	return Config{Resource: Resource, Kubelet: n.kubelet, CDI: n.cdi, Pool: n.pool, Log: logOf(n.t)}
}

// end stops the plugin, and waits until its engines have ended.
func (n *node) end() {
	if n.pool == nil {
		return
	}
	n.stop()
	require.NoError(n.t, await.Receive(n.t, "the plugin ends", n.ended))
	require.NoError(n.t, n.pool.Close())
	n.pool = nil
}

// engine returns the process number of the engine of a device; 0: there is none.
func (n *node) engine(id string) int {
	n.t.Helper()
	for _, pid := range processes(n.t, filepath.Join(n.state, "devices", id, "engine.sock")) {
		if parent(pid) == os.Getpid() { // and not the process that holds the engine's memory map
			return pid
		}
	}
	return 0
}

// processes returns the processes that have an argument.
func processes(t *testing.T, argument string) (pids []int) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, path := range list {
		text, _ := os.ReadFile(path)
		if strings.Contains(string(text), "\x00"+argument+"\x00") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

func parent(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	ppid, _ := strconv.Atoi(fields[1])
	return ppid
}

// kill ends the engine of a device as a crash would.
func (n *node) kill(id string) {
	n.t.Helper()
	pid := n.engine(id)
	require.NotZero(n.t, pid)
	require.NoError(n.t, syscall.Kill(pid, syscall.SIGKILL))
}

// logOf returns a log that is shown if the test fails.
func logOf(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
