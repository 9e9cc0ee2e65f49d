//go:build linux && (amd64 || arm64)

package torture

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/nicless/nicless"
)

// plantInEngine, in tests of this package only, is called when an engine starts.
var plantInEngine func()

// runEngine serves clients until SIGTERM, and reports its resources on request.
func runEngine(w *wire, spec Spec) error {
	if err := errors.Join(limitFiles(engineFiles), become(spec.User)); err != nil {
		return err
	}
	if plantInEngine != nil {
		plantInEngine()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	abandoned := errors.New("the supervisor is gone")
	go func() {
		for o := range w.Orders {
			if o.Do == doResources {
				h := takeResources()
				w.send(Report{Is: isResources, Resources: &h})
			}
		}
		cancel(abandoned)
	}()
	// Only the amount of the log is checked here. The tests of the engine check the text.
	meter := new(logMeter)
	go reportLog(ctx, w, meter)
	cfg := nicless.Config{Cores: spec.Cores, Stay: spec.Stay, Log: meter.logger()}
	err := nicless.Serve(ctx, spec.Socket, socketMode(spec.User), cfg, func() { w.send(Report{Is: isReady}) })
	w.send(Report{Is: isCount, Count: &Count{Log: meter.total()}})
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, abandoned) {
		return cause
	}
	return err
}

// reportLog reports at intervals how much was logged. It cannot wait for the end, because an
// engine may be killed.
func reportLog(ctx context.Context, w *wire, m *logMeter) {
	var told Log
	for t := time.Tick(countTime); ctx.Err() == nil; {
		select {
		case <-t:
		case <-ctx.Done():
		}
		if l := m.total(); l != told {
			told = l
			w.send(Report{Is: isCount, Count: &Count{Log: l}})
		}
	}
}
