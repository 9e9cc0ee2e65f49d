package fabric

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// LinesPerMinute is how many lines a link writes to the log in a minute. Peers cause most of them,
// and could cause any number at no cost to themselves.
const LinesPerMinute = 60

// LimitLog returns a logger for one link that writes at most LinesPerMinute lines of log in each
// minute. Lines that are left out are counted: the next line that is written says in the attribute
// "unsaid" how many there were. log is not nil.
func LimitLog(log *slog.Logger) *slog.Logger { return limitLog(log, time.Now) }

func limitLog(log *slog.Logger, now func() time.Time) *slog.Logger {
	return slog.New(limited{log.Handler(), &lines{now: now}})
}

// lines counts the lines of one link. Its times have readings of the monotonic clock.
type lines struct {
	now func() time.Time

	mu         sync.Mutex
	began      time.Time // start of the current minute
	written    int       // lines in it
	suppressed int       // lines left out since the last one that was written
}

// take reports whether a line may be written, and how many lines were left out before it.
func (l *lines) take() (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.began.IsZero() || now.Sub(l.began) >= time.Minute {
		l.began, l.written = now, 0
	}
	if l.written == LinesPerMinute {
		l.suppressed++
		return 0, false
	}
	l.written++
	suppressed, l.suppressed = l.suppressed, 0
	return suppressed, true
}

// A limited is a slog.Handler that passes on what lines allows.
type limited struct {
	slog.Handler
	lines *lines
}

func (h limited) Handle(ctx context.Context, r slog.Record) error {
	suppressed, ok := h.lines.take()
	if !ok {
		return nil
	}
	if suppressed > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("unsaid", suppressed))
	}
	return h.Handler.Handle(ctx, r)
}

func (h limited) WithAttrs(a []slog.Attr) slog.Handler {
	return limited{h.Handler.WithAttrs(a), h.lines}
}

func (h limited) WithGroup(name string) slog.Handler {
	return limited{h.Handler.WithGroup(name), h.lines}
}
