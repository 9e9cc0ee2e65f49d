//go:build linux && (amd64 || arm64)

package rack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nicless/nicless/internal/netns"
	"github.com/nicless/nicless/internal/proctest"
	"github.com/stretchr/testify/require"
)

// Arguments for a large rack: go test ./tools/rack -v -args -engines 128 -idle 20s -quiet 30s -program PATH
var (
	engines = flag.Int("engines", 24, "engines")
	rounds  = flag.Int("rounds", 3, "rounds of data in each step")
	idle    = flag.Duration("idle", time.Second, "how long each measurement takes")
	every   = flag.Duration("every", 100*time.Millisecond, "how often a node writes while others are killed and come back")
	phase   = flag.Duration("phase", time.Second, "how long each measurement of these writes takes")
	quiet   = flag.Duration("quiet", 0, "how long to wait until the rings of closed queue pairs are given back")
	size    = flag.String("size", "", "of the pool (default: 2 MiB for each node)")
	program = flag.String("program", "", "nicless, whose engines are used (default: this program)")
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == EngineArgument:
		err = Engine(os.Args[2], os.Args[3])
	case len(os.Args) == 2 && os.Args[1] == RelayArgument:
		err = Relay(os.Stdin, os.Stdout)
	case len(os.Args) > 2 && os.Args[1] == TCPArgument:
		err = TCP(os.Args[2:])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// config is what the tests have in common.
func config(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "rack")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return Config{Engines: *engines, Dir: dir, Program: *program, Rounds: *rounds, Idle: *idle, Every: *every,
		Phase: *phase, Quiet: *quiet, Log: t.Logf}
}

// Engines over one pool exchange data that is right, before, while and after a fourth of them dies and comes
// back.
func TestRack(t *testing.T) {
	c := config(t)
	c.Pool, c.Size = filepath.Join(c.Dir, "pool"), *size
	if c.Size == "" {
		c.Size = fmt.Sprintf("%dM", 2*c.nodes())
	}
	require.NoError(t, Run(c))
}

// The same over RoCE, where each engine is on a host of its own.
func TestRackOverRoCE(t *testing.T) {
	c := config(t)
	needsNetwork(t)
	require.NoError(t, Run(c))
}

// Each engine is connected with each other over RoCE, all at once, and the data is right.
func TestMeshOverRoCE(t *testing.T) {
	c := config(t)
	needsNetwork(t)
	c.Mesh = true
	require.NoError(t, Run(c))
}

// needsNetwork skips the test on a host that gives its users no network namespaces. In CI the test fails
// instead.
func needsNetwork(t *testing.T) {
	t.Helper()
	proctest.Need(t, append(netns.Programs, "setpriv")...)
	if err := netns.Check(); err != nil {
		proctest.Missing(t, "%v", err)
	}
}
