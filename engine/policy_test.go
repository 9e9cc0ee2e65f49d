package engine

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/nicless/nicless/engine/internal/journal"
	"github.com/stretchr/testify/require"
)

// With a quota of less than one core the engine sleeps, whatever policy is asked for, and the
// log says so.
func TestQuotaBelowACore(t *testing.T) {
	for _, want := range []idle{idleNap, idleSpin, idleMonitor} {
		var log bytes.Buffer
		j := journal.New(slog.New(slog.NewTextHandler(&log, nil)))
		require.Equal(t, idleNap, idlePolicy(want, true, 0.5, j))
		j.Flush(time.Minute)
		require.Contains(t, log.String(), "cores=0.50")
		require.Equal(t, want, idlePolicy(want, true, 1, j))
	}
}
