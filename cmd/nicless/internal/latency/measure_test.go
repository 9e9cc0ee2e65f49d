//go:build linux && (amd64 || arm64)

package latency

import (
	"context"
	"testing"
	"time"

	"github.com/nicless/nicless"
	"github.com/nicless/nicless/cmd/nicless/internal/enginetest"
	"github.com/nicless/nicless/internal/await"
	"github.com/stretchr/testify/require"
)

func TestMeasure(t *testing.T) {
	path := enginetest.Serve(t)
	queue, stop := enginetest.Writer(t, path)
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
	path := enginetest.Serve(t)
	queue, stop := enginetest.Writer(t, path)
	await.Until(t, "a sample", func() bool {
		s, err := Measure(t.Context(), path, queue)
		require.NoError(t, err)
		return len(s.Latencies) > 0
	})
	stop()

	c := enginetest.Dial(t, path, nicless.CQConfig{PollOnly: true})
	defer c.Close()
	s, err := Measure(t.Context(), path, c.A.QPN())
	require.NoError(t, err)
	require.Empty(t, s.Latencies)
}
