package torture

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/nicless/nicless"
)

// runEngine serves clients until SIGTERM, and reports what it holds when asked.
func runEngine(w *wire, spec Spec) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	orphan := errors.New("the supervisor is gone")
	go func() {
		for o := range w.Orders {
			if o.Do == doHold {
				h := holds()
				w.say(Report{Is: isHolds, Holds: &h})
			}
		}
		cancel(orphan)
	}()
	// What the device says of its clients is judged elsewhere; here it has to be said.
	cfg := nicless.Config{Cores: spec.Cores, Stay: spec.Stay, Log: slog.New(slog.DiscardHandler)}
	err := nicless.Serve(ctx, spec.Socket, 0o600, cfg, func() { w.say(Report{Is: isReady}) })
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, orphan) {
		return cause
	}
	return err
}
