//go:build linux && (amd64 || arm64)

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"

	"github.com/nicless/nicless/cmd/nicless/internal/metrics"
	"github.com/nicless/nicless/internal/control"
)

// A metricsServer serves the metrics of an engine at an address; a zero one serves nothing.
type metricsServer struct {
	l      net.Listener
	cancel context.CancelFunc
	ended  chan struct{}
}

// listenForMetrics listens at the address that --metrics of a command names, if it is not "". An address that
// is in use ends the command before a program relies on the engine.
func listenForMetrics(command, address string) (*metricsServer, error) {
	if address == "" {
		return new(metricsServer), nil
	}
	l, err := metrics.Listen(address)
	if at := (*metrics.AddressError)(nil); errors.As(err, &at) {
		return nil, &hinted{err: fmt.Errorf("%s: --metrics %w", command, err), hint: at.Hint,
			usage: errors.Is(err, metrics.ErrAddress)}
	}
	if err != nil {
		return nil, err
	}
	return &metricsServer{l: l}, nil
}

// serve begins to serve the metrics of the engine with this socket, and prints where. device returns the name
// of the device at a port.
func (s *metricsServer) serve(socket string, device func(port int) string, stderr io.Writer) {
	if s.l == nil {
		return
	}
	info, _ := debug.ReadBuildInfo()
	e := metrics.New(socket, device, metrics.Build{Version: buildVersion(info), Go: runtime.Version(),
		Protocol: fmt.Sprintf("%d.%d", control.Major, control.Minor)})
	fmt.Fprintf(stderr, "nicless: metrics at http://%s/metrics\n", s.l.Addr())
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.ended = make(chan struct{})
	go func() {
		defer close(s.ended)
		if err := e.Serve(ctx, s.l); err != nil {
			fmt.Fprintf(stderr, "nicless: error: metrics at %s: %v\n", s.l.Addr(), err)
		}
	}()
}

// stop ends the server, and waits for its end.
func (s *metricsServer) stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.ended
	}
	if s.l != nil {
		_ = s.l.Close()
	}
}
