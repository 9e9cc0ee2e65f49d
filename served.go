//go:build linux && (amd64 || arm64)

package nicless

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"

	"github.com/nicless/nicless/engine"
	"github.com/nicless/nicless/fabric/links"
	"github.com/nicless/nicless/internal/nic"
	"github.com/nicless/nicless/server"
	"github.com/nicless/nicless/verbs"
)

// serveSocket implements Serve.
func serveSocket(ctx context.Context, path string, mode fs.FileMode, cfg Config, ready func()) error {
	listen := func(e *engine.Engine) (*server.Listener, error) { return server.Listen(e, path, mode) }
	return run(ctx, listen, path+VerbsSuffix, mode, cfg, ready)
}

// serveListener implements ServeListener, for a listener at path.
func serveListener(ctx context.Context, l *net.UnixListener, path string, cfg Config, ready func()) error {
	listen := func(e *engine.Engine) (*server.Listener, error) { return server.Use(e, l) }
	return run(ctx, listen, path+VerbsSuffix, 0o600, cfg, ready)
}

// run runs an engine and serves the clients that connect to the socket that listen returns.
func run(ctx context.Context, listen func(*engine.Engine) (*server.Listener, error), dir string, mode fs.FileMode, cfg Config, ready func()) error {
	ec, err := cfg.engine()
	if err != nil {
		return err
	}
	e, err := engine.New(ec)
	if err != nil {
		return err
	}
	// Clients stay connected until the engine has ended their queues in an orderly way,
	// because a client loses its queues when it is disconnected.
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
	table, err := cfg.openLinks(ctx, e)
	if err == nil {
		var l *server.Listener
		if l, err = listen(e); err == nil {
			err = serve(serving, disconnect, e, l, table, dir, mode, cfg, ready)
		}
	}
	stop()
	err = errors.Join(err, <-ended)
	if table != nil {
		err = errors.Join(err, table.Close())
	}
	if cfg.Log != nil {
		s := e.Stats()
		cfg.Log.Info("engine stopped", "wqes", s.WQEs, "failed", s.Failed, "bytes", s.Bytes)
	}
	e.FlushLog(flushTime)
	return err
}

// serve serves clients and, if cfg.VerbsDevices is not 0, programs that use rdma-core. It
// ends when ctx ends or one of the two servers fails.
func serve(ctx context.Context, end func(), e *engine.Engine, l *server.Listener, table *links.Table, dir string, mode fs.FileMode, cfg Config, ready func()) error {
	closeReports, err := table.Serve(strings.TrimSuffix(dir, VerbsSuffix)+LinksSuffix, mode)
	if err != nil {
		return err
	}
	defer closeReports()
	// The socket of reports goes before the listener gives the path to another engine.
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() {
		closeReports()
		endServing()
	})()
	defer endServing()
	if cfg.VerbsDevices == 0 {
		if ready != nil {
			ready()
		}
		return l.Serve(serving)
	}
	var layers []verbs.Link
	for _, l := range cfg.VerbsLinks {
		layers = append(layers, verbs.Link(l))
	}
	failed := make(chan error, 1)
	go func() {
		defer end()
		failed <- verbs.Serve(ctx, dir, e, verbs.Config{Devices: cfg.VerbsDevices, Links: layers, Mode: mode, Log: cfg.Log, Fabric: table}, ready)
	}()
	err = l.Serve(serving)
	end()
	return errors.Join(err, <-failed)
}

// ErrLink is wrapped in the error of an engine that cannot open one of Config.Links.
var ErrLink = errors.New("nicless: a link cannot be opened")

// openLinks opens the links to other engines.
func (c Config) openLinks(ctx context.Context, e *engine.Engine) (*links.Table, error) {
	list := c.Links
	if list == nil {
		list = []string{"none"}
		if c.VerbsDevices > 0 {
			list = []string{"auto"}
		}
	}
	o, err := links.Parse(list)
	if err != nil {
		return nil, fmt.Errorf("nicless: %w", err)
	}
	if o.Users, err = links.ParseUsers(c.LinkUsers); err != nil {
		return nil, fmt.Errorf("nicless: LinkUsers: %w", err)
	}
	t, err := links.Open(ctx, nic.Of(e), o, c.Log)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLink, err)
	}
	return t, nil
}

// engine returns the configuration of the device.
func (c Config) engine() (engine.Config, error) {
	for _, f := range []struct {
		name string
		v    int
	}{
		{"Limits.Regions", c.Limits.Regions}, {"Limits.PDs", c.Limits.PDs}, {"Limits.MRs", c.Limits.MRs}, {"Limits.CQs", c.Limits.CQs},
		{"Limits.QPs", c.Limits.QPs}, {"Limits.Channels", c.Limits.Channels}, {"VerbsDevices", c.VerbsDevices},
	} {
		if f.v < 0 {
			return engine.Config{}, fmt.Errorf("nicless: %s %d; 0 (the default) and more are possible", f.name, f.v)
		}
	}
	ec := engine.Config{CPUs: c.CPUs, Cores: c.Cores, Stay: c.Stay, DMACores: c.DMACores, Populate: c.Populate, Log: c.Log, Limits: c.Limits}
	switch {
	case c.Monitor:
		ec.Idle = engine.IdleMonitor
	case c.Spin:
		ec.Idle = engine.IdleSpin
	}
	return ec, nil
}
