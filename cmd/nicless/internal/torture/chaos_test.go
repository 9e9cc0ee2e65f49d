package torture

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/stretchr/testify/require"
)

// codes collects the codes of an engine's explanations.
type codes struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *codes) Write(b []byte) (int, error) {
	var line map[string]any
	if json.Unmarshal(b, &line) == nil {
		if code, ok := line["code"].(string); ok {
			c.mu.Lock()
			c.seen[code]++
			c.mu.Unlock()
		}
	}
	return len(b), nil
}

func (c *codes) kinds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// A villain that is refused at the door hurts nobody: each kind gets as far as
// it is meant to, and what a scribbler does is of many kinds.
func TestVillainsDoWrong(t *testing.T) {
	log := &codes{seen: map[string]int{}}
	socket := filepath.Join(t.TempDir(), "engine")
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		cfg := nicless.Config{Log: slog.New(slog.NewJSONHandler(log, nil))}
		ended <- nicless.Serve(ctx, socket, 0o600, cfg, func() { close(ready) })
	}()
	<-ready
	w := &wire{out: json.NewEncoder(io.Discard)}
	villainOf := func(kind Chaos, seed uint64) *villain {
		return newVillain(w, Spec{Socket: socket, Seed: seed, Chaos: kind})
	}

	v := villainOf(Scribbler, 1)
	world, err := v.build()
	require.NoError(t, err)
	require.Len(t, world.qps, worldQPs)
	// The engine says so many things a second, and no more.
	const kinds = 15
	late := time.Now().Add(20 * time.Second)
	for n := 0; n < 2000 || log.kinds() <= kinds && time.Now().Before(late); n++ {
		require.NoError(t, v.scrawl(world))
	}
	world.destroy()
	require.NoError(t, villainOf(Crowd, 2).crowd())
	require.NoError(t, villainOf(Hog, 3).hog())
	require.NoError(t, villainOf(Halver, 4).halve())
	v = villainOf(Garbler, 5)
	for range 20 {
		if err := v.garble(); err != nil {
			require.False(t, isTimeout(err), err)
		}
	}
	require.Greater(t, v.count.Mischief, uint64(100))
	for kind := Puncher; kind < chaosKinds; kind++ {
		v := villainOf(kind, 8)
		v.spec.Orphans = []Orphan{{QPN: 2, Peer: 3}}
		live := map[Chaos]func() error{
			Puncher: v.punch, Hoarder: v.hoard, Impostor: v.impersonate, Lingerer: v.linger, Chatterer: v.chatter,
		}[kind]
		require.NoError(t, live(), "%v", kind)
		require.Greater(t, v.count.Mischief, uint64(10), "%v", kind)
	}

	cancel()
	require.NoError(t, <-ended)
	require.Greater(t, len(log.seen), kinds, log.seen)
	t.Log(log.seen)
}
