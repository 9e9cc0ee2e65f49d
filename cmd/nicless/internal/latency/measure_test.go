//go:build linux && (amd64 || arm64)

package latency

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

// serve runs an engine in this process, and returns the path of its socket.
func serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e")
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- nicless.Serve(ctx, path, 0o600, nicless.Config{}, func() { close(ready) })
	}()
	t.Cleanup(func() {
		stop()
		require.NoError(t, await.Receive(t, "the engine ends", ended))
	})
	await.Receive(t, "the engine is ready", ready)
	return path
}

// writer posts signaled WRITEs until it is stopped, one after another.
func writer(t *testing.T, path string) (queue uint32, stop func()) {
	t.Helper()
	c, err := nicless.Dial(path)
	require.NoError(t, err)
	pd, err := c.AllocPD()
	require.NoError(t, err)
	mr, err := pd.RegisterMemory(4096, nicless.FullAccess)
	require.NoError(t, err)
	cq, err := c.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	a, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	b, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	require.NoError(t, nicless.Pair(a, b, nicless.Connection{}))
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- func() error {
			got := make([]nicless.Completion, 1)
			for {
				if err := a.PostSend(&nicless.SendWR{Op: nicless.Write, Flags: nicless.Signaled,
					SGE: []nicless.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey()}); err != nil {
					return err
				}
				for n := 0; n == 0; {
					select {
					case <-quit:
						return nil
					default:
					}
					var err error
					if n, err = cq.Poll(got); err != nil {
						return err
					}
				}
			}
		}()
	}()
	return a.QPN(), func() {
		close(quit)
		require.NoError(t, await.Receive(t, "the writer ends", ended))
		require.NoError(t, c.Close())
	}
}

func TestMeasure(t *testing.T) {
	path := serve(t)
	queue, stop := writer(t, path)
	defer stop()
	var s Sample
	await.Until(t, "a whole sample", func() bool {
		var err error
		s, err = Measure(t.Context(), path, queue)
		require.NoError(t, err)
		require.Equal(t, queue, s.Queue)
		return len(s.Latencies) == MostCompletions
	})
	for _, d := range s.Latencies {
		require.Positive(t, d)
		require.Less(t, d, time.Minute)
	}

	_, err := Measure(t.Context(), path, 0x123456)
	require.ErrorContains(t, err, "0x123456")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Measure(ctx, path, queue)
	require.ErrorIs(t, err, context.Canceled)
	_, err = Measure(t.Context(), path+"x", queue)
	require.ErrorContains(t, err, "latency: ")
}

// A sample of a queue that does nothing ends, and is empty.
func TestMeasureIdle(t *testing.T) {
	path := serve(t)
	queue, stop := writer(t, path)
	await.Until(t, "a sample", func() bool {
		s, err := Measure(t.Context(), path, queue)
		require.NoError(t, err)
		return len(s.Latencies) > 0
	})
	stop()

	c, err := nicless.Dial(path)
	require.NoError(t, err)
	defer c.Close()
	pd, err := c.AllocPD()
	require.NoError(t, err)
	cq, err := c.CreateCQ(nicless.CQConfig{PollOnly: true})
	require.NoError(t, err)
	q, err := pd.CreateQP(nicless.QPConfig{SendCQ: cq})
	require.NoError(t, err)
	s, err := Measure(t.Context(), path, q.QPN())
	require.NoError(t, err)
	require.Empty(t, s.Latencies)
}
