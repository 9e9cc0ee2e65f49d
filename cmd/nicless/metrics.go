//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/nicless/nicless/cmd/nicless/internal/metrics"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/internal/nic"
)

// listenForMetrics listens at the address of --metrics, if there is one, before the engine starts: an address
// that is in use ends the command before a program relies on the engine. serve begins to serve, and prints
// where. stop waits for the end.
func (f *engineFlags) listenForMetrics(stderr io.Writer) (serve, stop func(), err error) {
	if f.metrics == "" {
		return func() {}, func() {}, nil
	}
	l, err := metrics.Listen(f.metrics)
	if at := (*metrics.AddressError)(nil); errors.As(err, &at) {
		return nil, nil, &hinted{err: fmt.Errorf("engine: --metrics %w", err), hint: at.Hint,
			usage: errors.Is(err, metrics.ErrAddress)}
	}
	if err != nil {
		return nil, nil, err
	}
	info, _ := debug.ReadBuildInfo()
	device := func(port int) string { return nic.Names(f.names).Of(uint8(port)) }
	e := metrics.New(f.socket, device, metrics.Build{Version: buildVersion(info), Go: runtime.Version(),
		Protocol: fmt.Sprintf("%d.%d", control.Major, control.Minor)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	close(ended)
	serve = func() {
		fmt.Fprintf(stderr, "nicless: metrics at http://%s/metrics\n", l.Addr())
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			if err := e.Serve(ctx, l); err != nil {
				fmt.Fprintf(stderr, "nicless: error: metrics at %s: %v\n", l.Addr(), err)
			}
		}()
	}
	return serve, func() { cancel(); <-ended; _ = l.Close() }, nil
}
