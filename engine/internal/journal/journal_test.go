package journal

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A slowLog is a log handler that accepts one line each time that the test allows it.
type slowLog struct {
	next  chan struct{}
	lines chan slog.Record
}

func (l slowLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (l slowLog) WithAttrs([]slog.Attr) slog.Handler               { return l }
func (l slowLog) WithGroup(string) slog.Handler                    { return l }
func (l slowLog) Handle(_ context.Context, r slog.Record) error {
	<-l.next
	l.lines <- r
	return nil
}

// Log never waits for the logger. Lines are written in order. Lines for which there is no room
// are counted, and the count is written.
func TestLoggerIsSlow(t *testing.T) {
	l := slowLog{make(chan struct{}), make(chan slog.Record, 4*Capacity)}
	j := New(slog.New(l))
	const sent = 3 * Capacity
	for i := range sent {
		j.Log(slog.LevelInfo, "line", "n", i)
		j.Log(slog.LevelDebug, "not enabled")
	}
	j.Flush(time.Millisecond) // does not wait for the logger either
	close(l.next)
	j.Flush(time.Minute)
	close(l.lines)
	written, lost, last := 0, 0, int64(-1)
	for r := range l.lines {
		r.Attrs(func(a slog.Attr) bool {
			switch {
			case r.Message == "line":
				require.Greater(t, a.Value.Int64(), last)
				last = a.Value.Int64()
				written++
			default:
				require.Equal(t, "unsaid", a.Key)
				lost += int(a.Value.Int64())
			}
			return true
		})
	}
	require.Equal(t, sent, written+lost)
	require.GreaterOrEqual(t, lost, sent-2*Capacity, "the writer can have made room once")
	require.Zero(t, j.Lost())
}

func TestNoLogger(t *testing.T) {
	j := New(nil)
	require.True(t, j.Discards())
	require.False(t, j.Enabled(slog.LevelError))
	j.Log(slog.LevelError, "nothing happens")
	j.Flush(time.Hour)
	require.False(t, New(slog.Default()).Discards())
}
