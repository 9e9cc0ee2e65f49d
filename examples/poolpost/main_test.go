package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/edsrzf/mmap-go"
	"github.com/nicless/nicless"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// If this environment variable is set, the test binary runs the program.
const asProgram = "NICLESS_TEST_RUN_POOLPOST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A process runs the program.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	p.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.out, &p.err
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		cancel()
		if p.ProcessState == nil {
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
	return start(t, append([]string{"poster", "-file", pool, "-node", node}, more...)...)
}

// Two processes that have only the file post through an engine in a third, while a fourth
// writes nonsense into its own queues. Later posters go on where earlier ones have ended.
func TestPoolpost(t *testing.T) {
	dir := t.TempDir()
	pool, text := filepath.Join(dir, "pool"), filepath.Join(dir, "json")
	early := startPoster(t, pool, "1")
	require.Equal(t, 1, early.end())
	require.Contains(t, early.err.String(), "no such file")

	e := start(t, "engine", "-file", pool, "-json", text, "-bytes", "20008")
	require.Eventually(t, func() bool { _, err := os.Stat(text); return err == nil }, 20*time.Second, time.Millisecond)
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
	require.Eventually(t, func() bool { return w.Load(helloAt) != 0 }, 20*time.Second, time.Millisecond)
}

// What a killed engine has left behind is not taken for an engine, and a new engine takes its
// place. Posters notice that theirs is gone.
func TestStale(t *testing.T) {
	pool := filepath.Join(t.TempDir(), "pool")
	e := start(t, "engine", "-file", pool, "-pairs", "1")
	var mem mmap.MMap
	require.Eventually(t, func() bool { m, err := mapPool(filePart{path: pool}); mem = m; return err == nil }, 20*time.Second, time.Millisecond)
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
	require.Eventually(t, func() bool { id, _, err := b.get(); return err == nil && id != first }, 20*time.Second, time.Millisecond)
	var wg sync.WaitGroup
	for _, p := range []*process{startPoster(t, pool, "1", "-n", "50"), startPoster(t, pool, "2")} {
		wg.Go(func() { assert.Zero(t, p.end(), "%s", &p.err) })
	}
	wg.Wait()
}

func TestUsage(t *testing.T) {
	p := start(t, "-h")
	assert.Zero(t, p.end())
	assert.Equal(t, usage, p.out.String())
	for _, c := range []struct{ args, want string }{
		{"", `the first argument is ""`}, {"both", `the first argument is "both"`},
		{"engine", "-file is missing"}, {"poster -file x", "-node 0; numbers begin with 1"},
		{"engine -file x y", `"y" is not an option`}, {"engine -file x -node 1", "not defined: -node"},
		{"engine -file x -pairs 17", "-pairs 17; 1 to 16 are possible"}, {"engine -file x -bytes 12", "-bytes 12; a multiple of 8"},
		{"engine -file x -length -1", "-offset 0, -length -1; they are not negative"}, {"poster -file x -node 1 -n 0", "-n 0, -rounds 20; 1 to 16777216"},
	} {
		p := start(t, strings.Fields(c.args)...)
		assert.Equal(t, 2, p.end(), c.args)
		assert.Contains(t, p.err.String(), c.want)
	}
}

// findIvshmem tells the device from others and enables it.
func TestFindIvshmem(t *testing.T) {
	root := t.TempDir()
	put := func(dev string, files ...string) {
		require.NoError(t, os.Mkdir(filepath.Join(root, dev), 0o700))
		for i := 0; i < len(files); i += 2 {
			require.NoError(t, os.WriteFile(filepath.Join(root, dev, files[i]), []byte(files[i+1]), 0o600))
		}
	}
	put("0", "vendor", "0x1af4\n", "device", "0x1000\n", "enable", "0\n")
	_, err := findIvshmem(root)
	require.ErrorContains(t, err, "none of the 1 devices")
	put("1", "vendor", "0x8086\n", "device", "0x1110\n", "enable", "0\n")
	put("2", "vendor", "0x1af4\n", "device", "0x1110\n", "enable", "0\n")
	path, err := findIvshmem(root)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(root, "2", "resource2"), path)
	for dev, want := range map[string]string{"0": "0\n", "1": "0\n", "2": "1"} {
		b, err := os.ReadFile(filepath.Join(root, dev, "enable"))
		require.NoError(t, err)
		require.Equal(t, want, string(b))
	}
}

func words(t *testing.T, size uint64) []byte {
	t.Helper()
	mem, err := mmap.MapRegion(nil, int(size), mmap.RDWR, mmap.ANON, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = mem.Unmap() })
	return mem
}

// A board with a byte that is wrong is not read.
func TestBoard(t *testing.T) {
	b, err := boardOf(words(t, boardSize))
	require.NoError(t, err)
	_, _, err = b.get()
	require.ErrorIs(t, err, errBlank)
	text, err := json.Marshal(description{Nodes: []node{{Peer: 7}}})
	require.NoError(t, err)
	require.NoError(t, b.put(5, text))
	id, d, err := b.get()
	require.NoError(t, err)
	require.EqualValues(t, 5, id)
	require.Equal(t, 7, d.Nodes[0].Peer)
	for at := range textAt + len(text) {
		if at >= beatAt && at < textAt {
			continue
		}
		b.Bytes()[at] ^= 1
		_, _, err := b.get()
		require.Error(t, err, "byte %d", at)
		b.Bytes()[at] ^= 1
	}
	require.Error(t, b.put(5, make([]byte, boardSize)))
	require.NoError(t, b.put(6, []byte("{")))
	_, _, err = b.get()
	require.ErrorContains(t, err, "the description: unexpected end of JSON input")
}

// The numbers of a description are checked, and so are the bytes that a peer writes.
func TestChecks(t *testing.T) {
	mem := words(t, 1<<16)
	cq := nicless.RawCQLayout{EntrySize: 64, Ring: nicless.Place{Offset: 2048, Size: 1024}, Record: nicless.Place{Offset: 8, Size: 8}}
	good := func() *description {
		n := node{Peer: 1, Memory: nicless.MemoryLayout{Place: nicless.Place{Offset: 1 << 14, Size: wordsSize + areas*64}}, QP: nicless.RawLayout{
			Send: nicless.Place{Offset: 4096, Size: 1024}, Record: nicless.Place{Size: 8}, Register: nicless.Place{Offset: 512, Size: 512}, SendCQ: cq, RecvCQ: cq,
		}}
		return &description{Nodes: []node{n, n}}
	}
	p, err := newPoster(posterConfig{node: 2}, mem, good())
	require.NoError(t, err)
	require.Equal(t, 64, p.size)
	for _, c := range []struct {
		node   int
		change func(*description)
		want   string
	}{
		{3, func(*description) {}, "there is no node 3, there are 2"},
		{2, func(d *description) { d.Nodes[1].Peer = 3 }, "node 2 has peer 3; 1 to 2 are possible"},
		{2, func(d *description) { d.Nodes[1].QP.Send.Offset = 1 << 20 }, "send ring"},
		{2, func(d *description) { d.Nodes[1].Memory.Offset = 1 << 16 }, "4288 bytes at offset 65536"},
		{2, func(d *description) { d.Nodes[1].Memory.Size = 8 }, "nodes 2 and 1 have memory of 8 and 4288 bytes"},
		{2, func(d *description) { d.Nodes[0].Memory.Size = 8 }, "nodes 2 and 1 have memory of 4288 and 8 bytes"},
	} {
		d := good()
		c.change(d)
		_, err := newPoster(posterConfig{node: c.node}, mem, d)
		require.ErrorContains(t, err, c.want)
	}

	y := &play{poster: p, number: 99}
	y.fill(1, func(at int) uint64 { return y.word(1, 3, at) })
	require.NoError(t, y.check(1, 1, 3))
	require.ErrorContains(t, y.check(1, 2, 3), "round 3 of node 2: ")
	require.Error(t, y.check(1, 1, 2))
	require.Error(t, y.check(2, 1, 3))
	for at := range 64 {
		p.mem.Bytes()[y.area(1)+at] ^= 0x10
		require.Error(t, y.check(1, 1, 3), "byte %d", at)
		p.mem.Bytes()[y.area(1)+at] ^= 0x10
	}
}
