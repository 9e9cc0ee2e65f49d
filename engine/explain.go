package engine

import (
	"fmt"
	"log/slog"
	"time"
)

// An explainer says what hardware would pass over in silence, at most once in
// a while for each kind of fault, and counts the rest.
type explainer struct {
	kinds map[string]*quiet
}

type quiet struct {
	until time.Time
	held  int // said nothing about
}

// quietTime is how long one kind of explanation is held back after each.
const quietTime = 100 * time.Millisecond

// explain says what is wrong with q (nil where no queue pair is meant). code is
// stable and names the kind of fault.
func (e *Engine) explain(q *qp, code, format string, args ...any) {
	if e.journal.log == nil {
		return
	}
	if e.quiet.kinds == nil {
		e.quiet.kinds = make(map[string]*quiet)
	}
	k := e.quiet.kinds[code]
	if k == nil {
		k = new(quiet)
		e.quiet.kinds[code] = k
	}
	now := time.Now()
	if now.Before(k.until) {
		k.held++
		return
	}
	attrs := []any{slog.String("code", code)}
	if q != nil {
		attrs = append(attrs, slog.String("qp", fmt.Sprintf("%#06x", q.num)),
			slog.Int("wqe", int(uint16(q.sent))), slog.String("client", q.client.name))
	}
	if k.held > 0 {
		attrs = append(attrs, slog.Int("unsaid", k.held))
	}
	k.until, k.held = now.Add(quietTime), 0
	e.journal.say(slog.LevelWarn, fmt.Sprintf(format, args...), attrs...)
}
