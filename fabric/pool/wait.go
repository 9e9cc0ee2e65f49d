package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// patience is how long a node waits for node 0 before it warns of that.
const patience = time.Second

// A waiting is a node's wait for node 0, which makes the file and formats the pool. The zero value is a wait
// that has not begun.
type waiting struct {
	began  time.Time
	warned bool
}

// tick waits for one tick, and returns an error if the node has waited for cfg.Wait. The log reports the
// wait at once, for those who follow what happens, and warns of it after some patience. why says
// what is missing.
func (w *waiting) tick(ctx context.Context, cfg *Config, t timer, why error) error {
	now := t.Now()
	if w.began.IsZero() {
		w.began = now
		w.log(ctx, slog.LevelInfo, cfg, why)
	}
	waited := now.Sub(w.began)
	switch {
	case waited >= cfg.Wait:
		return fmt.Errorf("no pool after %v: %w; %s", waited.Round(time.Millisecond), why, cure(why))
	case waited >= patience && !w.warned:
		w.warned = true
		w.log(ctx, slog.LevelWarn, cfg, why)
	}
	return t.Sleep(ctx, tick)
}

// cure returns what to do about a pool that did not become what this node needs.
func cure(why error) string {
	switch {
	case errors.Is(why, errUnsuited):
		return "ask for what it is, or end its engines and let node 0 format it as this node needs it"
	case errors.Is(why, errVersion):
		return "node 0 formats the pool when that is done"
	}
	return "is node 0 running, with the same file and offset=?"
}

func (w *waiting) log(ctx context.Context, level slog.Level, cfg *Config, why error) {
	cfg.Log.Log(ctx, level, "this node waits until node 0 has formatted the pool",
		"node", cfg.Node, "file", cfg.Path, "why", why, "most", cfg.Wait)
}
