//go:build linux && (amd64 || arm64)

package onlymemory

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/edsrzf/mmap-go"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/program"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	program.Main(m, func() {
		if err := Run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "poster: error:", err)
			os.Exit(1)
		}
	})
}

// A process runs the program.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: program.Command(t, args...)}
	p.Stdout, p.Stderr = &p.out, &p.err
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// end waits for the end of the process and returns its exit status.
func (p *process) end() int {
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

func startPoster(t *testing.T, pool, node string, more ...string) *process {
	t.Helper()
	return start(t, append([]string{"post", "-file", pool, "-node", node}, more...)...)
}

// Two processes that have only the file post through an engine in a third, while a fourth
// writes nonsense into its own queues. Later posters go on where earlier ones have ended.
func TestOnlyMemory(t *testing.T) {
	dir := t.TempDir()
	pool, text := filepath.Join(dir, "pool"), filepath.Join(dir, "json")
	early := startPoster(t, pool, "1")
	require.Equal(t, 1, early.end())
	require.Contains(t, early.err.String(), "no such file")

	e := start(t, "engine", "-file", pool, "-json", text, "-bytes", "20008")
	await.Until(t, "the engine has written the description", func() bool { _, err := os.Stat(text); return err == nil })
	alone := startPoster(t, pool, "1") // waits for its peer, and is killed
	b, err := os.ReadFile(text)
	require.NoError(t, err)
	var d description
	require.NoError(t, json.Unmarshal(b, &d))
	waitForHello(t, pool, &d)
	require.NoError(t, alone.Process.Kill())
	alone.end()

	bad := []*process{startPoster(t, pool, "3", "-garbage", "-n", "300"), startPoster(t, pool, "4", "-garbage", "-n", "300", "-nap", "0")}
	for _, nap := range []string{"20us", "0"} {
		good := []*process{startPoster(t, pool, "1", "-nap", nap, "-n", "300", "-rounds", "7"), startPoster(t, pool, "2", "-nap", nap)}
		for i, p := range good {
			require.Zero(t, p.end(), "%s", &p.err)
			want := `^node ` + []string{"1", "2"}[i] + `: 300 round trips, median \S+s; 7 writes and 7 reads of 20008 bytes, every byte checked; 300 fetch-and-adds, counter 314573400\n$`
			require.Regexp(t, want, p.out.String())
			require.Empty(t, p.err.String())
		}
	}
	for _, p := range bad {
		require.Zero(t, p.end(), p.err.String())
		require.Contains(t, p.out.String(), "opcode 0x77 was refused (LOC_QP_OP_ERR), then 300 times random bytes in all its queues")
	}

	require.NoError(t, e.Process.Signal(syscall.SIGTERM))
	require.Zero(t, e.end(), e.err.String())
	require.Contains(t, e.out.String(), "serves nodes 1 to 4 in "+pool)
	require.Contains(t, e.err.String(), "opcode 0x77") // the explanation
	late := startPoster(t, pool, "1", "-timeout", "100ms")
	require.Equal(t, 1, late.end())
	require.Contains(t, late.err.String(), "waited for an engine: context deadline exceeded (there is no description in the memory yet)")
}

// waitForHello waits until node 1 has greeted node 2.
func waitForHello(t *testing.T, pool string, d *description) {
	t.Helper()
	mem, err := mapPool(filePart{path: pool})
	require.NoError(t, err)
	defer mem.Unmap()
	w, err := wordsOf(mem[boardSize:], d.Nodes[1].Memory.Place)
	require.NoError(t, err)
	await.Until(t, "node 1 has greeted node 2", func() bool { return w.Load(helloAt) != 0 })
}

// The remains of a killed engine are not taken for an engine, and a new engine takes its
// place. Posters notice that theirs is gone.
func TestStale(t *testing.T) {
	pool := filepath.Join(t.TempDir(), "pool")
	e := start(t, "engine", "-file", pool, "-pairs", "1")
	var mem mmap.MMap
	await.Until(t, "the engine has made the pool", func() bool { m, err := mapPool(filePart{path: pool}); mem = m; return err == nil })
	defer mem.Unmap()
	b, err := boardOf(mem)
	require.NoError(t, err)
	first, d, err := waitForEngine(t.Context(), b, 0)
	require.NoError(t, err)
	lonely := startPoster(t, pool, "1")
	waitForHello(t, pool, &d)
	require.NoError(t, e.Process.Kill())
	e.end()
	stale := startPoster(t, pool, "1", "-timeout", "100ms")
	require.Equal(t, 1, stale.end())
	require.Regexp(t, `waited for an engine: context deadline exceeded \(its engine [0-9a-f]{16} does not run\)`, stale.err.String())

	start(t, "engine", "-file", pool, "-pairs", "1")
	require.Equal(t, 1, lonely.end())
	require.Contains(t, lonely.err.String(), "the engine has ended, or another one has begun")
	await.Until(t, "the new engine has its board", func() bool { id, _, err := b.get(); return err == nil && id != first })
	var wg sync.WaitGroup
	for _, p := range []*process{startPoster(t, pool, "1", "-n", "50"), startPoster(t, pool, "2")} {
		wg.Go(func() { assert.Zero(t, p.end(), "%s", &p.err) })
	}
	wg.Wait()
}

func TestUsage(t *testing.T) {
	p := start(t, "post", "-h")
	assert.Zero(t, p.end())
	assert.Equal(t, usage, p.out.String())
	for _, c := range []struct{ args, want string }{
		{"engine", "-file is missing"}, {"post -file x", "-node 0; numbers begin with 1"},
		{"engine -file x y", `"y" is not an option`}, {"engine -file x -node 1", "not defined: -node"},
		{"engine -file x -pairs 17", "-pairs 17; 1 to 16 are possible"}, {"engine -file x -bytes 12", "-bytes 12; a multiple of 8"},
		{"engine -file x -length -1", "-offset 0, -length -1; they are not negative"}, {"post -file x -node 1 -n 0", "-n 0, -rounds 20; 1 to 16777216"},
	} {
		p := start(t, strings.Fields(c.args)...)
		assert.Equal(t, 1, p.end(), c.args)
		assert.Contains(t, p.err.String(), c.want)
	}
}
