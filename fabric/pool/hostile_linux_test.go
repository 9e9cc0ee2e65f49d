package pool

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/nic"
)

// Four nodes with threads of their own talk over a file. Another program has it mapped, and writes random
// words into all of it until a node has found wrong ones. All nodes live, no engine gets a packet that nobody
// has sent, and all pairs talk again when the writes have ended.
func TestRealFileIsScribbledOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pool")
	const nodes, size = 4, 4 << 20
	var pools [nodes]*Pool
	var engines [nodes]*liveEngine
	for i := range pools {
		engines[i] = newLiveEngine(uint64(i + 1))
		defer engines[i].end()
		cfg := Config{Path: path, Node: i, Nodes: nodes, Size: size, Dead: liveDead, Sums: SumsOn}
		p, err := Open(t.Context(), engines[i], cfg)
		require.NoError(t, err)
		pools[i] = p
	}
	// received returns how many packets of another node a node has, 0 if their link is not up.
	received := func(i, of int) uint64 {
		to := nic.Address{GUID: engines[of].guid}
		if path, ok := pools[i].Route(to); ok && path.Port != nil && pools[i].Why(to) == "" {
			return path.Port.Stats().Received
		}
		return 0
	}
	state := func() any {
		var all []any
		for _, p := range pools {
			all = append(all, p.Peers())
		}
		return all
	}
	talk := func() {
		t.Helper()
		for i := range pools {
			for j := range pools {
				if i == j {
					continue
				}
				var before uint64
				await.Until(t, "the link is up", func() bool { before = received(i, j); return before > 0 }, state)
				await.Until(t, "packets are echoed", func() bool { return received(i, j) > before+20 }, state)
			}
		}
	}
	talk()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(m)) }()
	s := &scribbler{mem: m, rng: rand.New(rand.NewPCG(1, 9)), h: pools[0].header}
	await.Until(t, "a node has seen wrong words", func() bool {
		for range 64 {
			s.write()
		}
		runtime.Gosched()
		return slices.ContainsFunc(pools[:], hasFaults)
	}, state)
	talk()
	for i := range pools {
		require.NoError(t, pools[i].Close())
		require.Zero(t, engines[i].damaged())
	}
}

// hasFaults reports whether a node has found wrong words of another one, or that it has lost its own number.
func hasFaults(p *Pool) bool {
	for _, s := range p.Peers() {
		if s.Faults > 0 || s.WrongSums > 0 || s.Name == "this node" {
			return true
		}
	}
	return false
}
