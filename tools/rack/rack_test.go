//go:build linux && (amd64 || arm64)

package rack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Arguments for a large rack: go test ./tools/rack -v -args -engines 128 -idle 20s -quiet 20s -program PATH
var (
	engines = flag.Int("engines", 24, "engines")
	rounds  = flag.Int("rounds", 3, "rounds of data in each step")
	idle    = flag.Duration("idle", time.Second, "how long each measurement takes")
	quiet   = flag.Duration("quiet", 0, "how long to wait until the rings of closed queue pairs are given back")
	size    = flag.String("size", "", "of the pool (default: 2 MiB for each node)")
	program = flag.String("program", "", "nicless, whose engines are used (default: this program)")
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == EngineArgument {
		if err := Engine(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Engines over one pool exchange data that is right, before, while and after a fourth of them dies and comes
// back.
func TestRack(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "rack")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	c := Config{Engines: *engines, Dir: dir, Pool: filepath.Join(dir, "pool"), Size: *size, Program: *program,
		Rounds: *rounds, Idle: *idle, Quiet: *quiet, Log: t.Logf}
	if c.Size == "" {
		c.Size = fmt.Sprintf("%dM", 2*c.nodes())
	}
	require.NoError(t, Run(c))
}
