package nicless

import (
	"context"
	"errors"
	"io/fs"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/internal/control"
	"github.com/nicless/nicless/verbs"
)

// Serve runs an engine for other processes, which reach it by [Dial] at the
// unix socket path, until ctx ends; then it returns nil. mode is the socket's
// permission bits: they decide who may connect. ready, unless nil, is called
// once clients can.
//
// A socket left behind by an engine that is gone is replaced; one that still
// answers is an error. In the end the work that has been announced is executed
// or flushed, then clients are disconnected, which they see at once as
// ErrDeviceGone, behind their last completions.
func Serve(ctx context.Context, path string, mode fs.FileMode, cfg Config, ready func()) error {
	e, err := engine.New(cfg.engine())
	if err != nil {
		return err
	}
	// Clients are connected until the engine has ended their queues in order: a
	// client that is disconnected has none any more.
	running, stop := context.WithCancel(ctx)
	defer stop()
	serving, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()

	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		err := e.Run(running, func() { close(started) })
		disconnect()
		ended <- err
	}()
	select {
	case <-started:
	case err := <-ended:
		return err
	}
	l, err := e.Listen(path, mode)
	if err == nil {
		err = serve(serving, disconnect, e, l, path+VerbsSuffix, mode, cfg, ready)
	}
	stop()
	err = errors.Join(err, <-ended)
	if cfg.Log != nil {
		s := e.Stats()
		cfg.Log.Info("engine stopped", "wqes", s[control.CounterWQEs], "failed", s[control.CounterFailed], "bytes", s[control.CounterBytes])
	}
	e.FlushLog(flushTime)
	return err
}

// VerbsSuffix makes the directory that programs of rdma-core are served in out of
// the path of the socket.
const VerbsSuffix = ".verbs"

// serve serves clients, and programs of rdma-core beside them, until ctx ends or
// one of both fails.
func serve(ctx context.Context, end func(), e *engine.Engine, l *engine.Listener, dir string, mode fs.FileMode, cfg Config, ready func()) error {
	if cfg.VerbsDevices == 0 {
		if ready != nil {
			ready()
		}
		return l.Serve(ctx)
	}
	failed := make(chan error, 1)
	go func() {
		defer end()
		failed <- verbs.Serve(ctx, dir, e, verbs.Config{Devices: cfg.VerbsDevices, Mode: mode, Log: cfg.Log}, ready)
	}()
	err := l.Serve(ctx)
	end()
	return errors.Join(err, <-failed)
}

// engine returns the configuration of the device.
func (c Config) engine() engine.Config {
	ec := engine.Config{CPUs: c.CPUs, Cores: c.Cores, Stay: c.Stay, DMACores: c.DMACores, Populate: c.Populate, Log: c.Log, Limits: c.Limits}
	switch {
	case c.Monitor:
		ec.Idle = engine.IdleMonitor
	case c.Spin:
		ec.Idle = engine.IdleSpin
	}
	return ec
}
