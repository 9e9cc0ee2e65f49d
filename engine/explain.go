package engine

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/wqe"
)

// An explainer says what hardware would pass over in silence, to the client
// that caused it and to the log: at most once in a while for each kind of
// fault, and counts the rest. Each client has its own, so that none can silence
// another's.
type explainer struct {
	kinds map[string]*quiet
}

type quiet struct {
	until time.Time
	held  int // said nothing about
}

// quietTime is how long one kind of explanation is held back after each.
const quietTime = 100 * time.Millisecond

// due reports whether something of this kind may be said now, and how often it
// was held back since the last time.
func (x *explainer) due(code string) (held int, ok bool) {
	if x.kinds == nil {
		x.kinds = make(map[string]*quiet)
	}
	k := x.kinds[code]
	if k == nil {
		k = new(quiet)
		x.kinds[code] = k
	}
	now := time.Now()
	if now.Before(k.until) {
		k.held++
		return 0, false
	}
	held = k.held
	k.until, k.held = now.Add(quietTime), 0
	return held, true
}

// explain says what is wrong with q. code is stable and names the kind of fault.
func (e *Engine) explain(q *qp, code, format string, args ...any) {
	e.say(q.client, q, q.num, code, format, args)
}

// explainTo says what is wrong with another object of a client's, by number.
func (e *Engine) explainTo(c *Client, number uint32, code, format string, args ...any) {
	e.say(c, nil, number, code, format, args)
}

func (e *Engine) say(c *Client, q *qp, number uint32, code, format string, args []any) {
	if e.cfg.Log == nil && c.events < 0 {
		return
	}
	held, ok := c.quiet.due(code)
	if !ok {
		return
	}
	ev := control.Event{Kind: control.EventExplanation, Number: number, Unsaid: uint32(held), Text: fmt.Sprintf(format, args...)}
	copy(ev.Code[:], code)
	attrs := []any{slog.String("code", code), slog.String("object", fmt.Sprintf("%#06x", number)), slog.String("client", c.name)}
	if q != nil {
		ev.Index = uint16(q.sent)
		if q == e.cur {
			ev.HasWQE = 1
			copy(ev.WQE[:], e.wqe[:wqe.BlockSize])
		}
		attrs = append(attrs, slog.Int("wqe", int(ev.Index)))
	}
	if held > 0 {
		attrs = append(attrs, slog.Int("unsaid", held))
	}
	c.send(&ev)
	if e.cfg.Log != nil {
		e.cfg.Log.Warn(ev.Text, attrs...)
	}
}
