package fabric

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A link writes so many lines in a minute, by all loggers that are made of its own. Lines below the
// log's level do not count, and what was left out is counted once.
func TestLimitLog(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	log := limitLog(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	for range LinesPerMinute {
		log.Debug("not written")
	}
	peer := log.With("peer", 1)
	for range LinesPerMinute {
		log.Warn("down")
		peer.Info("up")
	}
	require.Equal(t, LinesPerMinute, strings.Count(out.String(), "\n"))
	require.NotContains(t, out.String(), "unsaid")
	now = now.Add(time.Minute - 1)
	log.Warn("down")
	require.Equal(t, LinesPerMinute, strings.Count(out.String(), "\n"))
	now = now.Add(1)
	out.Reset()
	peer.WithGroup("g").Info("up")
	log.Warn("down")
	first, second, _ := strings.Cut(out.String(), "\n")
	require.Contains(t, first, "unsaid=61")
	require.NotContains(t, second, "unsaid")
}
