package torture

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/explore"
	"github.com/nicless/nicless/internal/verdict"
	"github.com/stretchr/testify/assert"
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

func (c *codes) has(code string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[code] > 0
}

func (c *codes) kinds() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// Each attack reaches its target and is not refused at the start. A scribbler causes many kinds of
// explanations.
func TestAttacksReachTheirTargets(t *testing.T) {
	t.Parallel()
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
	clientOf := func(kind Attack, seed uint64) *hostile {
		return newHostile(w, Spec{Socket: socket, Seed: seed, Attack: kind, Hang: 10 * await.Patience})
	}

	v := clientOf(Scribbler, 1)
	objects, err := v.create()
	require.NoError(t, err)
	require.Len(t, objects.qps, objectsQPs)
	// The engine limits the number of explanations in each second.
	const kinds = 15
	patience := await.Context(t)
	sender := objects.qps[atTarget-1]
	for !log.has("xrc-srq") && patience.Err() == nil { // messages of XRC arrive
		require.NoError(t, v.connect(objects, atTarget-1, objects.qps[atTarget].qpn))
		require.NoError(t, v.connect(objects, atTarget, sender.qpn))
		v.postWrong(objects, sender)
		v.ring(objects, sender)
		for range 1000 { // until it has failed, as most do
			var a control.QPAttr
			require.NoError(t, objects.call(control.OpQueryQP, &control.QPN{QPN: sender.qpn}, &a))
			if a.State == control.StateERR {
				break
			}
		}
	}
	require.True(t, log.has("xrc-srq"))
	for n, most := 0, explore.Rounds(300, 2000); n < most || log.kinds() <= kinds && patience.Err() == nil; n++ {
		require.NoError(t, v.scribbleOnce(objects))
	}
	objects.destroy()
	require.NoError(t, clientOf(Abandoner, 2).abandon())
	require.NoError(t, clientOf(Hog, 3).hog())
	require.NoError(t, clientOf(Truncator, 4).truncate())
	v = clientOf(Fuzzer, 5)
	for range 20 {
		if err := v.fuzz(); err != nil {
			require.False(t, verdict.IsTimeout(err), err)
		}
	}
	require.Greater(t, v.count.HostileActions, uint64(100))
	var long sync.WaitGroup // the long attacks run at the same time, because each takes some seconds
	for kind := Puncher; kind < attackKinds; kind++ {
		v := clientOf(kind, 9) // a lingerer of this seed does not wait at the end
		v.spec.HalfOpen = []HalfOpenQP{{QPN: 2, Peer: 3}}
		attack := map[Attack]func() error{
			Puncher: v.punch, Hoarder: v.hoard, Impostor: v.impersonate, Lingerer: v.linger, LogFlooder: v.floodLog, CQHoarder: v.hoardCQs,
		}[kind]
		long.Go(func() {
			// an attack of a stated time may do less on a busy machine
			for v.count.HostileActions <= 10 && patience.Err() == nil {
				if !assert.NoError(t, attack(), "%v", kind) {
					return
				}
			}
			assert.Greater(t, v.count.HostileActions, uint64(10), "%v", kind)
		})
	}
	long.Wait()

	cancel()
	require.NoError(t, <-ended)
	require.Greater(t, len(log.seen), kinds, log.seen)
}
