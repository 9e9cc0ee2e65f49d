//go:build linux && (amd64 || arm64)

package linktorture

import (
	"context"
	"log/slog"
	"os"

	"github.com/nicless/nicless"
)

// runEngine serves clients until gone is closed.
func runEngine(w *wire, s spec, gone <-chan struct{}) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		<-gone
		stop()
	}()
	cfg := nicless.Config{Links: s.Links,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	return nicless.Serve(ctx, s.Socket, 0o600, cfg, func() { w.send(report{Ready: true}) })
}
